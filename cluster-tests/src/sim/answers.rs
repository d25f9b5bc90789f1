//! Checks the API's responses against the real order of changes.
//!
//! Owns the check of each response against the ledger, whose order of changes is the real one. A write is where its tag
//! is, on the version it was conditional on. A refusal and a read show the object at some moment between request and
//! response. That is linearizability with the order given, for any number of keys.

use std::sync::Arc;

use orch_raft::Revision;

use super::history::{Tag, Version};
use super::ledger::{Ledger, THINGS};

/// The operation that a client requested on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// POST.
    Create,
    /// PUT or PATCH, conditional on this version if there is one.
    Update(Option<Revision>),
    /// DELETE, conditional on this version if there is one.
    Remove(Option<Revision>),
    /// GET of the newest state.
    Read,
}

/// The outcome in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object as written.
    Written(Revision),
    /// The object is gone.
    Removed,
    /// The object as read.
    Found(Version),
    /// There is no such object.
    Absent,
    /// 409: the object exists already.
    Exists,
    /// 409: the object has another version.
    Conflict,
    /// Certainly not applied.
    NotDone,
    /// Unknown: applied, not applied, or applied later.
    Unknown,
}

/// One request to the API and its response.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Number of the client.
    pub client: u64,
    /// The object of [`THINGS`]: `namespace/name`.
    pub path: Arc<str>,
    /// The requested operation.
    pub wanted: Wanted,
    /// Tag that the request puts into the object, if it writes one.
    pub tag: Option<Tag>,
    /// The outcome in the response.
    pub outcome: Outcome,
    /// The newest revision that any client knew when the request was sent.
    pub not_before: Revision,
    /// The newest revision that any member had applied when the response arrived.
    pub through: Revision,
}

/// A response that contradicts the ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API answered otherwise than what happened ({happened}): {answer}")]
pub struct Misled {
    answer: String,
    happened: String,
}

impl Answered {
    /// The response tells the outcome.
    pub fn has_outcome(&self) -> bool {
        !matches!(self.outcome, Outcome::NotDone | Outcome::Unknown)
    }

    /// Checks the response against the ledger; `false` if the ledger lacks a needed revision.
    ///
    /// # Errors
    /// [`Misled`] if the response contradicts the ledger.
    pub fn check(&self, ledger: &Ledger) -> Result<bool, Misled> {
        let wrong = |happened: String| Err(Misled { answer: format!("{self:?}"), happened });
        let written = self.tag.and_then(|tag| ledger.revision_of(tag));
        match (self.outcome, written) {
            (Outcome::Written(revision), _) => return self.check_written(ledger, revision),
            (Outcome::Unknown, _) => return Ok(true),
            (_, Some(revision)) => return wrong(format!("applied at {revision}")),
            (Outcome::NotDone, None) => return Ok(true),
            _ => {}
        }
        let Some(versions) = ledger.versions(THINGS, &self.path, self.not_before, self.through) else {
            return Ok(false);
        };
        let differs =
            |from: Revision, version: &Option<Version>| version.is_none_or(|one| one.revision != from);
        let right = match (self.outcome, self.wanted) {
            (Outcome::Found(version), _) => versions.contains(&Some(version)),
            (Outcome::Absent, _) => versions.contains(&None),
            (Outcome::Exists, _) => versions.iter().any(Option::is_some),
            (Outcome::Conflict, Wanted::Update(Some(from)) | Wanted::Remove(Some(from))) => {
                versions.iter().any(|version| differs(from, version))
            }
            (Outcome::Removed, Wanted::Remove(from)) => versions.windows(2).any(|pair| {
                let old = pair[0].filter(|old| from.is_none_or(|from| old.revision == from));
                old.is_some() && pair[1].is_none()
            }),
            _ => false,
        };
        if right { Ok(true) } else { wrong(format!("versions meanwhile: {versions:?}")) }
    }

