//! The object after a change, as it is answered.
//!
//! Owns which version the response of a change, a removal or a dry run shows, and its revision. It proposes nothing.

use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Put, Revision, WrittenAs};

use super::judged::Write;
use super::stored::without_revision;
use super::{WriteOutcome, Written};

/// An object after a change.
pub(super) struct Modified {
    /// The JSON of the response.
    pub json: bytes::Bytes,
    /// The stored version; `None` if the object was removed or the change was a dry run.
    pub stored: Option<SharedObject>,
    /// The version and the revision of the definition that `json` is written in; `None` for built-in kinds.
    pub written_as: Option<Arc<WrittenAs>>,
    /// The object before the change.
    pub before: SharedObject,
    /// The object is gone, or would be if this were no dry run.
    pub is_removal: bool,
}

/// The version that the response shows.
pub(super) enum Last {
    /// The stored version.
    Stored,
    /// The version before the removal.
    Before,
    /// This version, with the revision of the removal.
    Removed(Put),
    /// This version, with the revision that the object had before.
    Freed(Put),
}

impl Modified {
    /// The result of a proposal that was applied at `revision`, with `object` under the key then.
    pub(super) fn applied(
        object: Option<SharedObject>,
        revision: Revision,
        last: Last,
        before: SharedObject,
    ) -> Modified {
        let (json, index) = match (&object, &last) {
            (Some(object), _) => (object.json.clone(), &object.index),
            (None, Last::Removed(put)) => (spliced(put, revision.0), &put.index),
            (None, Last::Freed(put)) => (with_revision(put, &before), &put.index),
            (None, Last::Stored | Last::Before) => (before.json.clone(), &before.index),
        };
        let (is_removal, written_as) = (object.is_none(), index.written_as.clone());
        Modified { json, stored: object, written_as, before, is_removal }
    }

    /// The result of a dry run of `write`.
    pub(super) fn dry(write: Write, before: SharedObject) -> Modified {
        let is_removal = !matches!(write, Write::Put(_));
        let (json, index) = match &write {
            Write::Remove(None) => (before.json.clone(), &before.index),
            Write::Put(put) | Write::Remove(Some(put)) | Write::Free(put) => {
                (with_revision(put, &before), &put.index)
            }
        };
        Modified { json, stored: None, written_as: index.written_as.clone(), before, is_removal }
    }

    /// The result of a change without effect.
    pub(super) fn unchanged(before: SharedObject) -> Modified {
        let written_as = before.index.written_as.clone();
        let (json, stored) = (before.json.clone(), Some(Arc::clone(&before)));
        Modified { json, stored, written_as, before, is_removal: false }
    }

    /// The result of an update or patch.
    pub(super) fn written(self) -> Written {
        let Modified { json, stored, written_as, .. } = self;
        Written { json, stored, written_as, outcome: WriteOutcome::Done }
    }
}

/// The JSON of `put` at the revision of `before`: a dry run shows the version that it was tried on.
fn with_revision(put: &Put, before: &SharedObject) -> bytes::Bytes {
    if before.revision.0 == 0 { without_revision(put) } else { spliced(put, before.revision.0) }
}

fn spliced(put: &Put, revision: u64) -> bytes::Bytes {
    let at = put.revision_at as usize;
    let mut json = Vec::with_capacity(put.json.len() + 20);
    json.extend_from_slice(&put.json[..at]);
    json.extend_from_slice(revision.to_string().as_bytes());
    json.extend_from_slice(&put.json[at..]);
    json.into()
}
