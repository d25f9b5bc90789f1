//! The changes that the spec of a pod allows: images, a deadline, added tolerations, removed scheduling gates, and while
//! there are gates, narrower places to run at. Nothing else.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::container::padded_image;
use crate::kinds::pod::diff::spec_diff;
use crate::kinds::pod::qos::qos_class;
use crate::kinds::pod::scheduling::validate_tolerations;
use crate::validate::tree::{Tree, carry, is_unchanged, items_mut, set, shown, shown_items, unset};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
                         additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set \
                         to 1 if it was previously negative)";

/// Rules for a change of the spec of a pod.
pub(super) fn validate_spec_update(old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("spec");
    let (before, after) = (old.at("spec"), new.at("spec"));
    let mut errors = FieldErrors::new();
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        if before.items(list).len() != after.items(list).len() {
            errors.push(FieldError::forbidden(path, "pod updates may not add or remove containers"));
            return errors;
        }
        errors.extend(validate_images(after.items(list), &path));
    }
    match validate_deadline(before, after, &path) {
        Deadline::Fine => {}
        Deadline::Refused(error) => errors.push(error),
        Deadline::OutOfRange(error) => {
            errors.push(error);
            return errors;
        }
    }
    errors.extend(validate_added_tolerations(before, after, &path.child("tolerations")));
    errors.extend(validate_lifted_gates(before, after, &path.child("schedulingGates")));
    if is_unchanged(before, after) {
        return errors;
    }
    if qos_class(before) != qos_class(after) {
        let class = new.at("status").text("qosClass");
        errors.push(FieldError::invalid_str(Path::new("metadata"), class, "Pod QoS is immutable"));
    }
    let mut allowed = without_allowed_changes(before, after);
    if !before.items("schedulingGates").is_empty() {
        errors.extend(validate_narrowing(before, after, &path));
        keep_places(before, &mut allowed);
    }
    if !is_unchanged(before, &allowed) {
        let diff = spec_diff(before, &allowed);
        errors.push(FieldError::forbidden(path, &format!("{UPDATABLE}\n{diff}")));
    }
    errors
}

fn validate_images(containers: &[Value], list: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, container) in containers.iter().numbered() {
        let path = list.index(at);
        if container.text("image").is_empty() {
            errors.push(FieldError::required(path.child("image"), ""));
        }
        errors.extend(padded_image(container, &path));
    }
    errors
}

enum Deadline {
    Fine,
    Refused(FieldError),
    // The reference makes no further checks then.
    OutOfRange(FieldError),
}

fn validate_deadline(before: &Value, after: &Value, path: &Path) -> Deadline {
    let path = path.child("activeDeadlineSeconds");
    let old = before.int("activeDeadlineSeconds");
    let Some(new) = after.int("activeDeadlineSeconds") else {
        if old.is_none() {
            return Deadline::Fine;
        }
        let detail = "must not update from a positive integer to nil value";
        return Deadline::Refused(FieldError::invalid(path, "null", detail));
    };
    let max = i64::from(i32::MAX);
    let detail = if !(0..=max).contains(&new) {
        format!("must be between 0 and {max}, inclusive")
    } else if old.is_some_and(|old| old < new) {
        "must be less than or equal to previous value".to_owned()
    } else {
        return Deadline::Fine;
    };
    Deadline::OutOfRange(FieldError::invalid(path, &new.to_string(), &detail))
}

fn validate_added_tolerations(before: &Value, after: &Value, path: &Path) -> FieldErrors {
    // Tolerations are told apart by all of their fields but the seconds.
    let identity = |toleration: &'_ Value| {
        ["key", "operator", "value", "effect"].map(|field| toleration.text(field).to_owned())
    };
    let new = after.items("tolerations");
    let there: Distinct<[String; 4]> = new.iter().map(identity).collect();
    let kept = before.items("tolerations").iter().all(|old| there.has(&identity(old)));
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return FieldErrors::from(FieldError::forbidden(path.clone(), detail));
    }
    validate_tolerations(new, path)
}

fn validate_lifted_gates(before: &Value, after: &Value, path: &Path) -> FieldErrors {
    let known: Distinct<&str> =
        before.items("schedulingGates").iter().map(|gate| gate.text("name")).collect();
    let added = after.items("schedulingGates").iter().numbered();
    let added = added.filter(|(_, gate)| !known.has(&gate.text("name")));
    added
        .map(|(at, gate)| {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{}'", gate.text("name"));
            FieldError::forbidden(path.index(at).child("name"), &detail)
        })
        .collect()
}

