//! The objects that simulated clients write.
//!
//! Owns how a write's tag is stored, and the transactions around it. An object is as small as the store allows: its
//! tag is its uid and its content.

use std::sync::Arc;

use bytes::Bytes;
use orch_raft::{Condition, Fields, Index, Key, Operation, Put, Transaction};

use super::history::{Guard, MARK, Tag};
use super::ledger::{MIRRORS, THINGS};

/// What a write does beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Bears the label that filtered watches ask for.
    pub marked: bool,
    /// Writes the same to the mirror, in the same transaction.
    pub mirrored: bool,
    /// Bytes of filling, so that sizes differ.
    pub filling: usize,
}

/// The key of `path` (a bare name) in `resource`.
fn key(resource: &str, path: &str) -> Key {
    Key::new(&Arc::from(resource), "", path).expect("names of the simulation are plain words")
}

/// The key of the thing called `path`.
pub fn thing(path: &str) -> Key {
    key(THINGS, path)
}

fn put(key: Key, tag: Tag, extras: Extras) -> Operation {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let filling = "x".repeat(extras.filling);
    let json = format!(r#"{HEAD}","uid":"{}","filling":"{filling}"}}}}"#, tag.0);
    let labels = if extras.marked { vec![(MARK.to_owned(), "yes".to_owned())] } else { Vec::new() };
    let fields = Fields::new([("spec.tag", tag.0.to_string())]);
    let index = Index { uid: tag.0.to_string(), labels, fields, ..Index::default() };
    let revision_at = u32::try_from(HEAD.len()).expect("a short literal");
    Operation::Put(Put { key, json: Bytes::from(json), revision_at, index })
}

/// The transaction that writes `tag` to the thing `path`, or removes it, if `guard` holds.
pub fn transaction(
    path: &str,
    guard: Guard,
    tag: Option<Tag>,
    extras: Extras,
    proposed_ms: u64,
) -> Transaction {
    let conditions = match guard {
        Guard::Always => Vec::new(),
        Guard::Absent => vec![Condition::Absent(thing(path))],
        Guard::At(revision) => vec![Condition::AtRevision(thing(path), revision)],
    };
    let mut operations = vec![match tag {
        Some(tag) => put(thing(path), tag, extras),
        None => Operation::Delete(thing(path)),
    }];
    if let (Some(tag), true) = (tag, extras.mirrored) {
        operations.push(put(key(MIRRORS, path), tag, extras));
    }
    Transaction { proposed_ms, conditions, operations }
}
