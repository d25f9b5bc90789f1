//! Scheduling fields of a pod: affinity, tolerations, preemption policy and gates.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::container::one_of;
use crate::kinds::pod::spread::validate_label_keys;
use crate::validate::metadata::{invalid_each, validate_label_name};
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const BAD_OPERATOR: &str = "not a valid selector operator";
const BAD_WEIGHT: &str = "must be in the range 1-100";

/// Rules for `affinity`.
pub(super) fn validate_affinity(affinity: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_node_affinity(affinity.at("nodeAffinity"), &path.child("nodeAffinity"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (terms, path) = (affinity.at(kind), path.child(kind));
        let required = path.child(REQUIRED);
        for (at, term) in terms.items(REQUIRED).iter().numbered() {
            errors.extend(validate_pod_term(term, &required.index(at)));
        }
        let preferred = path.child(PREFERRED);
        for (at, weighted) in terms.items(PREFERRED).iter().numbered() {
            let path = preferred.index(at);
            errors.extend(validate_weight(weighted, &path));
            errors.extend(validate_pod_term(weighted.at("podAffinityTerm"), &path.child("podAffinityTerm")));
        }
    }
    errors
}

/// Rules for `tolerations`.
pub(crate) fn validate_tolerations(tolerations: &[Value], path: &Path) -> FieldErrors {
    let items = tolerations.iter().numbered();
    items.flat_map(|(at, toleration)| validate_toleration(toleration, &path.index(at))).collect()
}

/// Checks the effect of a taint or toleration.
pub(crate) fn validate_effect(effect: &str, path: Path) -> Option<FieldError> {
    (!EFFECTS.contains(&effect)).then(|| FieldError::not_supported(path, effect, &EFFECTS))
}

/// Validates `preemptionPolicy` of a pod spec or a priority class.
pub(crate) fn validate_preemption_policy(holder: &Value, path: &Path) -> Option<FieldError> {
    if !holder.has("preemptionPolicy") {
        return None;
    }
    one_of(holder, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path)
}

/// Rules for `schedulingGates`.
pub(super) fn validate_gates(gates: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, gate) in gates.iter().numbered() {
        let (name, path) = (gate.text("name"), path.index(at));
        errors.extend(invalid_each(&path, name, names::qualified_name(name)));
        if seen.is_repeated(name) {
            errors.push(FieldError::duplicate(path, &super::quoted(name)));
        }
    }
    errors
}

/// Rules for a selector of nodes: at least one term, each valid.
pub(crate) fn validate_node_selector(selector: &Value, path: &Path) -> FieldErrors {
    let (terms, path) = (selector.items("nodeSelectorTerms"), path.child("nodeSelectorTerms"));
    let mut errors = FieldErrors::new();
    if terms.is_empty() {
        errors.push(FieldError::required(path.clone(), "must have at least one node selector term"));
    }
    for (at, term) in terms.iter().numbered() {
        errors.extend(validate_node_term(term, true, &path.index(at)));
    }
    errors
}

fn validate_node_affinity(affinity: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if affinity.has(REQUIRED) {
        errors.extend(validate_node_selector(affinity.at(REQUIRED), &path.child(REQUIRED)));
    }
    let preferred = path.child(PREFERRED);
    for (at, term) in affinity.items(PREFERRED).iter().numbered() {
        let path = preferred.index(at);
        errors.extend(validate_weight(term, &path));
        errors.extend(validate_node_term(term.at("preference"), false, &path.child("preference")));
    }
    errors
}

fn validate_weight(term: &Value, path: &Path) -> Option<FieldError> {
    let weight = term.int("weight").unwrap_or(0);
    let valid = (1..=100).contains(&weight);
    (!valid).then(|| FieldError::invalid(path.child("weight"), &weight.to_string(), BAD_WEIGHT))
}

/// `is_required`: no pod can wait for a label with a value that labels cannot have; a preference for one does no harm.
fn validate_node_term(term: &Value, is_required: bool, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let expressions = path.child("matchExpressions");
    for (at, requirement) in term.items("matchExpressions").iter().numbered() {
        let path = expressions.index(at);
        errors.extend(validate_node_requirement(requirement, &path));
        if is_required {
            let values = path.child("values");
            for (at, value) in requirement.texts("values").into_iter().numbered() {
                errors.extend(invalid_each(&values.index(at), value, names::label_value(value)));
            }
        }
    }
    let fields = path.child("matchFields");
    for (at, requirement) in term.items("matchFields").iter().numbered() {
        errors.extend(validate_node_field(requirement, &fields.index(at)));
    }
    errors
}

