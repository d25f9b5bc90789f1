//! networking/v1 Ingress.

use std::net::IpAddr;

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::address::validate_ip;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDS: [&str; 2] = ["/..", "/."];
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";

/// The rules of ingresses.
#[derive(Debug)]
pub struct Ingress;

impl Strategy for Ingress {
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        let key = context.brand.label("ingress.class");
        let annotated = new.at("metadata").at("annotations").get(&key).and_then(Value::as_str);
        let class = new.at("spec").at("ingressClassName").as_str();
        if let (Some(annotated), Some(class)) = (annotated, class)
            && annotated != class
        {
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(FieldError::invalid_str(Path::new("annotations").child(&key), annotated, detail));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            errors.extend(validate_status(old, new));
            return errors;
        }
        errors.extend(object_meta::whole(context, new, true, NameRule::Dns1123Subdomain));
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        let key = context.brand.label("ingress.class");
        let is_annotated = |ingress: &Value| ingress.at("metadata").at("annotations").has(&key);
        if old.is_some() || !is_annotated(new) {
            return Vec::new();
        }
        vec![format!("annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead")]
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let class = spec.at("ingressClassName").as_str().unwrap_or("<none>");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(class),
            json!(hosts(spec.items("rules"))),
            json!(addresses(object.at("status").at("loadBalancer"))),
            json!(if spec.is_empty_at("tls") { "80" } else { "80, 443" }),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if spec.items("rules").is_empty() && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(path.clone(), "null", detail));
    }
    if spec.has("defaultBackend") {
        errors.extend(validate_backend(spec.at("defaultBackend"), &path.child("defaultBackend")));
    }
    let rules = path.child("rules");
    for (at, rule) in spec.items("rules").iter().numbered() {
        errors.extend(validate_rule(rule, &rules.index(at)));
    }
    let tls = path.child("tls");
    for (at, entry) in spec.items("tls").iter().numbered() {
        let (hosts, secret) = (tls.index(at).child("hosts"), entry.text("secretName"));
        for (at, host) in entry.texts("hosts").into_iter().numbered() {
            errors.extend(invalid_each(&hosts.index(at), host, host_messages(host)));
        }
        if !secret.is_empty() {
            errors.extend(invalid_each(
                &tls.index(at).child("secretName"),
                secret,
                names::dns1123_subdomain(secret),
            ));
        }
    }
    if let Some(class) = spec.at("ingressClassName").as_str() {
        errors.extend(invalid_each(&path.child("ingressClassName"), class, names::dns1123_subdomain(class)));
    }
    errors
}

fn host_messages(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_subdomain(host) } else { names::dns1123_subdomain(host) }
}

fn validate_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (host, host_path) = (rule.text("host"), path.child("host"));
    if !host.is_empty() {
        if host.parse::<IpAddr>().is_ok() {
            errors.push(FieldError::invalid_str(host_path.clone(), host, NOT_AN_ADDRESS));
        }
        errors.extend(invalid_each(&host_path, host, host_messages(host)));
    }
    if rule.has("http") {
        let (paths, path) = (rule.at("http").items("paths"), path.child("http").child("paths"));
        if paths.is_empty() {
            errors.push(FieldError::required(path.clone(), ""));
        }
        for (at, entry) in paths.iter().numbered() {
            errors.extend(validate_path(entry, &path.index(at)));
        }
    }
    errors
}

fn validate_path(entry: &Value, path: &Path) -> FieldErrors {
    let Some(kind) = entry.at("pathType").as_str() else {
        return FieldErrors::from(FieldError::required(path.child("pathType"), "pathType must be specified"));
    };
    let (target, target_path) = (entry.text("path"), path.child("path"));
    let mut errors = FieldErrors::new();
    let mut refuse = |detail: &str| errors.push(FieldError::invalid_str(target_path.clone(), target, detail));
    let absolute = target.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !absolute {
                refuse("must be an absolute path");
            }
            for part in BAD_SEQUENCES.into_iter().filter(|part| target.contains(part)) {
                refuse(&format!("must not contain '{part}'"));
            }
            for end in BAD_ENDS.into_iter().filter(|end| target.ends_with(end)) {
                refuse(&format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            if !target.is_empty() && !absolute {
                refuse("must be an absolute path");
            }
        }
        _ => errors.push(FieldError::not_supported(path.child("pathType"), kind, &PATH_TYPES)),
    }
    errors.extend(validate_backend(entry.at("backend"), &path.child("backend")));
    errors
}

