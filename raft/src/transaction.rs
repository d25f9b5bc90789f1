//! What a proposer asks of the state: conditions, then puts and deletes, all or nothing.
//!
//! Owns the vocabulary of writes. Everything random or timed (uids, names, timestamps) is in here before it is
//! proposed, so that applying it is a pure function of state and entry.

use std::sync::Arc;

use bytes::Bytes;

use crate::key::{Key, Revision};
use crate::object::{Index, SharedObject};

/// One log entry's worth of work. At most one operation touches a resource's key, and a transaction changes at most
/// one key of any one resource, so that a watch can resume from any revision without splitting it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Proposer's clock in milliseconds since 1970: dates history and expiry.
    pub proposed_ms: u64,
    /// Checked in order; the first that fails refuses the whole.
    pub conditions: Vec<Condition>,
    /// Done in order once every condition holds.
    pub operations: Vec<Operation>,
}

/// Something that must hold for a transaction to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is stored under the key.
    Absent(Key),
    /// Something is stored under the key.
    Exists(Key),
    /// The key's object was last written at this revision.
    AtRevision(Key, Revision),
    /// The namespace exists and is not terminating.
    NamespaceActive(Arc<str>),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write an object.
    Put(Put),
    /// Remove an object. Absent is no error: a condition says when it must be there.
    Delete(Key),
}

/// An object to write, its revision left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Where.
    pub key: Key,
    /// Canonical JSON as in [`crate::Object::json`], without the digits of the revision.
    pub json: Bytes,
    /// Byte at which the digits of the revision go in: between the quotes of `"resourceVersion":""`.
    pub revision_at: u32,
    /// What is kept parsed.
    pub index: Index,
}

/// What became of a transaction, the same on every node.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Applied as this revision.
    Applied {
        /// The entry's index: the revision of everything it wrote.
        revision: Revision,
        /// The object after the first operation (`None` for a delete, or without operations).
        object: Option<SharedObject>,
        /// The object the first operation replaced or removed.
        previous: Option<SharedObject>,
    },
    /// Refused; nothing changed.
    Refused {
        /// Position of the condition that failed.
        condition: usize,
        /// What is stored under the condition's key instead.
        current: Option<SharedObject>,
        /// The entry's index: `current` is as of this revision.
        revision: Revision,
    },
    /// Every condition holds, but the state would become larger than its quota; nothing changed. What does not grow
    /// the state is never answered so.
    Full {
        /// Bytes of all objects.
        used: u64,
        /// Bytes that they may have.
        quota: u64,
        /// The entry's index.
        revision: Revision,
    },
}
