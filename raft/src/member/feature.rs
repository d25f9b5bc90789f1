//! The feature level: the version of the stored forms and frames that the members of a cluster write.
//!
//! Owns the level that this program supports and the level that the cluster has agreed on. Every stored form and frame
//! names the lowest level that reads it (see [`crate::encoding`]); a member writes only forms of the agreed level.
//!
//! - The level is an object of the cluster's own resource: agreed through the log, the same at each revision everywhere.
//! - The leader raises it once every voter and learner has answered that its program supports a higher one. It never
//!   falls: stored forms must stay readable.
//! - A member whose program supports less than what was agreed stops, and says which level it lacks. It has damaged
//!   nothing and goes on where it stopped once it is upgraded.
//!
//! Invariant: between the members' answers and the appending of the raise no member is added, because both hold
//! [`Feature::alone`] and the raise is appended in the very term in which they were asked or not at all.

mod raising;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::key::Revision;
use crate::member::identity::{cluster_key, cluster_put};
use crate::member::options::StartError;
use crate::state::State;
use crate::transaction::{Condition, Operation, Put, Transaction};

/// The name of the object that holds the agreed level.
const LEVEL: &str = "feature-level";

/// Its only field.
const LEVEL_FIELD: &str = "level";

/// The level of this program and of its cluster, shared by all parts that encode or decode.
#[derive(Debug)]
pub(crate) struct FeatureLevel {
    supported: u32,
    agreed: AtomicU32,
}

impl FeatureLevel {
    /// A program that supports levels up to `supported`, in a cluster whose level is not known yet.
    pub(crate) fn of(supported: u32) -> Arc<Self> {
        Arc::new(FeatureLevel { supported, agreed: AtomicU32::new(0) })
    }

    /// The highest level whose forms may be read.
    pub(crate) fn supported(&self) -> u32 {
        self.supported
    }

    /// The level whose forms are written.
    pub(crate) fn agreed(&self) -> u32 {
        self.agreed.load(Ordering::Acquire)
    }

    /// Takes over the agreed level from the applied state. An error if this program does not support it.
    pub(crate) fn follow(&self, state: &State) -> Result<(), StartError> {
        let agreed = agreed_feature_level(state);
        if agreed > self.supported {
            return Err(StartError::OldProgram { agreed, supported: self.supported });
        }
        self.agreed.fetch_max(agreed, Ordering::AcqRel);
        Ok(())
    }
}

/// The feature levels of this member, its cluster and the other members.
pub(crate) struct Feature {
    pub(crate) level: Arc<FeatureLevel>,
    /// Held while members are asked and the level is raised, and while a member is asked and added.
    pub(crate) alone: tokio::sync::Mutex<()>,
    /// The supported level in each member's last answer, by member id.
    heard: Mutex<BTreeMap<u64, u32>>,
}

impl Feature {
    pub(crate) fn new(level: Arc<FeatureLevel>) -> Self {
        Feature { level, alone: tokio::sync::Mutex::default(), heard: Mutex::default() }
    }

    /// The supported level in the last answer of `member`; `None` before the first.
    pub(crate) fn heard(&self, member: u64) -> Option<u32> {
        self.heard.lock().get(&member).copied()
    }
}

/// The feature level that the cluster had agreed on in `state`.
pub fn agreed_feature_level(state: &State) -> u32 {
    agreed(state).map_or(0, |(level, _)| level)
}

/// The level that the cluster agreed on, and the revision that set it; `None` before the first raise.
fn agreed(state: &State) -> Option<(u32, Revision)> {
    let object = state.object(&cluster_key(LEVEL))?;
    // A level that is no number was written by an unknown program: `u32::MAX` is above every supported level.
    Some((object.index.fields.value(LEVEL_FIELD, 0).parse().unwrap_or(u32::MAX), object.revision))
}

/// The transaction that raises the level from what `state` has.
fn raise(state: &State, to: u32, now_ms: u64) -> Transaction {
    let key = cluster_key(LEVEL);
    let condition = match agreed(state) {
        None => Condition::Absent(key),
        Some((_, revision)) => Condition::AtRevision(key, revision),
    };
    let operations = vec![Operation::Put(level_put(to))];
    Transaction { proposed_ms: now_ms, conditions: vec![condition], operations }
}

/// The object with the agreed level `to`.
pub(crate) fn level_put(to: u32) -> Put {
    cluster_put(LEVEL, &[(LEVEL_FIELD, &to.to_string())])
}

/// Whether the store's own object at `path` holds the agreed level.
pub(crate) fn is_level(path: &str) -> bool {
    path == LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Outcome;

    #[test]
    fn a_level_is_raised_once_from_what_it_was() {
        let mut state = State::default();
        let level = FeatureLevel::of(2);
        assert_eq!((agreed(&state), level.agreed()), (None, 0));
        let (first, rival) = (raise(&state, 1, 5), raise(&state, 2, 5));
        assert!(matches!(state.apply(Revision(2), &first), Outcome::Applied { .. }));
        assert!(matches!(state.apply(Revision(3), &rival), Outcome::Refused { .. }));
        assert_eq!(agreed(&state), Some((1, Revision(2))));
        level.follow(&state).unwrap();
        assert_eq!(level.agreed(), 1);
        let second = raise(&state, 2, 5);
        state.apply(Revision(4), &second);
        assert!(matches!(state.apply(Revision(5), &raise(&State::default(), 3, 5)), Outcome::Refused { .. }));
        assert_eq!(agreed(&state), Some((2, Revision(4))));
    }

    #[test]
    fn a_program_below_the_agreed_level_says_so() {
        let mut state = State::default();
        state.apply(Revision(2), &raise(&State::default(), 7, 5));
        let error = FeatureLevel::of(1).follow(&state).unwrap_err().to_string();
        assert!(error.contains('7') && error.contains('1') && error.contains("upgrade"), "{error}");
    }
}
