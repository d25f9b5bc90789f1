//! Watches end with the right to watch, and with the credential that they were opened with.
//!
//! Owns asking again, once a minute, whether the request that opened the watch would still be let in: whether its token,
//! certificate or front proxy still proves the same user, who may still impersonate whom the request acts as, who may
//! still watch. A watch outlives, for a while, a server that has to be asked and gives no answer. It knows no rule. The
//! listener ends connections whose certificate has expired or was revoked.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::Store;

use crate::ambient::{Ambient, Timestamp};
use crate::authn::{Credential, Moment};
use crate::authz::{Asked, Attributes};
use crate::exchange::Exchange;
use crate::follow::Applied;
use crate::gate::{Gate, NotAdmitted};
use crate::request::{Query, Target};

/// Longest time that a watch outlives its right: the interval of bookmarks. A decision takes microseconds.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Time for which a watch goes on while a webhook or an issuer that decides on it gives no answer, counted from the first question
/// without one: enough to restart that server, which would otherwise cost every watch of its users, all of which come back
/// together; and a bound for credentials that ended meanwhile.
const UNDECIDED_SPAN_MAX: Duration = Duration::from_secs(600);

/// The right that a watch was started with.
pub(super) struct WatchRight {
    pub(super) gate: Arc<Gate>,
    pub(super) ambient: Arc<dyn Ambient>,
    /// `None` for a request that passed no gate.
    pub(super) credential: Option<Credential>,
    pub(super) asked: Asked,
    pub(super) target: Target,
    pub(super) query: Query,
}

impl WatchRight {
    /// Completes when the watch would no longer be let in, or when nobody could decide that for [`UNDECIDED_SPAN_MAX`].
    pub(super) async fn lost<S: Store>(self, store: S) {
        let Some(credential) = &self.credential else { return std::future::pending().await };
        let mut undecided_since: Option<Timestamp> = None;
        loop {
            store.sleep(ASK_EVERY).await;
            let now = self.ambient.now();
            // In a box of its own while it runs: every watch holds this future for its whole life.
            let Err(error) = Box::pin(self.is_held_still(credential, now, &store)).await else {
                undecided_since = None;
                continue;
            };
            let since = *undecided_since.get_or_insert(now);
            let passed = Duration::from_micros(now.0.saturating_sub(since.0));
            match error {
                NotAdmitted::Undecided(reason) if passed < UNDECIDED_SPAN_MAX => {
                    tracing::debug!(?credential, reason, "the right to a watch is not decided");
                }
                error => {
                    tracing::debug!(?credential, %error, "a watch ends with the right to it");
                    return;
                }
            }
        }
    }

    async fn is_held_still<S: Store>(
        &self,
        credential: &Credential,
        now: Timestamp,
        store: &S,
    ) -> Result<(), NotAdmitted> {
        let (applied, exchange) = (Applied::of(store), Exchange::internal());
        let at = Moment { applied: &applied, now, remarks: &exchange };
        let attributes = Attributes::Resource(self.asked.attributes(&self.target, &self.query));
        self.gate.admits_still(credential, attributes, at).await
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::memory::MemoryStore;

    use super::*;

    fn bytes_of<A, F>(_: fn(WatchRight, A) -> F) -> usize {
        size_of::<F>()
    }

    /// Every watch holds the future for its whole life; what asking takes is held while it asks.
    #[test]
    fn a_watch_that_waits_to_ask_again_holds_little() {
        let held = bytes_of(WatchRight::lost::<MemoryStore>);
        assert!(held <= 1536, "{held} bytes");
    }
}
