//! Promises of other members to this one: votes they granted, entries they acknowledged.
//!
//! A member grants votes and acknowledges entries only when they are durable. So a member that starts with less on its
//! disk than it promised has an older copy of that disk: a snapshot of a virtual machine that was rolled back, a backup
//! that was restored. The members that hold its promises report them to it (see returning), and it takes no part again.
//!
//! Owns the newest promise of each member to this one, in memory: promises made before this process started are lost.
//! Invariant: a promise is noted when its answer is received, never when it is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::member::consensus::LogId;

/// The newest vote and acknowledgement of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Promise {
    /// The newest term in which the member granted a vote or accepted entries.
    pub(crate) term: u64,
    /// The last entry that the member acknowledged in that term, if any.
    pub(crate) log_id: Option<LogId>,
}

impl Promise {
    /// Whether a disk that was voting in `term` and whose log ends at `last` is older than this promise.
    ///
    /// Within a term, acknowledged entries only grow. In a later term another leader may have truncated the log, so the
    /// end of the log proves nothing then.
    pub(crate) fn is_broken_by(&self, term: u64, last: Option<LogId>) -> bool {
        self.term > term || (self.term == term && self.log_id > last)
    }
}

/// The newest promise of each member. Clones share one map. Bounded by the members that there were since this process
/// started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises(Arc<Mutex<BTreeMap<u64, Promise>>>);

impl Promises {
    /// Notes that `node` promised `term` and the log through `log_id`; an older promise changes nothing.
    pub(crate) fn note(&self, node: u64, term: u64, log_id: Option<LogId>) {
        let promise = Promise { term, log_id };
        let mut promises = self.0.lock();
        let newest = promises.entry(node).or_default();
        *newest = promise.max(*newest);
    }

    /// The newest promise of `node`; term 0 and no entry if none is known.
    pub(crate) fn of(&self, node: u64) -> Promise {
        self.0.lock().get(&node).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::log_id;

    #[test]
    fn an_older_disk_breaks_a_promise_and_a_newer_one_does_not() {
        let promises = Promises::default();
        promises.note(1, 4, Some(log_id(4, 20)));
        promises.note(1, 3, Some(log_id(3, 90)));
        let promise = promises.of(1);
        assert!(promise.is_broken_by(3, Some(log_id(3, 99))), "the vote is older");
        assert!(promise.is_broken_by(4, Some(log_id(4, 19))), "the log is older");
        assert!(promise.is_broken_by(4, None));
        assert!(!promise.is_broken_by(4, Some(log_id(4, 20))));
        assert!(!promise.is_broken_by(5, Some(log_id(2, 7))), "another leader may have cut the log");
        assert!(!promises.of(2).is_broken_by(0, None));
    }
}
