//! Catching up before a token is refused that another member made a moment ago.
//!
//! Owns which refusals are worth a read barrier: one for each request whose token this cluster has signed and of which this
//! node lacks an object (barriers that are under way together share a round to the quorum); a few a second, whatever is
//! sent, for tokens that have the form of one alone. Everything else is refused at once.
//!
//! Invariant: a token that is neither signed by this cluster nor of the form of a bootstrap token causes no barrier.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{Either, select};
use orch_raft::Store;

use crate::ambient::Timestamp;
use crate::authn::Evidence;

/// Longest wait for the barrier. Members are behind by milliseconds; without a quorum the refusal comes after this.
const BARRIER_MAX: Duration = Duration::from_secs(1);

/// Microseconds between two barriers for tokens that anybody can make up: ten a second are nothing to a quorum, and a new
/// node that comes between two of them is refused once and tries again.
const UNSIGNED_EVERY: u64 = 100_000;

/// Catches up with the other members.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    /// Time of the last barrier for an unsigned token, in microseconds since 1970.
    unsigned: AtomicU64,
}

impl CatchUp {
    /// Waits until `store` has applied what was written before, where the `evidence` for a token is worth it. Returns whether
    /// the token should be looked at again.
    pub(super) async fn run<S: Store>(&self, store: &S, evidence: Evidence, now: Timestamp) -> bool {
        if evidence == Evidence::Form && !self.is_time(now) {
            return false;
        }
        let barrier = pin!(store.barrier());
        let given_up = pin!(store.sleep(BARRIER_MAX));
        matches!(select(barrier, given_up).await, Either::Left((Ok(_), _)))
    }

    fn is_time(&self, Timestamp(now): Timestamp) -> bool {
        let last = self.unsigned.load(Ordering::Relaxed);
        // A clock that was set back counts as a long time, too.
        let is_time = now.abs_diff(last) >= UNSIGNED_EVERY;
        is_time && self.unsigned.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
