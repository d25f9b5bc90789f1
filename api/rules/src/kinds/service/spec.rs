//! Rules for the spec of a service, and the warnings about it.

use std::collections::HashSet;

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use super::{
    CLUSTER_IP, EXTERNAL_NAME, HEADLESS, LOAD_BALANCER, NODE_PORT, addresses, is_headless,
    is_reached_from_outside, needs_health_check,
};
use crate::kinds::Context;
use crate::kinds::pod::probe::validate_port;
use crate::validate::address::{
    Family, cidr_warnings, ip_warning, parse_loose, validate_cidr, validate_ip, validate_ordinary_ip,
};
use crate::validate::metadata::{invalid_each, validate_labels};
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const TYPES: [&str; 4] = [CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const TRAFFIC: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
/// The longest a client stays with an endpoint: a day, as in the reference.
const STICKY_SECONDS_MAX: i64 = 86_400;
const BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const NOT_EXTERNAL: &str = "may not be set for ExternalName services";

/// The rules of a whole service.
pub(super) fn validate_service(context: &Context<'_>, service: &Value) -> FieldErrors {
    let (spec, path) = (service.at("spec"), Path::new("spec"));
    let mut errors: FieldErrors = validate_topology(context, service).into_iter().collect();
    errors.extend(validate_type(spec, &path));
    errors.extend(validate_ports(spec, &path.child("ports")));
    errors.extend(validate_labels(spec.at("selector"), &path.child("selector")));
    errors.extend(validate_affinity(spec, &path));
    errors.extend(validate_addresses(spec));
    for (at, address) in spec.texts("externalIPs").into_iter().numbered() {
        let path = path.child("externalIPs").index(at);
        let refused = validate_ip(&path, address);
        errors.extend(refused.or_else(|| validate_ordinary_ip(&path, address)));
    }
    let kind = spec.text("type");
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
    }
    errors.extend(validate_numbers(spec, &path.child("ports")));
    errors.extend(validate_sources(context, service));
    if spec.has("allocateLoadBalancerNodePorts") && kind != LOAD_BALANCER {
        errors.push(FieldError::forbidden(path.child("allocateLoadBalancerNodePorts"), BALANCER_ONLY));
    }
    errors.extend(validate_class(spec, &path.child("loadBalancerClass")));
    errors.extend(validate_outer_traffic(spec, &path));
    errors.extend(validate_choice(spec, "internalTrafficPolicy", &TRAFFIC, &path));
    errors.extend(validate_choice(spec, "trafficDistribution", &DISTRIBUTIONS, &path));
    errors
}

/// An annotation of services: `topology-mode` is `service.orch.io/topology-mode`.
fn annotation(context: &Context<'_>, name: &str) -> String {
    format!("service.{}/{name}", context.brand.label_domain)
}

fn validate_topology(context: &Context<'_>, service: &Value) -> Option<FieldError> {
    let annotations = service.at("metadata").at("annotations");
    let (hints, mode) = (annotation(context, "topology-aware-hints"), annotation(context, "topology-mode"));
    let (old, new) = (annotations.at(&hints).as_str()?, annotations.at(&mode).as_str()?);
    let detail = format!("must match annotations[{hints}] when both are specified");
    let path = Path::new("metadata").child("annotations").key(&mode);
    (old != new).then(|| FieldError::invalid_str(path, new, &detail))
}

fn validate_type(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (kind, is_headless) = (spec.text("type"), is_headless(spec));
    if spec.items("ports").is_empty() && !is_headless && kind != EXTERNAL_NAME {
        errors.push(FieldError::required(path.child("ports"), ""));
    }
    // few: types.
    if is_headless && [LOAD_BALANCER, NODE_PORT].contains(&kind) {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.push(FieldError::invalid_str(path.child("clusterIPs").index(0), HEADLESS, &detail));
    }
    if kind == EXTERNAL_NAME {
        for field in ["clusterIPs", "ipFamilies"] {
            if !spec.items(field).is_empty() {
                errors.push(FieldError::forbidden(path.child(field), NOT_EXTERNAL));
            }
        }
        if spec.has("ipFamilyPolicy") {
            errors.push(FieldError::forbidden(path.child("ipFamilyPolicy"), NOT_EXTERNAL));
        }
        let name = spec.text("externalName");
        match name.strip_suffix('.').unwrap_or(name) {
            "" => errors.push(FieldError::required(path.child("externalName"), "")),
            name => {
                errors.extend(invalid_each(
                    &path.child("externalName"),
                    name,
                    names::dns1123_subdomain(name),
                ));
            }
        }
    }
    errors
}

