//! The wait until a definition that was written is in force, or is known not to come into force.
//!
//! Owns what a client may count on: the member that acknowledged a definition serves its objects at once, and each other member as
//! soon as it has applied what this one had. The loop of definitions (`controllers::definitions`), which runs where the leader is,
//! writes the status; this module only looks at it.
//!
//! Invariant: a wait parses a definition once for each of its versions, however many others change meanwhile.
//! Invariant: nobody waits for a version of a definition that was waited for in vain.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use orch_bounded::WarningLimit;
use orch_raft::object::SharedObject;
use orch_raft::{Revision, Store};
use orch_rules::kinds::definition::conditions::ConditionType;
use orch_rules::kinds::definition::settled::is_settled;
use orch_rules::validate::tree::Tree;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{DEFINITIONS, outline_of};
use crate::follow::any_changed;

/// Longest wait for the loop. It writes a status within milliseconds; a new leader's loop has read all definitions within a second.
/// Behind that the definition comes into force as it does in the reference, some time after the answer.
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(2);

/// Definitions whose waits have an end that is known. Thousands come together; beyond it those whose wait is over are forgotten, and
/// where all others go on, one more is not waited for.
const ENDS_MAX: usize = 8192;

/// Requests that wait for one definition or another at paths that lead nowhere: they hold no seats. One more does not wait.
const WAITING_MAX: usize = 1024;

/// Limits the warnings: without a leader each create of a definition would be one.
static UNSETTLED: WarningLimit = WarningLimit::new();

/// The waits of a node.
///
/// All waits for one version of a definition end together, [`SETTLE_MAX`] behind the begin of the first: the status of some definitions
/// cannot be written (they are as large as the store takes, or a webhook refuses it), and their paths are asked for all the same.
#[derive(Debug)]
pub(super) struct Waits {
    /// For definitions that are waited for: the version, and when its waits end on the clock of [`Store::elapsed`].
    ends: Mutex<HashMap<Arc<str>, (Revision, Duration)>>,
    /// Room for requests that wait without a seat.
    room: Semaphore,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { ends: Mutex::default(), room: Semaphore::new(WAITING_MAX) }
    }
}

impl Waits {
    /// The time left at `now` for those who wait for the definition called `name`, as stored at `revision`; zero: none waits.
    fn time_left(&self, name: &str, revision: Revision, now: Duration) -> Duration {
        let mut ends = self.ends.lock();
        if let Some((of, end)) = ends.get(name)
            && *of == revision
        {
            return end.saturating_sub(now);
        }
        if ends.len() >= ENDS_MAX {
            // once: for each wait while the map is full, and never while others' waits are few.
            ends.retain(|_, (_, end)| *end > now);
            if ends.len() >= ENDS_MAX {
                return Duration::ZERO;
            }
        }
        ends.insert(name.into(), (revision, now + SETTLE_MAX));
        SETTLE_MAX
    }

    /// Notes that the definition called `name` is settled, or gone.
    fn forget(&self, name: &str) {
        self.ends.lock().remove(name);
    }

    /// Completes when the definition that was written as `object` is settled as this node has applied it, and behind `time` at the latest.
    /// Returns whether it waited.
    pub(super) async fn written_settles<S: Store>(
        &self,
        store: &S,
        object: &SharedObject,
        time: Duration,
    ) -> bool {
        let Some(definition) = outline_of(object).filter(|definition| !is_settled(definition)) else {
            return false;
        };
        let spec = definition.at("spec");
        let name = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
        self.wait(store, &name, object.revision, time).await;
        true
    }

    /// Completes when the definition called `name` is settled as this node has applied it, and behind `time` at the latest. Without one
    /// it completes at once, and so it does where too many wait.
    pub(super) async fn named_settles<S: Store>(&self, store: &S, name: &str, time: Duration) {
        let Some(newest) = store.state().collection(DEFINITIONS).get(name).cloned() else { return };
        if outline_of(&newest).is_none_or(|definition| is_settled(&definition)) {
            return;
        }
        if let Ok(_room) = self.room.try_acquire() {
            self.wait(store, name, newest.revision, time).await;
        }
    }

    /// Waits for the definition called `name`, which is not settled as it is stored at `revision`.
    async fn wait<S: Store>(&self, store: &S, name: &str, revision: Revision, time: Duration) {
        let left = self.time_left(name, revision, store.elapsed());
        if left.is_zero() {
            return;
        }
        let looking = settled_after(store, name, Some(revision));
        match select(pin!(looking), pin!(store.sleep(left.min(time)))).await {
            Either::Left(_) => self.forget(name),
            Either::Right(_) => {
                if let Some(left_out) = UNSETTLED.pass() {
                    tracing::warn!(definition = %name, left_out, "a definition is not in force yet: no loop has looked at it");
                }
            }
        }
    }
}

/// Completes when the loop of definitions has looked at the definition called `name`, as this node has applied it: whether it is in
/// force. `false` also where there is no such definition.
pub(crate) async fn settled<S: Store>(store: &S, name: &str) -> bool {
    settled_after(store, name, None).await
}

/// The same, where the loop has not looked at the definition as it is stored at `seen`.
async fn settled_after<S: Store>(store: &S, name: &str, mut seen: Option<Revision>) -> bool {
    let mut changed = [store.subscribe(&DEFINITIONS.into())];
    loop {
        // Others' changes wake this, too: thousands may come together.
        let newest = store.state().collection(DEFINITIONS).get(name).cloned();
        let Some(newest) = newest else { return false };
        if seen.replace(newest.revision) != Some(newest.revision) {
            let Some(definition) = outline_of(&newest) else { return false };
            if is_settled(&definition) {
                return ConditionType::Established.is_true(&definition);
            }
        }
        any_changed(&mut changed).await;
    }
}
