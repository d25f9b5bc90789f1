//! A stored object: immutable encoded bytes, and beside them the index that selectors and controllers read without
//! parsing.
//!
//! Owns the place of the revision in the bytes. It never parses them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::fields::Fields;
use crate::key::Revision;
use crate::labels::Labels;

/// Metadata of an object, readable without decoding its JSON. Set by the proposer, replicated and stored with the
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// `metadata.uid`.
    pub uid: String,
    /// Labels, sorted by key.
    pub labels: Labels,
    /// The kind's selectable fields (`metadata.name` and `.namespace` come from the key).
    pub fields: Fields,
    /// Uids of `metadata.ownerReferences`.
    pub owners: Vec<String>,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// The form of the object's JSON. `None`: the one stored form of a kind that no definition declares.
    pub written_as: Option<Arc<WrittenAs>>,
}

/// The form that the JSON of an object was written in, for a kind that a definition declares: definitions change while
/// their objects stay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WrittenAs {
    /// Version of the kind, for example `v1beta1`.
    pub version: Box<str>,
    /// Revision of the definition from which on its schema of that version is the one that the object was written under.
    pub definition: Revision,
}

/// An immutable version of an object.
#[derive(Debug)]
pub struct Object {
    /// Index of the log entry that wrote this version.
    pub revision: Revision,
    /// Index of the log entry that wrote the first version.
    pub created: Revision,
    /// Proposer's clock when this version was written, in milliseconds since 1970.
    pub written_ms: u64,
    /// Canonical JSON without `kind` and `apiVersion`, with the revision in place: `{"metadata":{...},...}`.
    pub json: Bytes,
    /// Byte of `json` at which the digits of `revision` start.
    pub revision_at: u32,
    /// Metadata readable without parsing `json`.
    pub index: Index,
    /// The Protobuf encoding; empty until a response first needs it.
    pub protobuf: OnceLock<Bytes>,
}

impl Object {
    /// The value of `label`, if the object has it.
    pub fn label(&self, label: &str) -> Option<&str> {
        self.index.labels.find(label)
    }
}

impl Object {
    /// The bytes of `json` before and after the digits of its revision. A `DELETED` watch event has the bytes of the
    /// last version with the revision of the deletion between them.
    pub fn json_around_revision(&self) -> (&[u8], &[u8]) {
        let at = self.revision_at as usize;
        let digits = self.json[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (&self.json[..at], &self.json[at + digits..])
    }
}

/// Whether byte `at` of `json` is between the quotes of an empty string, where a revision may be inserted. Elsewhere
/// its digits would become part of another value, or break the JSON.
pub(crate) fn takes_revision(json: &[u8], at: usize) -> bool {
    at > 0 && json.get(at - 1) == Some(&b'"') && json.get(at) == Some(&b'"')
}

/// Whether `json` has the digits of `revision` at byte `at`, between two quotes.
pub(crate) fn holds_revision(json: &[u8], at: usize, revision: Revision) -> bool {
    let Some((before, rest)) = json.split_at_checked(at) else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at(digits);
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    before.ends_with(b"\"") && behind.starts_with(b"\"") && number == Some(revision.0)
}

/// `json` with the digits of `revision` inserted at byte `at`. One allocation of exactly the final size.
///
/// `at` is [`crate::transaction::Put::revision_at`], which was checked before the put entered the log, and when it was
/// decoded.
pub(crate) fn splice_revision(json: &[u8], at: usize, revision: Revision) -> Bytes {
    assert!(takes_revision(json, at), "a revision stands between two quotes of its object");
    let digits = revision.0.to_string();
    let mut whole = Vec::with_capacity(json.len() + digits.len());
    whole.extend_from_slice(&json[..at]);
    whole.extend_from_slice(digits.as_bytes());
    whole.extend_from_slice(&json[at..]);
    Bytes::from(whole)
}

/// An object shared by the state, the history and the responses being sent.
pub type SharedObject = Arc<Object>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_goes_between_quotes() {
        let json = br#"{"v":"","n":1}"#;
        let places = (0..=json.len() + 1).filter(|at| takes_revision(json, *at));
        assert_eq!(places.collect::<Vec<_>>(), [6]);
        let whole = splice_revision(json, 6, Revision(70));
        assert_eq!(whole, br#"{"v":"70","n":1}"#.as_slice());
        assert!(holds_revision(&whole, 6, Revision(70)));
        for (at, revision) in [(6, 7), (6, 700), (7, 0), (5, 70), (13, 1), (99, 70)] {
            assert!(!holds_revision(&whole, at, Revision(revision)), "{revision} at {at}");
        }
    }

    #[test]
    #[should_panic(expected = "a revision stands between two quotes of its object")]
    fn a_revision_is_put_nowhere_else() {
        splice_revision(b"{}", 1, Revision(7));
    }
}