fn validate_ports(spec: &Value, path: &Path) -> FieldErrors {
    let (mut errors, mut seen) = (FieldErrors::new(), Distinct::new());
    let ports = spec.items("ports");
    for (at, port) in ports.iter().numbered() {
        let (name, path) = (port.text("name"), path.index(at));
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(path.child("name"), ""));
            }
        } else {
            errors.extend(invalid_each(&path.child("name"), name, names::dns1123_label(name)));
            if seen.is_repeated(name) {
                errors.push(FieldError::duplicate(path.child("name"), &orch_schema::excerpt::quoted(name)));
            }
        }
        let number = port.int("port").unwrap_or(0);
        let messages = names::port_number(number);
        errors
            .extend(messages.iter().map(|m| FieldError::invalid(path.child("port"), &number.to_string(), m)));
        errors.extend(validate_protocol(port.text("protocol"), &path.child("protocol")));
        errors.extend(validate_port(port.at("targetPort"), &path.child("targetPort")));
        if let Some(protocol) = port.at("appProtocol").as_str() {
            let messages = names::qualified_name(protocol);
            errors.extend(invalid_each(&path.child("appProtocol"), protocol, messages));
        }
    }
    errors
}

/// Checks the protocol of a port.
pub(in crate::kinds) fn validate_protocol(protocol: &str, path: &Path) -> Option<FieldError> {
    match protocol {
        "" => Some(FieldError::required(path.clone(), "")),
        known if PROTOCOLS.contains(&known) => None,
        other => Some(FieldError::not_supported(path.clone(), other, &PROTOCOLS)),
    }
}

fn validate_affinity(spec: &Value, path: &Path) -> FieldErrors {
    let affinity = spec.text("sessionAffinity");
    let mut errors = FieldErrors::new();
    let config = path.child("sessionAffinityConfig");
    if !AFFINITIES.contains(&affinity) {
        errors.push(FieldError::not_supported(path.child("sessionAffinity"), affinity, &AFFINITIES));
    }
    if affinity == "ClientIP" {
        let seconds = spec.at("sessionAffinityConfig").at("clientIP").int("timeoutSeconds").unwrap_or(0);
        if !(1..=STICKY_SECONDS_MAX).contains(&seconds) {
            let detail = format!("must be greater than 0 and less than {STICKY_SECONDS_MAX}");
            let path = config.child("clientIP").child("timeoutSeconds");
            errors.push(FieldError::invalid(path, &seconds.to_string(), &detail));
        }
    }
    errors
}

/// The rules between `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`.
pub(super) fn validate_addresses(spec: &Value) -> FieldErrors {
    if spec.text("type") == EXTERNAL_NAME {
        return FieldErrors::new();
    }
    let path = Path::new("spec");
    let mut errors: FieldErrors =
        validate_first_address(spec, &path.child("clusterIPs")).into_iter().collect();
    let mut seen = Distinct::new();
    for (at, family) in spec.texts("ipFamilies").into_iter().numbered() {
        let path = path.child("ipFamilies").index(at);
        if Family::named(family).is_none() {
            errors.push(FieldError::not_supported(path.clone(), family, &Family::NAMES));
        }
        if seen.is_repeated(family) {
            errors.push(FieldError::duplicate(path, &orch_schema::excerpt::quoted(family)));
        }
    }
    errors.extend(validate_choice(spec, "ipFamilyPolicy", &POLICIES, &path));
    errors.extend(validate_list(spec, &path.child("clusterIPs")));
    errors
}

