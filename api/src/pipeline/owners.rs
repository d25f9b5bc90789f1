//! Owner references that say the same twice.
//!
//! Owns dropping them and telling the client so. Two references with the same uid that differ in anything both stay.

use serde_json::Value;

use crate::validate::tree::{Tree, child_mut, same, set};

/// Drops repeated owner references of `object`; gives the text for a `Warning` header where there were some.
/// `after_admission` is the reference's word for a patch.
pub(super) fn deduplicate(object: &mut Value, after_admission: bool) -> Option<String> {
    let references = object.at("metadata").items("ownerReferences");
    if references.len() < 2 {
        return None;
    }
    let mut kept: Vec<Value> = Vec::with_capacity(references.len());
    let mut dropped: Vec<&str> = Vec::new();
    for reference in references {
        if kept.iter().any(|other| same(other, reference)) {
            dropped.push(reference.text("uid"));
        } else {
            kept.push(reference.clone());
        }
    }
    if dropped.is_empty() {
        return None;
    }
    let when = if after_admission { " after mutating admission happens" } else { "" };
    let told = format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
         and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        dropped.join(", ")
    );
    set(child_mut(object, "metadata"), "ownerReferences", kept);
    Some(told)
}
