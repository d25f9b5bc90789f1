//! A stored object: immutable encoded bytes, and beside them what selectors and loops need without parsing.
//!
//! Owns how the revision gets into the bytes. It never interprets them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::fields::Fields;
use crate::key::Revision;

/// What is known of an object without decoding it. Decided by the proposer, replicated and kept with the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// `metadata.uid`.
    pub uid: String,
    /// Labels, sorted by key.
    pub labels: Vec<(String, String)>,
    /// The kind's selectable fields (`metadata.name` and `.namespace` come from the key).
    pub fields: Fields,
    /// Uids of `metadata.ownerReferences`.
    pub owners: Vec<String>,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
}

/// One version of one object. Never changes once made.
#[derive(Debug)]
pub struct Object {
    /// The entry that wrote this version.
    pub revision: Revision,
    /// The entry that wrote the first version.
    pub created: Revision,
    /// Proposer's clock when this version was written, in milliseconds since 1970.
    pub written_ms: u64,
    /// Canonical JSON without `kind` and `apiVersion`, with the revision in place: `{"metadata":{...},...}`.
    pub json: Bytes,
    /// Byte of `json` at which the digits of `revision` start.
    pub revision_at: u32,
    /// What is kept parsed.
    pub index: Index,
    /// The Protobuf form, derived when first asked for.
    pub protobuf: OnceLock<Bytes>,
}

impl Object {
    /// The value of `label`, if the object has it.
    pub fn label(&self, label: &str) -> Option<&str> {
        let labels = &self.index.labels;
        labels.binary_search_by(|(key, _)| key.as_str().cmp(label)).ok().map(|at| labels[at].1.as_str())
    }
}

impl Object {
    /// `json` before and after the digits of its revision: a removal is announced with the bytes
    /// of the last version under the revision of the removal.
    pub fn json_around_revision(&self) -> (&[u8], &[u8]) {
        let at = self.revision_at as usize;
        let digits = self.json[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (&self.json[..at], &self.json[at + digits..])
    }
}

/// `json` with the digits of `revision` put in at byte `at`. One allocation of exactly the final size.
///
/// `at` comes from a checked [`crate::transaction::Put`] (Invariant: `at <= json.len()`).
pub(crate) fn splice_revision(json: &[u8], at: usize, revision: Revision) -> Bytes {
    let digits = revision.0.to_string();
    let mut whole = Vec::with_capacity(json.len() + digits.len());
    whole.extend_from_slice(&json[..at]);
    whole.extend_from_slice(digits.as_bytes());
    whole.extend_from_slice(&json[at..]);
    Bytes::from(whole)
}

/// Objects are shared between the state, the history and every answer on its way out.
pub type SharedObject = Arc<Object>;
