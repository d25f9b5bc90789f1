//! The results of successful requests, as the pipeline gives them and `render` writes them.
//!
//! Owns no behaviour: objects are shared with the store, and nothing is encoded here.

use std::sync::Arc;

use bytes::Bytes;
use orch_raft::object::SharedObject;
use orch_raft::{Revision, WrittenAs};

use crate::index::Way;
use crate::status::Status;

/// The result of a successful request.
pub enum Answer {
    /// The stored object of a GET.
    Stored(SharedObject),
    /// An object after a write.
    Written(Written),
    /// A page of a collection.
    List(ListAnswer),
    /// The objects of a DELETE of a collection, as they were before it.
    Listed(ListAnswer),
    /// A removal that is answered with a Status.
    Done(Status),
}

/// An object after a write.
pub struct Written {
    /// Canonical JSON in the form `written_as`, or else the stored form, without `apiVersion` and `kind`; with a revision
    /// unless nothing was stored.
    pub json: Bytes,
    /// The stored object, unless this was a dry run or the object is gone.
    pub stored: Option<SharedObject>,
    /// The form of `json`, where objects of the kind say it.
    pub written_as: Option<Arc<WrittenAs>>,
    /// Created, changed, or waiting for its deletion.
    pub outcome: WriteOutcome,
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The object was created.
    Created,
    /// The object was changed or removed, or already is as requested.
    Done,
    /// The object is marked for deletion but still held, and the client sent `orphanDependents: false`.
    Accepted,
}

/// A page of a collection.
pub struct ListAnswer {
    /// The revision the collection was read at.
    pub revision: Revision,
    /// Where the next page starts; `None` when this is the last.
    pub continue_token: Option<String>,
    /// Count of objects behind this page; `None` with selectors or on the last page.
    pub remaining: Option<u64>,
    /// The page.
    pub objects: Vec<SharedObject>,
    /// The work of finding them.
    pub effort: Effort,
}

/// The work of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// How the objects were found.
    pub way: Way,
    /// Objects that were looked at: matched against the selectors, or counted.
    pub visited: usize,
}