    fn check_written(&self, ledger: &Ledger, revision: Revision) -> Result<bool, Misled> {
        let wrong = |happened: String| Err(Misled { answer: format!("{self:?}"), happened });
        let Some(change) = ledger.change_at(THINGS, revision) else { return Ok(false) };
        let Some(noted) = change.filter(|noted| noted.path == self.path) else {
            return wrong("another change, or none, has that revision".to_owned());
        };
        let old = noted.old.map(|old| old.revision);
        let on_the_right_version = match self.wanted {
            Wanted::Create => old.is_none(),
            Wanted::Update(Some(from)) => old == Some(from),
            Wanted::Update(None) => old.is_some(),
            Wanted::Remove(_) | Wanted::Read => false,
        };
        if noted.new.map(|new| new.tag) != self.tag || !on_the_right_version || revision <= self.not_before {
            return wrong(format!("{noted:?}"));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::State;
    use orch_raft::transport::NodeId;

    use super::super::history::Guard;
    use super::super::ledger::Cursor;
    use super::super::things::{Extras, transaction};
    use super::*;

    /// Object `a`: created at 2, updated at 3, removed at 4, created at 5.
    fn ledger() -> Ledger {
        let mut state = State::default();
        state.advance(Revision(1));
        for (revision, tag) in [(2, Some(2)), (3, Some(3)), (4, None), (5, Some(5))] {
            let write = transaction("a", Guard::Always, tag.map(Tag), Extras::default(), 0);
            state.apply(Revision(revision), &write);
        }
        let ledger = Ledger::default();
        ledger.observe(NodeId(1), &state, &mut Cursor::default()).unwrap();
        ledger
    }

    fn answer(wanted: Wanted, tag: Option<u64>, outcome: Outcome, during: (u64, u64)) -> Answered {
        let (not_before, through) = (Revision(during.0), Revision(during.1));
        Answered {
            client: 1,
            path: "things/a".into(),
            wanted,
            tag: tag.map(Tag),
            outcome,
            not_before,
            through,
        }
    }

    fn found(revision: u64) -> Outcome {
        Outcome::Found(Version { revision: Revision(revision), tag: Tag(revision), marked: false })
    }

    #[test]
    fn answers_that_are_what_happened_pass() {
        let from = |revision| Some(Revision(revision));
        for right in [
            answer(Wanted::Create, Some(2), Outcome::Written(Revision(2)), (1, 2)),
            answer(Wanted::Update(from(2)), Some(3), Outcome::Written(Revision(3)), (2, 3)),
            answer(Wanted::Remove(from(3)), None, Outcome::Removed, (3, 4)),
            answer(Wanted::Remove(None), None, Outcome::Removed, (2, 5)),
            answer(Wanted::Update(from(2)), Some(9), Outcome::Conflict, (2, 3)),
            answer(Wanted::Create, Some(9), Outcome::Exists, (3, 4)),
            answer(Wanted::Read, None, Outcome::Absent, (3, 4)),
            answer(Wanted::Read, None, found(3), (3, 3)),
            answer(Wanted::Create, Some(9), Outcome::NotDone, (1, 1)),
            answer(Wanted::Create, Some(5), Outcome::Unknown, (1, 1)),
        ] {
            assert_eq!(right.check(&ledger()), Ok(true), "{right:?}");
        }
        assert_eq!(answer(Wanted::Read, None, found(5), (5, 99)).check(&ledger()), Ok(false), "unknown");
    }

    #[test]
    fn answers_that_are_not_are_found() {
        let from = |revision| Some(Revision(revision));
        for wrong in [
            answer(Wanted::Create, Some(3), Outcome::Written(Revision(3)), (1, 5)),
            answer(Wanted::Update(from(1)), Some(3), Outcome::Written(Revision(3)), (1, 5)),
            answer(Wanted::Update(from(2)), Some(3), Outcome::Written(Revision(3)), (3, 5)),
            answer(Wanted::Create, Some(9), Outcome::Written(Revision(2)), (1, 2)),
            answer(Wanted::Create, Some(2), Outcome::NotDone, (1, 2)),
            answer(Wanted::Create, Some(2), Outcome::Exists, (1, 2)),
            answer(Wanted::Remove(from(2)), None, Outcome::Removed, (1, 5)),
            answer(Wanted::Remove(None), None, Outcome::Removed, (2, 3)),
            answer(Wanted::Update(from(3)), Some(9), Outcome::Conflict, (3, 3)),
            answer(Wanted::Create, Some(9), Outcome::Exists, (4, 4)),
            answer(Wanted::Read, None, Outcome::Absent, (2, 3)),
            answer(Wanted::Read, None, found(3), (4, 5)),
        ] {
            assert!(wrong.check(&ledger()).is_err(), "{wrong:?}");
        }
    }
}
