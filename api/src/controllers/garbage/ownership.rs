//! Owner references and finalizers of a stored object.
//!
//! Owns decoding only these fields of its metadata, and the beginning of its deletion: everything else is skipped over.

use std::collections::BTreeSet;
use std::time::Duration;

use orch_raft::Object;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use orch_rules::validate::tree::{Tree, set};
use orch_schema::value::Value;

/// The finalizer of an object that waits for its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to be orphaned.
pub(super) const ORPHAN: &str = "orphan";

/// The metadata that the collector decides by.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ownership {
    finalizers: Vec<String>,
    owner_references: Vec<Value>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct Stored {
    #[serde(default)]
    metadata: Ownership,
}

impl Ownership {
    /// Decodes the finalizers and owner references of `object`.
    ///
    /// # Errors
    /// The stored bytes are not an object.
    pub(super) fn of(object: &Object) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&object.json).map(|stored: Stored| stored.metadata)
    }

    /// The owner references, as stored.
    pub(super) fn references(&self) -> &[Value] {
        &self.owner_references
    }

    /// Time since the beginning of the object's deletion at `now_ms`, in milliseconds since 1970; zero where it is not being deleted.
    pub(super) fn deleting_for(&self, now_ms: u64) -> Duration {
        let began = self.deletion_timestamp.as_deref();
        // date: of objects.
        let began = began.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        let began = began.and_then(|began| u64::try_from(began.unix_timestamp()).ok());
        began.map_or(Duration::ZERO, |began| {
            Duration::from_millis(now_ms).saturating_sub(Duration::from_secs(began))
        })
    }

    /// Whether the object has `finalizer`.
    pub(super) fn is_held_by(&self, finalizer: &str) -> bool {
        // once: for each look at the object.
        self.finalizers.iter().any(|held| held == finalizer)
    }

    /// Whether the object blocks the foreground deletion of the owner with this uid.
    pub(super) fn blocks(&self, owner_uid: &str) -> bool {
        self.owner_references
            .iter()
            // once: for each look at the object.
            .any(|owner| owner.text("uid") == owner_uid && owner.flag("blockOwnerDeletion"))
    }

    /// Whether the object blocks the foreground deletion of any owner.
    pub(super) fn blocks_any(&self) -> bool {
        // once: for each look at the object.
        self.owner_references.iter().any(|owner| owner.flag("blockOwnerDeletion"))
    }

    /// The finalizers without `finalizer`.
    pub(super) fn finalizers_without(&self, finalizer: &str) -> Vec<&str> {
        self.finalizers.iter().map(String::as_str).filter(|held| *held != finalizer).collect()
    }

    /// The references without those to `uids`.
    pub(super) fn references_without(&self, uids: &BTreeSet<&str>) -> Vec<Value> {
        let is_left = |owner: &&Value| !uids.contains(owner.text("uid"));
        self.owner_references.iter().filter(is_left).cloned().collect()
    }

    /// The references with `blockOwnerDeletion` set to false.
    pub(super) fn references_unblocked(&self) -> Vec<Value> {
        let mut references = self.owner_references.clone();
        for owner in references.iter_mut().filter(|owner| owner.flag("blockOwnerDeletion")) {
            set(owner, "blockOwnerDeletion", false);
        }
        references
    }
}
