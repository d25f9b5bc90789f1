//! Merges a part of an object into it, without owners: what mutating admission policies make.
//!
//! Owns the refusal of parts that would replace a list, map or object as a whole: who changes one member of those would
//! remove the others without knowing.

use orch_schema::budget::count_step;
use orch_schema::types::{Schema, TypeId, ValueType};
use orch_schema::value::Value;

use super::check::check;
use super::merge::merge;
use super::shape::{ItemError, Shape, Slot};

/// Paths of refused parts that an error names.
const PATHS_SHOWN_MAX: usize = 100;

/// The reason why a part cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// It does not have the form of its type.
    #[error("failed to convert patch object to typed object: {0}")]
    Typed(String),
    /// It would replace these as a whole.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {0}")]
    Atomic(String),
    /// Items of the object cannot be identified.
    #[error("failed to merge patch: {0}")]
    Item(#[from] ItemError),
}

/// `live` with all values of `part` merged in.
///
/// # Errors
/// [`OverlayError`].
pub fn overlay(schema: &Schema, root: TypeId, live: &Value, part: &Value) -> Result<Value, OverlayError> {
    let errors = check(schema, root, part);
    match &errors[..] {
        [] => {}
        [one] => return Err(OverlayError::Typed(one.clone())),
        many => return Err(OverlayError::Typed(format!("errors:\n  {}", many.join("\n  ")))),
    }
    let shape = Shape::of_type(schema, root);
    let mut found = Vec::new();
    find_atomic(schema, Slot::of(&ValueType::Object(root)), part, &mut String::new(), &mut found);
    if !found.is_empty() {
        return Err(OverlayError::Atomic(found.join(", ")));
    }
    Ok(merge(schema, shape, live, part)?)
}

/// Adds the paths of lists, maps and objects in `value` that are replaced as a whole, those inside of others included. As in the reference
/// items have their places, and entries of maps are not looked at: only declared fields are.
fn find_atomic<'s>(
    schema: &'s Schema,
    slot: Slot<'s>,
    value: &Value,
    path: &mut String,
    found: &mut Vec<String>,
) {
    if !count_step() || found.len() >= PATHS_SHOWN_MAX {
        return;
    }
    let slot = slot.of_value(Some(value));
    let is_whole = matches!(slot.shape(schema, Some(value)), Shape::Atomic);
    if is_whole && (value.is_object() || value.is_array()) {
        found.push(path.clone());
    }
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let Some(field) = slot.field(schema, name) else { continue };
                path.push('.');
                path.push_str(name);
                find_atomic(schema, field, value, path, found);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let Some(item) = slot.item() else { return };
            for (at, value) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                find_atomic(schema, item, value, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use orch_schema::testing::orch;

    use super::*;

    fn merged(kind: &str, live: &Value, part: &Value) -> Result<Value, String> {
        let root = orch().find_type(kind).unwrap();
        overlay(orch(), root, live, part).map_err(|error| error.to_string())
    }

    #[test]
    fn members_and_items_merge_and_the_rest_stays() {
        let live = json!({
            "metadata": {"labels": {"own": "1"}},
            "spec": {"containers": [
                {"name": "c", "image": "i", "env": [{"name": "OWN", "value": "0"}]}, {"name": "d", "image": "i"},
            ]},
        });
        let part = json!({
            "metadata": {"labels": {"ready": "yes"}},
            "spec": {
                "initContainers": [{"name": "mesh", "image": "mesh:1"}],
                "containers": [{"name": "c", "env": [{"name": "ADDED", "value": "1"}]}],
            },
        });
        assert_eq!(
            merged("core.v1.Pod", &live, &part),
            Ok(json!({
                "metadata": {"labels": {"own": "1", "ready": "yes"}},
                "spec": {
                    "containers": [
                        {"name": "c", "image": "i", "env": [{"name": "OWN", "value": "0"}, {"name": "ADDED", "value": "1"}]},
                        {"name": "d", "image": "i"},
                    ],
                    "initContainers": [{"name": "mesh", "image": "mesh:1"}],
                },
            }))
        );
    }

    #[test]
    fn what_would_be_replaced_as_a_whole_is_refused() {
        let part = json!({"spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "c", "command": ["x"]}],
        }});
        assert_eq!(
            merged("core.v1.Pod", &json!({}), &part),
            Err("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector, \
                 .spec.containers[0].command"
                .to_owned())
        );
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]);
        let mut affinity = json!({"nodeAffinity": {}});
        affinity["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
        let at = format!(".spec.affinity.nodeAffinity.{required}");
        let terms = format!("{at}.nodeSelectorTerms");
        let inside = format!("{at}, {terms}, {terms}[0], {terms}[0].matchExpressions");
        assert_eq!(
            merged("core.v1.Pod", &json!({}), &json!({"spec": {"affinity": affinity}})),
            Err(format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {inside}"
            ))
        );
    }

    #[test]
    fn entries_of_maps_may_be_replaced_as_a_whole() {
        let part = json!({"spec": {"extra": {"scopes": ["b"]}}});
        let live = json!({"spec": {"extra": {"scopes": ["a"], "other": ["c"]}}});
        assert_eq!(
            merged("certificates.v1.CertificateSigningRequest", &live, &part),
            Ok(json!({"spec": {"extra": {"scopes": ["b"], "other": ["c"]}}}))
        );
    }

    #[test]
    fn a_part_of_another_form_is_refused() {
        let refused = merged("core.v1.ConfigMap", &json!({}), &json!({"datum": {}}));
        assert_eq!(
            refused,
            Err("failed to convert patch object to typed object: .datum: field not declared in schema"
                .to_owned())
        );
    }
}