fn validate_backend(backend: &Value, path: &Path) -> FieldErrors {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            FieldErrors::from(FieldError::invalid_str(path.clone(), "", detail))
        }
        (true, false) => validate_resource(backend.at("resource"), &path.child("resource")),
        (false, true) => validate_service(backend.at("service"), path),
        (false, false) => FieldErrors::from(FieldError::invalid_str(
            path.clone(),
            "",
            "resource or service backend is required",
        )),
    }
}

fn validate_service(service: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (name, own) = (service.text("name"), path.child("service"));
    if name.is_empty() {
        errors.push(FieldError::required(own.child("name"), ""));
    } else {
        errors.extend(invalid_each(&own.child("name"), name, names::dns1123_label(name)));
    }
    let port = service.at("port");
    let (port_name, number) = (port.text("name"), port.int("number").unwrap_or(0));
    match (port_name.is_empty(), number) {
        (true, 0) => errors.push(FieldError::required(path.clone(), "port name or number is required")),
        (true, number) => {
            let path = own.child("port").child("number");
            let messages = names::port_number(number);
            errors.extend(messages.iter().map(|m| FieldError::invalid(path.clone(), &number.to_string(), m)));
        }
        (false, 0) => {
            let path = own.child("port").child("name");
            errors.extend(invalid_each(&path, port_name, names::port_name(port_name)));
        }
        (false, _) => {
            let detail = "cannot set both port name & port number";
            errors.push(FieldError::invalid_str(path.clone(), "", detail));
        }
    }
    errors
}

fn validate_resource(resource: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(group) = resource.at("apiGroup").as_str() {
        errors.extend(invalid_each(&path.child("apiGroup"), group, names::dns1123_subdomain(group)));
    }
    for field in ["kind", "name"] {
        let value = resource.text(field);
        if value.is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        } else {
            errors.extend(invalid_each(&path.child(field), value, names::path_segment(value)));
        }
    }
    errors
}

fn validate_status(old: &Value, new: &Value) -> FieldErrors {
    let points = |ingress: &'_ Value| ingress.at("status").at("loadBalancer").items("ingress").to_vec();
    // Addresses that are there may have a form that is refused by now.
    let before = points(old);
    let known: Distinct<&str> = before.iter().map(|point| point.text("ip")).collect();
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let mut errors = FieldErrors::new();
    for (at, point) in points(new).iter().numbered() {
        let (ip, host, path) = (point.text("ip"), point.text("hostname"), path.index(at));
        if !ip.is_empty() && !known.has(&ip) {
            errors.extend(validate_ip(&path.child("ip"), ip));
        }
        if !host.is_empty() {
            errors.extend(invalid_each(&path.child("hostname"), host, names::dns1123_subdomain(host)));
            if host.parse::<IpAddr>().is_ok() {
                errors.push(FieldError::invalid_str(path.child("hostname"), host, NOT_AN_ADDRESS));
            }
        }
    }
    errors
}

fn hosts(rules: &[Value]) -> String {
    const SHOWN_MAX: usize = 3;
    let mut named = rules.iter().enumerate().filter(|(_, rule)| !rule.text("host").is_empty());
    let shown: Vec<(usize, &Value)> = named.by_ref().take(SHOWN_MAX).collect();
    let hosts = shown.iter().map(|(_, rule)| rule.text("host")).collect::<Vec<_>>().join(",");
    // As in the reference rules without a host count, too, once three hosts are shown.
    match shown.last() {
        None => "*".to_owned(),
        Some((at, _)) if shown.len() == SHOWN_MAX && at + 1 < rules.len() => {
            format!("{hosts} + {} more...", rules.len() - SHOWN_MAX)
        }
        Some(_) => hosts,
    }
}