// The new spec with the old values of all fields that may change. Any difference that is left is refused.
fn without_allowed_changes(before: &Value, after: &Value) -> Value {
    let mut spec = after.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in items_mut(&mut spec, list).iter_mut().zip(before.items(list)) {
            carry(old, container, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        carry(before, &mut spec, field);
    }
    let period = "terminationGracePeriodSeconds";
    if before.int(period).is_some_and(|old| old < 0) && after.int(period) == Some(1) {
        carry(before, &mut spec, period);
    }
    spec
}

/// Rules for a change of where a gated pod may run: nodes are left out, and never added.
fn validate_narrowing(before: &Value, after: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (old, new) = (before.at("nodeSelector"), after.at("nodeSelector"));
    let mut wanted = old.as_object().into_iter().flatten();
    if !wanted.all(|(key, value)| new.get(key) == Some(value)) {
        let path = path.child("nodeSelector");
        let detail = format!("only additions to {path} are allowed (no mutations or deletions)");
        errors.push(FieldError::invalid(path, &shown(new), &detail));
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let of_nodes = |spec: &Value| spec.at("affinity").at("nodeAffinity").at(required).clone();
    let path = path.child("affinity").child("nodeAffinity").child(required).child("nodeSelectorTerms");
    let (old, new) = (of_nodes(before), of_nodes(after));
    let (old, new) = (old.items("nodeSelectorTerms"), new.items("nodeSelectorTerms"));
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, &shown_items(new), detail));
        return errors;
    }
    for (at, (old, new)) in old.iter().zip(new).numbered() {
        if !has_only_additions(old, new) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(path.index(at), &shown(new), detail));
        }
    }
    errors
}

/// Whether a term of node selectors keeps its expressions, to which it may add; one without any selects nothing.
fn has_only_additions(old: &Value, new: &Value) -> bool {
    const PARTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let keeps = |part: &str| {
        let (old, new) = (old.items(part), new.items(part));
        new.len() >= old.len() && old.iter().zip(new).all(|(old, new)| is_unchanged(old, new))
    };
    // few: two parts.
    let is_empty = |term: &Value| PARTS.iter().all(|part| term.items(part).is_empty());
    PARTS.into_iter().all(keeps) && (!is_empty(old) || is_empty(new))
}

/// Puts the places of `before` back into `spec`, whose change was judged.
fn keep_places(before: &Value, spec: &mut Value) {
    carry(before, spec, "nodeSelector");
    let mut affinity = spec.at("affinity").clone();
    if is_unchanged(before.at("affinity").at("nodeAffinity"), affinity.at("nodeAffinity")) {
        return;
    }
    if affinity.is_null() {
        affinity = Value::from(orch_schema::value::Map::default());
    }
    carry(before.at("affinity"), &mut affinity, "nodeAffinity");
    let is_bare = affinity.as_object().is_some_and(|members| members.is_empty());
    if is_bare && before.at("affinity").is_null() {
        unset(spec, "affinity");
    } else {
        set(spec, "affinity", affinity);
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn a_gated_pod_may_leave_nodes_out_and_add_none() {
        let expression = |key: &str| json!({"key": key, "operator": "Exists"});
        let affinity = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let pod = |selector: Value, terms: Option<Value>, is_gated: bool| {
            let gates = if is_gated { json!([{"name": "g"}]) } else { json!([]) };
            let mut spec = json!({"nodeSelector": selector, "schedulingGates": gates});
            if let Some(terms) = terms {
                set(&mut spec, "affinity", affinity(terms));
            }
            json!({"spec": spec})
        };
        let (one, two) = (
            json!([{"matchExpressions": [expression("a")]}]),
            json!([{"matchExpressions": [expression("a"), expression("b")]}]),
        );
        let other = json!([{"matchExpressions": [expression("b")]}]);
        let of_terms =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let (narrow, wide) = (json!({"a": "1", "b": "2"}), json!({"a": "1"}));
        for (old, new, expected) in [
            (pod(wide.clone(), None, true), pod(narrow.clone(), None, true), None),
            (pod(narrow.clone(), None, true), pod(wide.clone(), None, true), Some("spec.nodeSelector")),
            (pod(wide.clone(), None, false), pod(narrow, None, false), Some("spec")),
            (pod(wide.clone(), None, true), pod(wide.clone(), Some(one.clone()), true), None),
            (pod(wide.clone(), Some(one.clone()), true), pod(wide.clone(), Some(two.clone()), true), None),
            (
                pod(wide.clone(), Some(two), true),
                pod(wide.clone(), Some(one.clone()), true),
                Some(&*format!("{of_terms}[0]")),
            ),
            (
                pod(wide.clone(), Some(one.clone()), true),
                pod(wide.clone(), Some(other), true),
                Some(&*format!("{of_terms}[0]")),
            ),
            (pod(wide.clone(), Some(one.clone()), true), pod(wide.clone(), None, true), Some(of_terms)),
            (pod(wide.clone(), None, false), pod(wide, Some(one), false), Some("spec")),
        ] {
            let errors = validate_spec_update(&old, &new);
            let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
            assert_eq!(paths, Vec::from_iter(expected), "{old} {new}");
        }
    }
}