fn validate_node_requirement(requirement: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (values, values_path) = (requirement.items("values"), path.child("values"));
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(values_path, detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(values_path, detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(values_path, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid_str(path.child("operator"), other, BAD_OPERATOR)),
    }
    errors.extend(validate_label_name(requirement.text("key"), &path.child("key")));
    errors
}

fn validate_node_field(requirement: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match requirement.text("operator") {
        "In" | "NotIn" if requirement.items("values").len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(path.child("values"), detail));
        }
        "In" | "NotIn" => {}
        other => errors.push(FieldError::invalid_str(path.child("operator"), other, BAD_OPERATOR)),
    }
    let key = requirement.text("key");
    if key != "metadata.name" {
        errors.push(FieldError::invalid_str(path.child("key"), key, "not a valid field selector key"));
        return errors;
    }
    for (at, value) in requirement.texts("values").into_iter().numbered() {
        errors.extend(invalid_each(&path.child("values").index(at), value, names::dns1123_subdomain(value)));
    }
    errors
}

fn validate_pod_term(term: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_label_selector(term.at("labelSelector"), &path.child("labelSelector"));
    errors.extend(validate_label_selector(term.at("namespaceSelector"), &path.child("namespaceSelector")));
    for namespace in term.texts("namespaces") {
        errors.extend(invalid_each(&path.child("namespace"), namespace, names::dns1123_label(namespace)));
    }
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
    }
    errors.extend(validate_label_name(key, &path.child("topologyKey")));
    errors.extend(validate_label_keys(term, path));
    errors
}

fn validate_toleration(toleration: &Value, path: &Path) -> FieldErrors {
    let (key, operator, value) =
        (toleration.text("key"), toleration.text("operator"), toleration.text("value"));
    let effect = toleration.text("effect");
    let operator_path = path.child("operator");
    let mut errors = FieldErrors::new();
    if !key.is_empty() {
        errors.extend(validate_label_name(key, &path.child("key")));
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid_str(operator_path.clone(), operator, detail));
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid_str(path.child("effect"), effect, detail));
    }
    match operator {
        "" | "Equal" => {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                errors.push(FieldError::invalid_str(operator_path, value, &messages.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid_str(operator_path, value, detail));
        }
        "Exists" => {}
        // Comparisons of numbers are not among the features that are switched on.
        "Lt" | "Gt" => {
            let known = ["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::not_supported(operator_path, operator, &known));
        }
        other => errors.push(FieldError::not_supported(operator_path, other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        errors.extend(validate_effect(effect, path.child("effect")));
    }
    errors
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn texts(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_toleration_matches_its_operator_and_effect() {
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), &[][..]),
            (json!({"key": "a", "value": "b", "effect": "NoSchedule"}), &[]),
            (
                json!({"value": "b"}),
                &[
                    "t[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \
                   \"match all values and all keys\"",
                ],
            ),
            (
                json!({"key": "a", "tolerationSeconds": 3, "effect": "NoSchedule"}),
                &[
                    "t[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is \
                   set",
                ],
            ),
            (
                json!({"key": "a", "operator": "Lt", "value": "1"}),
                &[
                    "t[0].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \
                     \"Gt\"",
                ],
            ),
            (
                json!({"key": "a", "operator": "Near", "effect": "Nope"}),
                &[
                    "t[0].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\"",
                    "t[0].effect: Unsupported value: \"Nope\": supported values: \"NoSchedule\", \
                     \"PreferNoSchedule\", \"NoExecute\"",
                ],
            ),
        ] {
            assert_eq!(texts(validate_tolerations(&[toleration], &Path::new("t"))), expected);
        }
    }

    #[test]
    fn affinity_terms_are_complete_and_weighted() {
        let affinity = json!({
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": []},
                PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]
            },
            "podAffinity": {REQUIRED: [{"labelSelector": {}, "topologyKey": "zone"}]}
        });
        let preferred = format!("a.nodeAffinity.{PREFERRED}[0]");
        assert_eq!(
            texts(validate_affinity(&affinity, &Path::new("a"))),
            [
                format!(
                    "a.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one node \
                     selector term"
                ),
                format!("{preferred}.weight: Invalid value: 0: must be in the range 1-100"),
                format!(
                    "{preferred}.preference.matchExpressions[0].values: Required value: must be specified single value \
                     when `operator` is 'Lt' or 'Gt'"
                ),
            ]
        );
    }

    #[test]
    fn required_labels_have_values_that_labels_can_have() {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "-1"]}]});
        let affinity = json!({"nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [term]}, PREFERRED: [{"weight": 1, "preference": term}]
        }});
        let errors = validate_affinity(&affinity, &Path::new("a"));
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        let terms = format!("a.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        assert_eq!(paths, [format!("{terms}[0].matchExpressions[0].values[1]")]);
    }

    #[test]
    fn gates_are_distinct() {
        let gate = json!({"name": "a"});
        assert_eq!(
            texts(validate_gates(&[gate.clone(), gate], &Path::new("g"))),
            ["g[1]: Duplicate value: \"a\""]
        );
    }
}