fn validate_first_address(spec: &Value, path: &Path) -> Option<FieldError> {
    let (first, list) = (spec.text("clusterIP"), spec.texts("clusterIPs"));
    let refuse = |detail| Some(FieldError::invalid(path.clone(), &shown(spec.at("clusterIPs")), detail));
    match (first, list.first()) {
        ("", None) => None,
        ("", Some(_)) => refuse("must be empty when `clusterIP` is not specified"),
        (_, None) => Some(FieldError::required(path.clone(), "")),
        (first, Some(of_list)) if first == *of_list => None,
        _ => refuse("first value must match `clusterIP`"),
    }
}

fn validate_list(spec: &Value, path: &Path) -> FieldErrors {
    let (mut errors, list) = (FieldErrors::new(), spec.texts("clusterIPs"));
    let refuse = |detail: &str| FieldError::invalid(path.clone(), &shown(spec.at("clusterIPs")), detail);
    let is_headless = list.first() == Some(&HEADLESS);
    if is_headless && list.len() > 1 {
        errors.push(refuse("'None' must be the first and only value"));
    }
    for (at, address) in list.iter().enumerate().skip(usize::from(is_headless)) {
        errors.extend(validate_ip(&path.index(at), address));
    }
    let is_invalid = !errors.is_empty();
    if list.len() > 2 {
        errors.push(refuse("may only hold up to 2 values"));
    }
    if is_invalid {
        return errors;
    }
    let families: HashSet<Family> =
        list.iter().filter_map(|address| parse_loose(address)).map(Family::of).collect();
    if list.len() > 1 && families.len() < 2 {
        errors.push(refuse("may specify no more than one IP for each IP family"));
    }
    if is_headless {
        return errors;
    }
    for (at, (address, wanted)) in list.iter().zip(spec.texts("ipFamilies")).enumerate() {
        let is_other = parse_loose(address).map(|address| Family::of(address).name()) != Some(wanted);
        if is_other && Family::named(wanted).is_some() {
            let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{at}]`");
            errors.push(FieldError::invalid_str(path.index(at), address, &detail));
        }
    }
    errors
}

/// Ports and node ports are distinct for each protocol.
fn validate_numbers(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let ports = || spec.items("ports").iter().numbered();
    if spec.text("type") == CLUSTER_IP {
        for (at, _) in ports().filter(|(_, port)| !port.is_empty_at("nodePort")) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(path.index(at).child("nodePort"), detail));
        }
    }
    let mut seen = Distinct::new();
    for (at, port) in ports() {
        let number = port.int("nodePort").unwrap_or(0);
        if number != 0 && seen.is_repeated((port.text("protocol"), number)) {
            errors.push(FieldError::duplicate(path.index(at).child("nodePort"), &number.to_string()));
        }
    }
    let mut seen = Distinct::new();
    for (at, port) in ports() {
        let (protocol, number) = (port.text("protocol"), port.int("port").unwrap_or(0));
        if seen.is_repeated((protocol, number)) {
            // The reference shows the whole port, with its internal names.
            let value = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0
            });
            errors.push(FieldError::duplicate(path.index(at), &shown(&value)));
        }
    }
    errors
}

/// The sources that a balancer lets in, from the field or else the annotation.
fn validate_sources(context: &Context<'_>, service: &Value) -> FieldErrors {
    let spec = service.at("spec");
    let mut errors = FieldErrors::new();
    let ranges = spec.texts("loadBalancerSourceRanges");
    let key = format!("service.beta.{}/load-balancer-source-ranges", context.brand.label_domain);
    let annotated = service.at("metadata").at("annotations").at(&key).as_str();
    let (path, annotated) = match (ranges.is_empty(), annotated) {
        // The reference spells this path with a capital letter.
        (false, _) => (Path::new("spec").child("LoadBalancerSourceRanges"), ""),
        (true, Some(text)) => (Path::new("metadata").child("annotations").key(&key), text.trim()),
        (true, None) => return errors,
    };
    if spec.text("type") != LOAD_BALANCER {
        errors.push(FieldError::forbidden(path.clone(), BALANCER_ONLY));
    }
    for (at, range) in ranges.into_iter().numbered() {
        errors.extend(validate_cidr(&path.index(at), range.trim()));
    }
    if !annotated.is_empty() {
        errors.extend(annotated.split(',').filter_map(|range| validate_cidr(&path, range.trim())));
    }
    errors
}

pub(super) fn validate_class(spec: &Value, path: &Path) -> FieldErrors {
    match spec.at("loadBalancerClass").as_str() {
        None => FieldErrors::new(),
        Some(class) if spec.text("type") == LOAD_BALANCER => {
            invalid_each(path, class, names::qualified_name(class))
        }
        Some(_) => FieldErrors::from(FieldError::forbidden(path.clone(), BALANCER_ONLY)),
    }
}

fn validate_outer_traffic(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (policy, policy_path) = (spec.text("externalTrafficPolicy"), path.child("externalTrafficPolicy"));
    if is_reached_from_outside(spec) {
        errors.extend(validate_choice(spec, "externalTrafficPolicy", &TRAFFIC, path));
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid_str(policy_path, policy, detail));
    }
    let (port, path) = (spec.int("healthCheckNodePort").unwrap_or(0), path.child("healthCheckNodePort"));
    if needs_health_check(spec) {
        let messages = names::port_number(port);
        errors.extend(messages.iter().map(|m| FieldError::invalid(path.clone(), &port.to_string(), m)));
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(path, &port.to_string(), detail));
    }
    errors
}

fn validate_choice(spec: &Value, field: &str, supported: &[&str], path: &Path) -> Option<FieldError> {
    let value = spec.at(field).as_str()?;
    // few: the values of an enumeration.
    (!supported.contains(&value)).then(|| FieldError::not_supported(path.child(field), value, supported))
}

/// The warnings about a service that is valid.
pub(super) fn warnings(context: &Context<'_>, service: &Value) -> Vec<String> {
    let (spec, path) = (service.at("spec"), Path::new("spec"));
    let (hints, mode) = (annotation(context, "topology-aware-hints"), annotation(context, "topology-mode"));
    let mut warnings = Vec::new();
    if service.at("metadata").at("annotations").has(&hints) {
        warnings.push(format!("annotation {hints} is deprecated, please use {mode} instead"));
    }
    let form = |list: &str, at: usize, address: &str| {
        ip_warning(context.brand, &path.child(list).index(at), address)
    };
    let ips = addresses(spec);
    warnings.extend(ips.iter().enumerate().filter_map(|(at, address)| form("clusterIPs", at, address)));
    let (kind, outer) = (spec.text("type"), spec.texts("externalIPs"));
    let is_headless = kind == CLUSTER_IP && spec.text("clusterIP") == HEADLESS;
    if is_headless {
        let ignored = [
            ("loadBalancerIP", !spec.text("loadBalancerIP").is_empty()),
            ("externalIPs", !outer.is_empty()),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ];
        let ignored = ignored.into_iter().filter(|(_, is_set)| *is_set);
        warnings.extend(ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")));
    }
    warnings.extend(outer.iter().numbered().filter_map(|(at, address)| form("externalIPs", at, address)));
    if !outer.is_empty() && !is_headless && kind != EXTERNAL_NAME {
        let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    let balancer = spec.text("loadBalancerIP");
    warnings.extend(ip_warning(context.brand, &path.child("loadBalancerIP"), balancer));
    let ranges = path.child("loadBalancerSourceRanges");
    for (at, range) in spec.texts("loadBalancerSourceRanges").into_iter().numbered() {
        warnings.extend(cidr_warnings(context.brand, &ranges.index(at), range));
    }
    if kind == EXTERNAL_NAME && !outer.is_empty() {
        warnings.push(format!("spec.externalIPs is ignored when spec.type is {EXTERNAL_NAME:?}"));
    }
    if kind != EXTERNAL_NAME && !spec.text("externalName").is_empty() {
        warnings.push(format!("spec.externalName is ignored when spec.type is not {EXTERNAL_NAME:?}"));
    }
    if spec.text("trafficDistribution") == DISTRIBUTIONS[0] {
        let [old, new, _] = DISTRIBUTIONS;
        warnings.push(format!("spec.trafficDistribution: {old:?} is deprecated; use {new:?}"));
    }
    warnings
}
