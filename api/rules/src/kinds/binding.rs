//! core/v1 Binding: assigns a pod to a node. It is answered and never stored.
//!
//! Owns the rules of the document, and what a binding changes in its pod.

use orch_schema::value::Value;

use super::pod::condition::{PodCondition, set_condition};
use super::{Context, Strategy};
use crate::validate::tree::{Tree, child_mut, set, sorted_entries, unset};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of bindings.
#[derive(Debug)]
pub struct Binding;

impl Strategy for Binding {
    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        let (target, path) = (new.at("target"), Path::new("target"));
        let mut errors = FieldErrors::new();
        let kind = target.text("kind");
        if !kind.is_empty() && kind != "Node" {
            errors.push(FieldError::not_supported(path.child("kind"), kind, &["Node", "<empty>"]));
        }
        if target.text("name").is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        errors
    }
}

/// Why `pod` cannot be assigned to a node. `None`: it can.
pub fn obstacle(pod: &Value) -> Option<String> {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    let (name, node) = (metadata.text("name"), spec.text("nodeName"));
    if metadata.has("deletionTimestamp") {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    let is_gated = !spec.items("schedulingGates").is_empty();
    is_gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

/// Assigns `pod` to the node of `binding`, whose labels and annotations it takes over.
pub fn bind(pod: &mut Value, binding: &Value, now: &str) {
    set(child_mut(pod, "spec"), "nodeName", binding.at("target").text("name"));
    for map in ["annotations", "labels"] {
        let given = sorted_entries(binding.at("metadata").at(map));
        if given.is_empty() {
            continue;
        }
        let held = child_mut(child_mut(pod, "metadata"), map);
        given.into_iter().for_each(|(key, value)| set(held, key, value.clone()));
    }
    let status = child_mut(pod, "status");
    // The nomination has come true or was overtaken.
    unset(status, "nominatedNodeName");
    set_condition(
        status,
        &PodCondition { kind: "PodScheduled", status: "True", reason: "", message: "" },
        now,
    );
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::{CONTEXT, check_hostile};

    const NOW: &str = "2026-01-02T03:04:05Z";

    #[test]
    fn the_target_is_a_node_with_a_name() {
        for (target, expected) in [
            (json!({"name": "n"}), vec![]),
            (json!({"kind": "Node", "name": "n"}), vec![]),
            (json!({}), vec!["target.name: Required value"]),
            (
                json!({"kind": "Pod", "name": "n"}),
                vec!["target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\""],
            ),
        ] {
            let errors = Binding.validate_create(&CONTEXT, &json!({"target": target}));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        }
        check_hostile(&Binding);
    }

    #[test]
    fn a_pod_is_bound_once_and_not_while_it_is_gated_or_ends() {
        let pod = |spec: Value, metadata: Value| json!({"metadata": metadata, "spec": spec});
        for (spec, metadata, expected) in [
            (json!({}), json!({"name": "p"}), None),
            (json!({"nodeName": "n"}), json!({"name": "p"}), Some("pod p is already assigned to node \"n\"")),
            (
                json!({"schedulingGates": [{"name": "g"}]}),
                json!({"name": "p"}),
                Some("pod p has non-empty .spec.schedulingGates"),
            ),
            (
                json!({"nodeName": "n"}),
                json!({"name": "p", "deletionTimestamp": NOW}),
                Some("pod p is being deleted, cannot be assigned to a host"),
            ),
        ] {
            assert_eq!(obstacle(&pod(spec, metadata)).as_deref(), expected);
        }
    }

    #[test]
    fn a_bound_pod_has_the_maps_of_its_binding_and_is_scheduled() {
        let mut pod = json!({
            "metadata": {"name": "p", "labels": {"a": "1", "b": "1"}},
            "status": {"nominatedNodeName": "m", "phase": "Pending"}
        });
        let binding = json!({
            "metadata": {"name": "p", "labels": {"b": "2"}, "annotations": {"c": "3"}},
            "target": {"name": "n"}
        });
        bind(&mut pod, &binding, NOW);
        let expected = json!({
            "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}},
            "status": {"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": NOW
            }]},
            "spec": {"nodeName": "n"}
        });
        assert_eq!(pod, expected);
    }
}
