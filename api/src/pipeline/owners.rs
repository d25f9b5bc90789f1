//! Duplicate owner references.
//!
//! Owns their removal and the text of the warning. Two references with the same uid that differ in any field both stay.

use orch_rules::validate::Distinct;
use orch_rules::validate::errors::ERRORS_SHOWN_MAX;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::excerpt::beginning;
use orch_schema::value::Value;

/// The stage of a write in which duplicates are found. The reference's texts differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the object as the client sent it.
    Sent,
    /// After mutating admission, or in the result of a patch.
    Mutated,
}

/// Drops duplicate owner references of `object`, found at `stage`; returns the text of a `Warning` header if there were any.
pub(super) fn deduplicate(object: &mut Value, stage: Stage) -> Option<String> {
    let references = object.at("metadata").items("ownerReferences");
    if references.len() < 2 {
        return None;
    }
    let mut seen = Distinct::new();
    let mut kept: Vec<Value> = Vec::new();
    let mut dropped: Vec<&str> = Vec::new();
    for (at, reference) in references.iter().enumerate() {
        if seen.is_repeated(identity(reference)) {
            if dropped.is_empty() {
                kept.extend_from_slice(&references[..at]);
            }
            dropped.push(reference.text("uid"));
        } else if !dropped.is_empty() {
            kept.push(reference.clone());
        }
    }
    if dropped.is_empty() {
        return None;
    }
    dropped.truncate(ERRORS_SHOWN_MAX);
    let dropped: Vec<&str> = dropped.into_iter().map(beginning).collect();
    let when = match stage {
        Stage::Sent => "",
        Stage::Mutated => " after mutating admission happens",
    };
    let told = format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
         and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        dropped.join(", ")
    );
    set(child_mut(object, "metadata"), "ownerReferences", kept);
    Some(told)
}

/// All fields of a reference; absent and empty are equal.
fn identity(reference: &Value) -> ([&str; 4], [bool; 2]) {
    (
        ["apiVersion", "kind", "name", "uid"].map(|name| reference.text(name)),
        ["controller", "blockOwnerDeletion"].map(|name| reference.flag(name)),
    )
}
