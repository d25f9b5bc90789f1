//! What clients asked and what they were told, with the order in real time.
//!
//! Owns the record that the checkers judge. Each write carries a tag of its own, so that a value seen anywhere names
//! the write it came from. Times are positions in one count of invocations and answers: virtual time stands still
//! while many things happen, this count does not.

use std::sync::Arc;

use orch_raft::{Object, Revision};
use parking_lot::Mutex;

use super::trace::Hash64;

/// Names one write: its value is stored nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// One version of an object as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Its resourceVersion.
    pub revision: Revision,
    /// The write that made it.
    pub tag: Tag,
    /// Whether it bears the label that filtered watches ask for.
    pub marked: bool,
}

/// Label that filtered watches ask for.
pub const MARK: &str = "mark";

/// Label that carries a write's tag.
pub const TAG: &str = "tag";

/// Set in the tag of an object that no write of a client tagged: a hash of its uid stands for it.
const UNTAGGED: u64 = 1 << 63;

impl Tag {
    /// What a client reads out of an object: its tag label, or a stand-in made of its uid.
    pub fn read(label: Option<&str>, uid: &str) -> Tag {
        let tagged = label.and_then(|text| text.parse().ok());
        Tag(tagged.unwrap_or_else(|| Hash64::of(uid.as_bytes()).0 | UNTAGGED))
    }

    /// Whether this is the tag of one write of a client.
    pub fn names_a_write(self) -> bool {
        self.0 & UNTAGGED == 0
    }
}

impl Version {
    /// What a client reads out of a stored object.
    pub fn of(object: &Object) -> Version {
        let tag = Tag::read(object.label(TAG), &object.index.uid);
        Version { revision: object.revision, tag, marked: object.label(MARK).is_some() }
    }
}

/// What must hold for a write to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: a blind write.
    Always,
    /// The key is absent: a create.
    Absent,
    /// The key's newest version is this one: an optimistic update or delete.
    At(Revision),
}

/// What a client asked of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Write `tag`, or remove the object for `None`.
    Write {
        /// Under this condition.
        guard: Guard,
        /// The value.
        tag: Option<Tag>,
    },
    /// A linearizable read.
    Read,
}

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The write applied at `revision` and replaced `previous`.
    Applied {
        /// Its revision.
        revision: Revision,
        /// What was there.
        previous: Option<Version>,
    },
    /// The guard did not hold: `current` was there.
    Refused {
        /// As of this revision.
        revision: Revision,
        /// What was there.
        current: Option<Version>,
    },
    /// The read found `current`.
    Found {
        /// As of this revision.
        revision: Revision,
        /// What was there.
        current: Option<Version>,
    },
    /// Certainly not done.
    NotDone,
    /// Perhaps done, perhaps not, perhaps later.
    Unknown,
}

impl Told {
    /// The revision the answer is as of, when there is one.
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Told::Applied { revision, .. }
            | Told::Refused { revision, .. }
            | Told::Found { revision, .. } => Some(*revision),
            Told::NotDone | Told::Unknown => None,
        }
    }

    /// The version the answer shows as having been there.
    pub fn seen(&self) -> Option<Version> {
        match self {
            Told::Applied { previous: seen, .. }
            | Told::Refused { current: seen, .. }
            | Told::Found { current: seen, .. } => *seen,
            Told::NotDone | Told::Unknown => None,
        }
    }
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asked.
    pub client: u64,
    /// About which key.
    pub path: Arc<str>,
    /// What.
    pub ask: Ask,
    /// When it was asked.
    pub asked: u64,
    /// When it was answered; the end of time if it never was.
    pub answered: u64,
    /// The answer.
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

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending(usize);

impl History {
    /// A tag no other write has.
    pub fn tag(&self) -> Tag {
        let mut inner = self.0.lock();
        inner.tags += 1;
        Tag(inner.tags)
    }

    /// Records that `client` asks now. Until [`History::answer`], the outcome counts as unknown.
    pub fn ask(&self, client: u64, path: &Arc<str>, ask: Ask) -> Pending {
        let mut inner = self.0.lock();
        inner.clock += 1;
        let asked = inner.clock;
        let call = Call { client, path: path.clone(), ask, asked, answered: u64::MAX, told: Told::Unknown };
        inner.calls.push(call);
        Pending(inner.calls.len() - 1)
    }

    /// Records the answer, now.
    pub fn answer(&self, pending: Pending, told: Told) {
        let mut inner = self.0.lock();
        inner.clock += 1;
        let answered = if told == Told::Unknown { u64::MAX } else { inner.clock };
        let call = &mut inner.calls[pending.0];
        (call.answered, call.told) = (answered, told);
    }

    /// All calls in the order they were asked.
    pub fn calls(&self) -> Vec<Call> {
        self.0.lock().calls.clone()
    }

    /// Number of calls that were answered with an outcome.
    pub fn answered(&self) -> usize {
        self.0.lock().calls.iter().filter(|call| call.told.revision().is_some()).count()
    }
}
