//! The status of a service: where a balancer outside the cluster serves it, and how tables show that.

use std::collections::BTreeSet;
use std::net::IpAddr;

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::{EXTERNAL_NAME, LOAD_BALANCER, or_none};
use crate::validate::address::validate_ip;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

const IP_MODES: [&str; 2] = ["Proxy", "VIP"];

/// The rules of `status.loadBalancer`.
pub(super) fn validate_balancer(service: &Value) -> FieldErrors {
    let points = service.at("status").at("loadBalancer").items("ingress");
    let path = Path::new("status").child("loadBalancer").child("ingress");
    if service.at("spec").text("type") != LOAD_BALANCER && !points.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        return FieldErrors::from(FieldError::forbidden(path, detail));
    }
    let mut errors = FieldErrors::new();
    for (at, point) in points.iter().numbered() {
        errors.extend(validate_point(point, &path.index(at)));
    }
    errors
}

fn validate_point(point: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (ip, hostname, mode_path) = (point.text("ip"), point.text("hostname"), path.child("ipMode"));
    if !ip.is_empty() {
        errors.extend(validate_ip(&path.child("ip"), ip));
    }
    match point.at("ipMode").as_str() {
        None if !ip.is_empty() => {
            errors.push(FieldError::required(mode_path, "must be specified when `ip` is set"));
        }
        Some(_) if ip.is_empty() => {
            errors.push(FieldError::forbidden(mode_path, "may not be specified when `ip` is not set"));
        }
        Some(mode) if !IP_MODES.contains(&mode) => {
            errors.push(FieldError::not_supported(mode_path, mode, &IP_MODES));
        }
        _ => {}
    }
    if !hostname.is_empty() {
        errors.extend(invalid_each(&path.child("hostname"), hostname, names::dns1123_subdomain(hostname)));
        if hostname.parse::<IpAddr>().is_ok() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid_str(path.child("hostname"), hostname, detail));
        }
    }
    errors
}

/// The column of addresses outside the cluster.
pub(super) fn format_external_addresses(service: &Value) -> String {
    let spec = service.at("spec");
    let given = spec.texts("externalIPs");
    match spec.text("type") {
        EXTERNAL_NAME => spec.text("externalName").to_owned(),
        LOAD_BALANCER => {
            let points = service.at("status").at("loadBalancer").items("ingress").iter();
            let of_balancer: BTreeSet<&str> = points
                .map(
                    |point| {
                        if point.text("ip").is_empty() { point.text("hostname") } else { point.text("ip") }
                    },
                )
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = of_balancer.into_iter().chain(given).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ClusterIP" | "NodePort" => or_none(given.join(",")),
        _ => "<unknown>".to_owned(),
    }
}