fn addresses(balancer: &Value) -> String {
    let points = balancer.items("ingress").iter();
    let mut all: Vec<&str> = points
        .map(|point| if point.text("ip").is_empty() { point.text("hostname") } else { point.text("ip") })
        .filter(|a| !a.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, created};

    fn service(port: Value) -> Value {
        json!({"service": {"name": "s", "port": port}})
    }

    #[test]
    fn something_is_behind_an_ingress() {
        let ingress = created(&Ingress, json!({"spec": {"defaultBackend": service(json!({"number": 80}))}}));
        assert_eq!(
            json!(Ingress.table_row(&ingress, CONTEXT.now)),
            json!(["n", "<none>", "*", "", "80", "<unknown>"])
        );
        for (spec, expected) in [
            (json!({"defaultBackend": service(json!({"number": 80}))}), &[][..]),
            (json!({}), &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
            (
                json!({"defaultBackend": {}}),
                &["spec.defaultBackend: Invalid value: \"\": resource or service backend is required"],
            ),
            (
                json!({"defaultBackend": service(json!({}))}),
                &["spec.defaultBackend: Required value: port name or number is required"],
            ),
            (
                json!({"rules": [{"host": "10.0.0.1", "http": {}}]}),
                &[
                    "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
                    "spec.rules[0].http.paths: Required value",
                ],
            ),
            (
                json!({"rules": [{"http": {"paths": [
                    {"path": "a//b", "pathType": "Prefix", "backend": service(json!({"name": "http"}))}, {},
                    {"pathType": "Fuzzy", "backend": service(json!({"name": "a", "number": 1}))}
                ]}}]}),
                &[
                    "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must be an absolute path",
                    "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must not contain '//'",
                    "spec.rules[0].http.paths[1].pathType: Required value: pathType must be specified",
                    "spec.rules[0].http.paths[2].pathType: Unsupported value: \"Fuzzy\": supported values: \"Exact\", \
                     \"ImplementationSpecific\", \"Prefix\"",
                    "spec.rules[0].http.paths[2].backend: Invalid value: \"\": cannot set both port name & port number",
                ],
            ),
        ] {
            check_create(&Ingress, json!({"spec": spec}), expected);
        }
        check_hostile(&Ingress);
    }

    #[test]
    fn addresses_of_a_status_are_strict_unless_they_were_there() {
        let context = Context { action: Action::Status, ..CONTEXT };
        let reached = |ips: &[&str]| {
            let points: Vec<Value> = ips.iter().map(|ip| json!({"ip": *ip})).collect();
            json!({"spec": {}, "status": {"loadBalancer": {"ingress": points}}})
        };
        let path = "status.loadBalancer.ingress";
        for (ip, detail) in [
            ("010.0.0.1", "must not have leading 0s"),
            ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
            ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ] {
            let error = format!("{path}[1].ip: Invalid value: \"{ip}\": {detail}");
            let mut old = reached(&["10.0.0.1"]);
            let errors = |old: &Value| {
                let errors = Ingress.validate_update(&context, old, &reached(&["10.0.0.1", ip]));
                errors
                    .iter()
                    .map(ToString::to_string)
                    .filter(|text| text.starts_with(path))
                    .collect::<Vec<_>>()
            };
            assert_eq!(errors(&old), [error]);
            old = reached(&[ip]);
            assert!(errors(&old).is_empty(), "{ip}");
        }
    }

    #[test]
    fn hosts_are_counted_and_addresses_are_shown_whole() {
        let rule = |host: &str| json!({"host": host});
        for (given, expected) in [
            (&["a", "b", "c", "d"] as &[&str], "a,b,c + 1 more..."),
            (&["", "a", "b", "c", "d"], "a,b,c + 2 more..."),
            (&["a", "b", "c", ""], "a,b,c + 1 more..."),
            (&["", "a", "b", "c"], "a,b,c"),
            (&["", ""], "*"),
        ] {
            let rules: Vec<Value> = given.iter().map(|host| rule(host)).collect();
            assert_eq!(hosts(&rules), expected, "{given:?}");
        }
        let both = json!({"ingress": [{"ip": "10.0.0.1", "hostname": "a"}]});
        assert_eq!(addresses(&both), "10.0.0.1");
        assert_eq!(
            addresses(&json!({"ingress": [{"ip": "10.0.0.1"}, {"hostname": "long.example.com"}]})),
            "10.0.0.1,long.example.com"
        );
    }
}
