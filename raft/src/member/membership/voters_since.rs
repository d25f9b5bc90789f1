//! Since which entry of the log each voter is known to be a voter.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// For each voter of the newest committed membership: the log index of the first membership with this voter that this
/// process looked at. At least the index of its promotion.
#[derive(Default)]
pub(crate) struct VotersSince(Mutex<BTreeMap<u64, u64>>);

impl VotersSince {
    /// Notes the committed membership of entry `at`, whose voters are `voters`; returns the index of each voter.
    pub(super) fn note(&self, at: u64, voters: &BTreeSet<u64>) -> BTreeMap<u64, u64> {
        let mut since = self.0.lock();
        since.retain(|id, _| voters.contains(id));
        for id in voters {
            since.entry(*id).or_insert(at);
        }
        since.clone()
    }
}
