//! The clients' calls and outcomes, with their order in real time.
//!
//! Owns the record that the checkers read. Each write carries a unique tag, so that a value seen anywhere names its
//! write. Times are positions in one count of calls and answers: virtual time stands still while many things happen,
//! this count does not.

use std::sync::Arc;

use orch_raft::{Object, Revision};
use parking_lot::Mutex;

use super::trace::Hash64;

/// Names one write: no other write stores this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// One version of an object as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Its `resourceVersion`.
    pub revision: Revision,
    /// The write that made it.
    pub tag: Tag,
    /// The object has the label [`MARK`].
    pub marked: bool,
}

/// Label that filtered watches ask for.
pub const MARK: &str = "mark";

/// Label that carries a write's tag.
pub const TAG: &str = "tag";

/// Bit set in the tag of an object that no client tagged: the rest is a hash of its uid.
const UNTAGGED: u64 = 1 << 63;

impl Tag {
    /// The tag of an object: its tag label, or a stand-in made of its uid.
    pub fn read(label: Option<&str>, uid: &str) -> Tag {
        let tagged = label.and_then(|text| text.parse().ok());
        Tag(tagged.unwrap_or_else(|| Hash64::of(uid.as_bytes()).0 | UNTAGGED))
    }

    /// The tag of a client's write, not a stand-in.
    pub fn names_a_write(self) -> bool {
        self.0 & UNTAGGED == 0
    }
}

impl Version {
    /// The version of a stored object, as a client sees it.
    pub fn of(object: &Object) -> Version {
        let tag = Tag::read(object.label(TAG), &object.index.uid);
        Version { revision: object.revision, tag, marked: object.label(MARK).is_some() }
    }
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No condition: a blind write.
    Always,
    /// The key is absent: a create.
    Absent,
    /// The key's newest version is this one: an optimistic update or delete.
    At(Revision),
}

/// The operation of a call on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Write `tag`, or remove the object for `None`.
    Write {
        /// The write's condition.
        guard: Guard,
        /// The tag to store; `None` removes the object.
        tag: Option<Tag>,
    },
    /// A linearizable read.
    Read,
}

/// The outcome in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The write was applied at `revision` and replaced `previous`.
    Applied {
        /// The revision of the write.
        revision: Revision,
        /// The version before, or the current one; `None` for an absent object.
        previous: Option<Version>,
    },
    /// The guard did not hold: `current` was there.
    Refused {
        /// The revision of the state that was read.
        revision: Revision,
        /// The version before, or the current one; `None` for an absent object.
        current: Option<Version>,
    },
    /// The read found `current`.
    Found {
        /// The revision of the state that was read.
        revision: Revision,
        /// The version before, or the current one; `None` for an absent object.
        current: Option<Version>,
    },
    /// Certainly not applied.
    NotDone,
    /// Unknown: applied, not applied, or applied later.
    Unknown,
}

impl Told {
    /// The revision of the answer, if it has one.
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Told::Applied { revision, .. }
            | Told::Refused { revision, .. }
            | Told::Found { revision, .. } => Some(*revision),
            Told::NotDone | Told::Unknown => None,
        }
    }

    /// The version that the answer shows.
    pub fn seen(&self) -> Option<Version> {
        match self {
            Told::Applied { previous: seen, .. }
            | Told::Refused { current: seen, .. }
            | Told::Found { current: seen, .. } => *seen,
            Told::NotDone | Told::Unknown => None,
        }
    }
}

/// One operation of a client and its outcome.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number of the client.
    pub client: u64,
    /// The key.
    pub path: Arc<str>,
    /// The operation.
    pub ask: Ask,
    /// Time of the call.
    pub asked: u64,
    /// Time of the answer; `u64::MAX` if there was none.
    pub answered: u64,
    /// The outcome.
    pub told: Told,
}

/// The record of a run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<Call>,
    clock: u64,
    tags: u64,
}

/// A call without an answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending(usize);

impl History {
    /// A new tag, unique in the run.
    pub fn tag(&self) -> Tag {
        let mut inner = self.0.lock();
        inner.tags += 1;
        Tag(inner.tags)
    }

    /// Records a call now. Until [`History::answer`], its outcome counts as unknown.
    pub fn ask(&self, client: u64, path: &Arc<str>, ask: Ask) -> Pending {
        let mut inner = self.0.lock();
        inner.clock += 1;
        let asked = inner.clock;
        let call = Call { client, path: path.clone(), ask, asked, answered: u64::MAX, told: Told::Unknown };
        inner.calls.push(call);
        Pending(inner.calls.len() - 1)
    }

    /// Records the outcome now.
    pub fn answer(&self, pending: Pending, told: Told) {
        let mut inner = self.0.lock();
        inner.clock += 1;
        let answered = if told == Told::Unknown { u64::MAX } else { inner.clock };
        let call = &mut inner.calls[pending.0];
        (call.answered, call.told) = (answered, told);
    }

    /// The time now: later calls are asked after it.
    pub fn now(&self) -> u64 {
        self.0.lock().clock
    }

    /// All calls in order of their times.
    pub fn calls(&self) -> Vec<Call> {
        self.0.lock().calls.clone()
    }

    /// Number of calls that were answered with an outcome.
    pub fn answered(&self) -> usize {
        self.0.lock().calls.iter().filter(|call| call.told.revision().is_some()).count()
    }
}
