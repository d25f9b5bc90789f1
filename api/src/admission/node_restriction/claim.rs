//! Writes of a kubelet to the status of a volume claim: its size, its conditions, and how a resize goes.

use orch_rules::validate::tree::{Tree, child_mut, is_unchanged, unset};
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;

use super::{Operation, Refusal, Write, forbidden, refuse_unless};

/// Members of the status that a kubelet writes as it resizes a volume.
const OWN: [&str; 4] = ["allocatedResourceStatuses", "allocatedResources", "capacity", "conditions"];

pub(super) fn check_status(write: Write<'_>) -> Result<(), Refusal> {
    let (Operation::Update, Some(new), Some(old)) =
        (write.attributes.operation, write.object, write.attributes.old)
    else {
        return Err(forbidden("unexpected operation".to_owned()));
    };
    let changed = changed_members(&comparable(old), &comparable(new));
    refuse_unless(changed.is_empty(), || {
        format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions: {}",
            quoted(write.node),
            part(&changed.join(", "))
        )
    })
}

/// The claim without what a kubelet may change, and what the server changes itself.
fn comparable(claim: &Value) -> Value {
    let mut claim = claim.clone();
    for member in ["managedFields", "resourceVersion"] {
        unset(child_mut(&mut claim, "metadata"), member);
    }
    for member in OWN {
        unset(child_mut(&mut claim, "status"), member);
    }
    claim
}

/// Paths of the members of metadata, spec and status that differ.
fn changed_members(old: &Value, new: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    for of in ["metadata", "spec", "status"] {
        let (before, after) = (old.at(of), new.at(of));
        let members = before.as_object().into_iter().chain(after.as_object()).flatten();
        let mut paths: Vec<String> = members
            .filter(|(name, _)| !is_unchanged(before.at(name), after.at(name)))
            .map(|(name, _)| format!("{of}.{name}"))
            .collect();
        paths.sort_unstable();
        paths.dedup();
        changed.extend(paths);
    }
    changed
}
