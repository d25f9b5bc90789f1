//! The parts of a volume that an update keeps.
//!
//! Owns the comparison of a stored spec with the one that takes its place: the source, the volume mode and a node affinity
//! that is set do not change. Two changes are let through: a CSI source without a secret for its growth gets one, and an
//! affinity takes the stable names of node labels for the beta ones.

use orch_proto::Brand;
use orch_schema::value::Value;

use super::source::SOURCES;
use crate::kinds::node_label;
use crate::validate::metadata::immutable;
use crate::validate::tree::{Tree, carry, child_mut, existing_mut, is_unchanged, items_mut, unset};
use crate::validate::{FieldError, FieldErrors, Path};

/// The source as the reference names it in the error of a change.
const SOURCE_SHOWN: &str = "persistentvolumesource";

/// Refuses changes of the parts that stay.
pub(super) fn validate_kept(brand: &Brand, old: &Value, new: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut allowed = new.clone();
    let secret = "controllerExpandSecretRef";
    if old.has("csi") && !old.at("csi").has(secret) && new.at("csi").has(secret) {
        unset(child_mut(&mut allowed, "csi"), secret);
    }
    let changed: Vec<&str> = SOURCES
        .iter()
        .map(|source| source.field)
        .filter(|field| !is_unchanged(old.at(field), allowed.at(field)))
        .collect();
    if !changed.is_empty() {
        let detail =
            format!("spec.persistentvolumesource is immutable after creation\n{}", changed.join(", "));
        errors.push(FieldError::forbidden(Path::new("spec").child(SOURCE_SHOWN), &detail));
    }
    errors.extend(immutable(new.at("volumeMode"), old.at("volumeMode"), Path::new("volumeMode")));
    if old.has("nodeAffinity") {
        let (before, after) = (old.at("nodeAffinity"), new.at("nodeAffinity"));
        let moved = with_stable_labels(brand, before, after);
        errors.extend(immutable(after, &moved, Path::new("nodeAffinity")));
    }
    let class = "volumeAttributesClassName";
    if old.has(class) && !new.has(class) {
        let detail = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden(Path::new("spec").child(class), detail));
    }
    errors
}

/// The old affinity, with the stable names of those labels that the new one has under them: the only change that an
/// affinity may see.
fn with_stable_labels(brand: &Brand, old: &Value, new: &Value) -> Value {
    let after = new.at("required").items("nodeSelectorTerms");
    let mut moved = old.clone();
    let Some(required) = existing_mut(&mut moved, "required") else { return moved };
    for (term, after) in items_mut(required, "nodeSelectorTerms").iter_mut().zip(after) {
        let requirements = items_mut(term, "matchExpressions").iter_mut();
        for (requirement, after) in requirements.zip(after.items("matchExpressions")) {
            if node_label::stable(brand, requirement.text("key"))
                .is_some_and(|name| name == after.text("key"))
            {
                carry(after, requirement, "key");
            }
        }
    }
    moved
}
