//! The objects that simulated clients write straight into the store.
//!
//! Owns the stored form of a write's tag, and the transactions around it. An object is a minimal config map with its
//! tag as a label, so that the API serves it as one.

use std::sync::Arc;

use bytes::Bytes;
use orch_raft::{Condition, Fields, Index, Key, Operation, Put, Transaction};

use super::history::{Guard, MARK, TAG, Tag};
use super::ledger::{MIRRORS, THINGS};
use super::trace::Hash64;

/// Effects of a write beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Sets the label that filtered watches select.
    pub marked: bool,
    /// Writes or removes the mirror, too, in the same transaction.
    pub mirrored: bool,
    /// Bytes of filling, so that sizes differ.
    pub filling: usize,
}

/// The selectable field that a marked object has another value of. The kind of mirrors declares it; it has no place in their
/// bytes here.
pub const MARKED_FIELD: &str = "status.replicas";
/// Its value in marked objects.
pub const MARKED_VALUE: &str = "1";

/// The namespace of things. It has no object of its own: the store does not ask for one.
pub const NAMESPACE: &str = "things";

/// The key of `name` in `resource`.
fn key(resource: &str, name: &str) -> Key {
    Key::new(&Arc::from(resource), NAMESPACE, name).expect("names of the simulation are plain words")
}

/// The key of the thing called `name`.
pub fn thing(name: &str) -> Key {
    key(THINGS, name)
}

fn put(key: Key, tag: Tag, extras: Extras) -> Operation {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let (filling, tag, name) = ("x".repeat(extras.filling), tag.0.to_string(), key.name());
    let mark = if extras.marked { format!(r#""{MARK}":"yes","#) } else { String::new() };
    let json = format!(
        r#"{HEAD}","name":"{name}","namespace":"{NAMESPACE}","uid":"{tag}","labels":{{{mark}"{TAG}":"{tag}"}}}},"data":{{"filling":"{filling}"}}}}"#
    );
    let mark = extras.marked.then_some((MARK, "yes"));
    let labels = mark.into_iter().chain([(TAG, tag.as_str())]).collect();
    let class = if extras.marked { MARKED_VALUE } else { "0" };
    let fields = Fields::new([(MARKED_FIELD, class)]);
    let index = Index { uid: tag.clone(), labels, fields, ..Index::default() };
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
    match tag {
        Some(tag) if extras.mirrored => operations.push(put(key(MIRRORS, path), tag, extras)),
        // Only if the thing exists, so that both change.
        None if extras.mirrored && matches!(guard, Guard::At(_)) => {
            operations.push(Operation::Delete(key(MIRRORS, path)));
        }
        _ => {}
    }
    Transaction { proposed_ms, conditions, operations }
}

/// Resource of the objects of a large state. No other client writes it.
const FILLED: &str = "secrets";

/// The transaction that writes the filler called `name`, without conditions.
pub fn filler(name: &str, proposed_ms: u64) -> Transaction {
    let tag = Tag(Hash64::of(name.as_bytes()).0);
    let operations = vec![put(key(FILLED, name), tag, Extras { filling: 20, ..Extras::default() })];
    Transaction { proposed_ms, conditions: Vec::new(), operations }
}
