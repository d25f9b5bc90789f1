//! networking/v1 NetworkPolicy.

use std::net::IpAddr;

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::node::is_cidr;
use crate::kinds::pod::probe::validate_port;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::selector::{format_label_selector, validate_label_selector};
use crate::validate::tree::{Tree, child_mut, items_mut, set, set_default_text, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];

/// The rules of network policies.
#[derive(Debug)]
pub struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        for (direction, _) in DIRECTIONS {
            for rule in items_mut(spec, direction) {
                for port in items_mut(rule, "ports") {
                    set_default_text(port, "protocol", "TCP");
                }
            }
        }
        if spec.is_empty_at("policyTypes") {
            let both = !spec.items("egress").is_empty();
            set(spec, "policyTypes", if both { json!(POLICY_TYPES) } else { json!([POLICY_TYPES[0]]) });
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(format_label_selector(object.at("spec").at("podSelector"))),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_label_selector(spec.at("podSelector"), &path.child("podSelector"));
    for (direction, peers) in DIRECTIONS {
        let rules = path.child(direction);
        for (at, rule) in spec.items(direction).iter().numbered() {
            let (ports, peers_path) = (rules.index(at).child("ports"), rules.index(at).child(peers));
            for (at, port) in rule.items("ports").iter().numbered() {
                errors.extend(validate_policy_port(port, &ports.index(at)));
            }
            for (at, peer) in rule.items(peers).iter().numbered() {
                errors.extend(validate_peer(peer, &peers_path.index(at)));
            }
        }
    }
    let (types, path) = (spec.texts("policyTypes"), path.child("policyTypes"));
    if types.len() > POLICY_TYPES.len() {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(path, &shown(spec.at("policyTypes")), detail));
        return errors;
    }
    let unknown = types.into_iter().numbered().filter(|(_, kind)| !POLICY_TYPES.contains(kind));
    errors.extend(unknown.map(|(at, kind)| FieldError::not_supported(path.index(at), kind, &POLICY_TYPES)));
    errors
}

fn validate_policy_port(port: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let known = ["TCP", "UDP", "SCTP"];
    if let Some(protocol) = port.at("protocol").as_str().filter(|protocol| !known.contains(protocol)) {
        errors.push(FieldError::not_supported(path.child("protocol"), protocol, &known));
    }
    if port.has("port") {
        errors.extend(validate_port(port.at("port"), &path.child("port")));
    }
    let Some(end) = port.int("endPort") else { return errors };
    let end_path = path.child("endPort");
    match (port.at("port"), port.int("port")) {
        (Value::Null, _) => errors.push(FieldError::invalid(
            end_path,
            &end.to_string(),
            "may not be specified when `port` is not specified",
        )),
        (_, None) => errors.push(FieldError::invalid(
            end_path,
            &end.to_string(),
            "may not be specified when `port` is non-numeric",
        )),
        (_, Some(start)) => {
            // The reference shows the start, here only (vectors/kinds, k-networkpolicy).
            if end < start {
                let detail = "must be greater than or equal to `port`";
                errors.push(FieldError::invalid(end_path.clone(), &start.to_string(), detail));
            }
            let messages = names::port_number(end);
            let of_end = |message: &String| FieldError::invalid(end_path.clone(), &end.to_string(), message);
            errors.extend(messages.iter().map(of_end));
        }
    }
    errors
}

fn validate_peer(peer: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let selectors: Vec<&str> =
        ["podSelector", "namespaceSelector"].into_iter().filter(|selector| peer.has(selector)).collect();
    for selector in &selectors {
        errors.extend(validate_label_selector(peer.at(selector), &path.child(selector)));
    }
    if peer.has("ipBlock") {
        errors.extend(validate_block(peer.at("ipBlock"), &path.child("ipBlock")));
        if !selectors.is_empty() {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(path.clone(), detail));
        }
    } else if selectors.is_empty() {
        errors.push(FieldError::required(path.clone(), "must specify a peer"));
    }
    errors
}

fn validate_block(block: &Value, path: &Path) -> FieldErrors {
    let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        return FieldErrors::from(FieldError::required(path.child("cidr"), ""));
    }
    if !is_cidr(cidr) {
        return FieldErrors::from(FieldError::invalid_str(path.child("cidr"), cidr, detail));
    }
    let mut errors = FieldErrors::new();
    let except = path.child("except");
    for (at, part) in block.texts("except").into_iter().numbered() {
        if !is_cidr(part) {
            errors.push(FieldError::invalid_str(except.index(at), part, detail));
        } else if !is_strictly_within(part, cidr) {
            let detail = "must be a strict subset of `cidr`";
            errors.push(FieldError::invalid_str(except.index(at), part, detail));
        }
    }
    errors
}

fn is_strictly_within(part: &str, whole: &str) -> bool {
    let (Some(part), Some(whole)) = (bits(part), bits(whole)) else { return false };
    let (width, part_bits, part_length) = part;
    let (whole_width, whole_bits, whole_length) = whole;
    let shift = width.saturating_sub(whole_length);
    let prefix = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
    width == whole_width && part_length > whole_length && prefix(part_bits) == prefix(whole_bits)
}

// The width of the address family in bits, the address, and the length of the prefix.
fn bits(cidr: &str) -> Option<(u32, u128, u32)> {
    let (address, length) = cidr.split_once('/')?;
    let length = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(address) => Some((32, u128::from(u32::from(address)), length)),
        IpAddr::V6(address) => Some((128, u128::from(address), length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, created};

    #[test]
    fn an_empty_policy_is_about_ingress() {
        let policy = created(&NetworkPolicy, json!({}));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
        let policy = created(&NetworkPolicy, json!({"spec": {"egress": [{"ports": [{"port": 80}]}]}}));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
        assert_eq!(json!(NetworkPolicy.table_row(&policy, CONTEXT.now)), json!(["n", "<none>", "<unknown>"]));
    }

    #[test]
    fn peers_and_ports() {
        for (spec, expected) in [
            (
                json!({"ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80, "endPort": 90}]}]}),
                &[][..],
            ),
            (
                json!({"ingress": [{"from": [{}]}]}),
                &["spec.ingress[0].from[0]: Required value: must specify a peer"],
            ),
            (
                json!({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.0/8", "10.1.0.0/16"]}}]}]}),
                &[
                    "spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of \
                     `cidr`",
                    "spec.egress[0].to[0].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of \
                     `cidr`",
                ],
            ),
            (
                json!({"ingress": [{"ports": [{"port": "x", "endPort": 90}, {"endPort": 1}, {"port": 80, "endPort": 9, "protocol": "X"}]}]}),
                &[
                    "spec.ingress[0].ports[0].endPort: Invalid value: 90: may not be specified when `port` is \
                     non-numeric",
                    "spec.ingress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is not \
                     specified",
                    "spec.ingress[0].ports[2].protocol: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\", \
                     \"SCTP\"",
                    "spec.ingress[0].ports[2].endPort: Invalid value: 80: must be greater than or equal to `port`",
                ],
            ),
            (
                json!({"policyTypes": ["Sideways"]}),
                &[
                    "spec.policyTypes[0]: Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\"",
                ],
            ),
        ] {
            check_create(&NetworkPolicy, json!({"spec": spec}), expected);
        }
        check_hostile(&NetworkPolicy);
    }
}
