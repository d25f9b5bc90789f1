//! networking/v1 NetworkPolicy.

use std::iter;

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::pod::probe::validate_port;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::address::{Cidr, cidr_warnings, validate_cidr};
use crate::validate::selector::{format_label_selector, validate_label_selector};
use crate::validate::tree::{Tree, child_mut, items_mut, set, set_default_text, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];
/// Most warnings about one policy: the header that carries them is bounded, too.
const WARNINGS_MAX: usize = 32;

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
        errors.extend(validate_spec(&Distinct::new(), new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        // Ranges that the policy has may have a form that is refused by now.
        let kept = ranges(old.at("spec")).map(|(range, _)| range).collect();
        errors.extend(validate_spec(&kept, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        let warnings =
            ranges(new.at("spec")).flat_map(|(range, path)| cidr_warnings(context.brand, &path, range));
        warnings.take(WARNINGS_MAX).collect()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(format_label_selector(object.at("spec").at("podSelector"))),
            json!(age::age(object, now)),
        ])
    }
}

/// The ranges of addresses in a policy's spec, each with its path.
fn ranges(spec: &Value) -> impl Iterator<Item = (&str, Path)> {
    blocks(spec).flat_map(|(block, path)| {
        let except = path.child("except");
        let parts = block.texts("except").into_iter().numbered();
        let parts = parts.map(move |(at, part)| (part, except.index(at)));
        iter::once((block.text("cidr"), path.child("cidr"))).chain(parts)
    })
}

/// The blocks of addresses among the peers of a policy, each with its path.
fn blocks(spec: &Value) -> impl Iterator<Item = (&Value, Path)> {
    DIRECTIONS.into_iter().flat_map(move |(direction, peers)| {
        let rules = Path::new("spec").child(direction);
        spec.items(direction).iter().numbered().flat_map(move |(at, rule)| {
            let path = rules.index(at).child(peers);
            let with_block = rule.items(peers).iter().numbered().filter(|(_, peer)| peer.has("ipBlock"));
            with_block.map(move |(at, peer)| (peer.at("ipBlock"), path.index(at).child("ipBlock")))
        })
    })
}

/// Rules for a policy's spec. `kept` are ranges that need no check.
fn validate_spec(kept: &Distinct<&str>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_label_selector(spec.at("podSelector"), &path.child("podSelector"));
    for (direction, peers) in DIRECTIONS {
        let rules = path.child(direction);
        for (at, rule) in spec.items(direction).iter().numbered() {
            let (ports, peers_path) = (rules.index(at).child("ports"), rules.index(at).child(peers));
            for (at, port) in rule.items("ports").iter().numbered() {
                errors.extend(validate_policy_port(port, &ports.index(at)));
            }
            for (at, peer) in rule.items(peers).iter().numbered() {
                errors.extend(validate_peer(kept, peer, &peers_path.index(at)));
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

fn validate_peer(kept: &Distinct<&str>, peer: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let selectors: Vec<&str> =
        ["podSelector", "namespaceSelector"].into_iter().filter(|selector| peer.has(selector)).collect();
    for selector in &selectors {
        errors.extend(validate_label_selector(peer.at(selector), &path.child(selector)));
    }
    if peer.has("ipBlock") {
        errors.extend(validate_block(kept, peer.at("ipBlock"), &path.child("ipBlock")));
        if !selectors.is_empty() {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(path.clone(), detail));
        }
    } else if selectors.is_empty() {
        errors.push(FieldError::required(path.clone(), "must specify a peer"));
    }
    errors
}

fn validate_block(kept: &Distinct<&str>, block: &Value, path: &Path) -> FieldErrors {
    let refuse = |path: &Path, range: &str| {
        if kept.has(&range) { None } else { validate_cidr(path, range) }
    };
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        return FieldErrors::from(FieldError::required(path.child("cidr"), ""));
    }
    let mut errors: FieldErrors = refuse(&path.child("cidr"), cidr).into_iter().collect();
    let Some(whole) = Cidr::parse_loose(cidr) else { return errors };
    let except = path.child("except");
    for (at, part) in block.texts("except").into_iter().numbered() {
        let path = except.index(at);
        errors.extend(refuse(&path, part));
        if Cidr::parse_loose(part).is_some_and(|part| !part.is_strictly_within(whole)) {
            errors.push(FieldError::invalid_str(path, part, "must be a strict subset of `cidr`"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn an_empty_policy_is_about_ingress() {
        let policy = created(&NetworkPolicy, json!({}));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
        let policy = created(&NetworkPolicy, json!({"spec": {"egress": [{"ports": [{"port": 80}]}]}}));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
        assert_eq!(json!(NetworkPolicy.table_row(&policy, CONTEXT.now)), json!(["n", "<none>", "<unknown>"]));
    }

    fn with_block(block: Value) -> Value {
        json!({"spec": {"ingress": [{"from": [{"ipBlock": block}]}]}})
    }

    #[test]
    fn ranges_have_one_form() {
        let path = "spec.ingress[0].from[0].ipBlock";
        for (block, expected) in [
            (json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}), vec![]),
            (json!({}), vec![format!("{path}.cidr: Required value")]),
            (
                json!({"cidr": "x", "except": ["y"]}),
                vec![format!(
                    "{path}.cidr: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
                )],
            ),
            (
                json!({"cidr": "10.0.0.1/8", "except": ["10.0.0.0/8"]}),
                vec![
                    format!(
                        "{path}.cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"
                    ),
                    format!(
                        "{path}.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`"
                    ),
                ],
            ),
            (
                json!({"cidr": "010.0.0.0/8"}),
                vec![format!(
                    "{path}.cidr: Invalid value: \"010.0.0.0/8\": must not have leading 0s in IP or prefix length"
                )],
            ),
        ] {
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check_create(&NetworkPolicy, with_block(block), &expected);
        }
        let old = with_block(json!({"cidr": "010.0.0.0/8", "except": ["10.1.0.1/16"]}));
        check_update(&NetworkPolicy, old.clone(), old.clone(), &[]);
        let new = with_block(json!({"cidr": "010.0.0.0/8", "except": ["10.1.0.2/16"]}));
        let error = format!(
            "{path}.except[0]: Invalid value: \"10.1.0.2/16\": must not have bits set beyond the prefix length"
        );
        check_update(&NetworkPolicy, old, new, &[&error]);
    }

    #[test]
    fn unusual_ranges_are_warned_of() {
        let block = json!({"cidr": "2001:DB8::/32", "except": ["2001:db8::/48", "2001:DB8::/64"]});
        let policy = json!({"spec": {"egress": [{}, {"to": [{"podSelector": {}}, {"ipBlock": block}]}]}});
        let told = |range: &str, canonical: &str| {
            format!("IPv6 CIDR value \"{range}\" should be in RFC 5952 canonical format (\"{canonical}\")")
        };
        assert_eq!(
            NetworkPolicy.warnings(&CONTEXT, None, &policy),
            [
                format!("spec.egress[1].to[1].ipBlock.cidr: {}", told("2001:DB8::/32", "2001:db8::/32")),
                format!("spec.egress[1].to[1].ipBlock.except[1]: {}", told("2001:DB8::/64", "2001:db8::/64")),
            ]
        );
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
