//! Transactions: conditions, then puts and deletes, all or nothing.
//!
//! Owns the vocabulary of writes. Everything random or timed (uids, names, timestamps) is fixed in a transaction before
//! it is proposed, so that applying it is a pure function of state and entry.

use std::sync::Arc;

use bytes::Bytes;

use crate::key::{Key, Revision};
use crate::object::{Index, SharedObject};

/// The writes of one log entry. At most one operation touches a resource's key. A watch that resumes behind a revision may
/// have seen some of its changes only: where a transaction changes several keys of one resource, its watches must resume
/// before it (`api/src/watch`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Proposer's clock in milliseconds since 1970: the time from which the age of history and of expiring objects
    /// counts.
    pub proposed_ms: u64,
    /// Checked in order; the first that fails refuses the whole transaction.
    pub conditions: Vec<Condition>,
    /// Applied in order if every condition holds.
    pub operations: Vec<Operation>,
}

/// A precondition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No object is stored under the key.
    Absent(Key),
    /// An object is stored under the key.
    Exists(Key),
    /// The key's object was last written at this revision.
    AtRevision(Key, Revision),
    /// The namespace exists and is not terminating.
    NamespaceActive(Arc<str>),
}

/// A write of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write an object.
    Put(Put),
    /// Remove an object. No effect if it is absent: [`Condition::Exists`] requires it.
    Delete(Key),
}

/// An object to write, without its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The object's key.
    pub key: Key,
    /// Canonical JSON as in [`crate::Object::json`], without the digits of the revision.
    pub json: Bytes,
    /// Byte at which the digits of the revision go in: between the quotes of `"resourceVersion":""`.
    pub revision_at: u32,
    /// Metadata readable without parsing `json`.
    pub index: Index,
}

/// The result of applying a transaction, the same on every member.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every condition held, and every operation was applied.
    Applied {
        /// The entry's index: the revision of every object it wrote.
        revision: Revision,
        /// The object after the first operation (`None` for a delete, or without operations).
        object: Option<SharedObject>,
        /// The object the first operation replaced or removed.
        previous: Option<SharedObject>,
    },
    /// A condition failed; nothing changed.
    Refused {
        /// Position in [`Transaction::conditions`] of the condition that failed.
        condition: usize,
        /// The object stored under the condition's key (the namespace, for [`Condition::NamespaceActive`]); `None` if
        /// absent.
        current: Option<SharedObject>,
        /// The entry's index: `current` is as of this revision.
        revision: Revision,
    },
    /// Every condition holds, but the state would exceed its quota; nothing changed. Never the result of a transaction
    /// that does not grow the state.
    Full {
        /// Size of all objects before the transaction, in bytes.
        used: u64,
        /// The quota, in bytes.
        quota: u64,
        /// The entry's index.
        revision: Revision,
    },
}
