//! The turns of loops: one after each change, due time, or end of work that the loop began, and, for loops that follow what is
//! served, after each change of that.
//!
//! Owns waiting, and the futures of work under way, which are driven while the loop waits: slow work for one object
//! holds up no other. No loop of this kind polls: without a change, a due time or work under way it sleeps.
//!
//!     wake (change, due time, end of work) -> gather -> turn
//!
//! Invariant: between two turns of one loop lies at least its wait for changes that come together, so that a burst of
//! changes is looked at in batches, and the number of turns is bounded whatever clients write.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use orch_raft::{Store, Subscription};

pub(super) use crate::follow::any_changed;
use crate::follow::poll_changed;
use crate::registry::{Changes, Registry};

/// Wait for the changes that come together with the first one. Two hundred turns a second are few beside the writes that
/// cause them, and a chain of owners takes a turn or two for each level.
pub(super) const GATHER: Duration = Duration::from_millis(5);

/// From a client's write to the first look of a loop that acts on it: the client's next requests still find the object as it
/// left it, and may change the propagation policy of a deletion (vectors/delete, `options`). With [`GATHER`] before and
/// after it, this stays below 50 ms.
pub(super) const SETTLE: Duration = Duration::from_millis(30);

/// Turns of [`Pace`] that follow one another without a wait.
const BURST: u32 = 8;

/// Wait for a further turn of [`Pace`] after a burst.
const REFILL: Duration = Duration::from_secs(1);

/// The turns of one loop. `R`: results of its work.
pub(super) struct Turns<'a, S, R> {
    store: &'a S,
    /// Storage resources whose changes wake the loop, each with what announces them.
    sources: Vec<Arc<str>>,
    changed: Vec<Subscription>,
    /// The served registry, for a loop that follows it.
    served: Option<Changes>,
    under_way: FuturesUnordered<BoxFuture<'a, R>>,
}

impl<'a, S: Store, R> Turns<'a, S, R> {
    /// Turns after changes of `sources`, storage resources.
    pub(super) fn new(store: &'a S, sources: impl IntoIterator<Item = Arc<str>>) -> Self {
        let heard = sources.into_iter().collect();
        let (sources, changed, under_way) = (Vec::new(), Vec::new(), FuturesUnordered::new());
        let mut turns = Turns { store, sources, changed, served: None, under_way };
        turns.hear(heard);
        turns
    }

    /// The same turns, and one after each change of what is served.
    pub(super) fn following(self, served: Changes) -> Self {
        Turns { served: Some(served), ..self }
    }

    /// The registry, where another one is served than at the last call. The caller calls `hear` before it reads the state.
    pub(super) fn newly_served(&mut self) -> Option<Arc<Registry>> {
        #[cfg(any(test, feature = "simulation"))]
        if super::planted::has(super::LoopBug::FreezesResources) {
            return None;
        }
        let served = self.served.as_mut()?;
        served.advance().then(|| served.seen().clone())
    }

    /// The registry that the loop has seen last.
    ///
    /// # Panics
    /// The loop follows none.
    pub(super) fn served(&self) -> Arc<Registry> {
        let served = self.served.as_ref().expect("a loop that asks follows what is served");
        served.seen().clone()
    }

    /// Has changes of `sources`, and no others, wake the loop.
    pub(super) fn hear(&mut self, sources: Vec<Arc<str>>) {
        let known = std::mem::take(&mut self.sources).into_iter().zip(std::mem::take(&mut self.changed));
        let mut known: BTreeMap<Arc<str>, Subscription> = known.collect();
        let store = self.store;
        let heard = |source: &Arc<str>| known.remove(source).unwrap_or_else(|| store.subscribe(source));
        self.changed = sources.iter().map(heard).collect();
        self.sources = sources;
    }

    /// Begins work that goes on between turns. The caller bounds how much of it is under way.
    pub(super) fn start(&mut self, work: impl Future<Output = R> + Send + 'a) {
        self.under_way.push(Box::pin(work));
    }

    /// Waits for the next turn, for at most `due` where given; returns the results of the work that has ended.
    pub(super) async fn next(&mut self, due: Option<Duration>) -> Vec<R> {
        self.next_of(self.changed.len(), due).await
    }

    /// The same, where only the first `heard` subscriptions wake the loop.
    pub(super) async fn next_of(&mut self, heard: usize, due: Option<Duration>) -> Vec<R> {
        let heard = heard.min(self.changed.len());
        let mut ended = Vec::new();
        {
            let mut sleep = pin!(sleep_for(self.store, due));
            poll_fn(|context| {
                drive(&mut self.under_way, &mut ended, context);
                let mut is_changed = poll_changed(&mut self.changed[..heard], context).is_ready();
                is_changed |=
                    self.served.as_ref().is_some_and(|served| served.poll_changed(context).is_ready());
                match is_changed || !ended.is_empty() {
                    true => Poll::Ready(()),
                    false => sleep.as_mut().poll(context),
                }
            })
            .await;
        }
        let mut gather = pin!(self.store.sleep(GATHER));
        poll_fn(|context| {
            drive(&mut self.under_way, &mut ended, context);
            gather.as_mut().poll(context)
        })
        .await;
        ended
    }
}

/// Polls the work under way; adds the results of ended work.
fn drive<R>(
    under_way: &mut FuturesUnordered<BoxFuture<'_, R>>,
    ended: &mut Vec<R>,
    context: &mut Context<'_>,
) {
    while let Poll::Ready(Some(result)) = under_way.poll_next_unpin(context) {
        ended.push(result);
    }
}

async fn sleep_for<S: Store>(store: &S, wait: Option<Duration>) {
    match wait {
        Some(wait) if wait.is_zero() => {}
        Some(wait) => store.sleep(wait).await,
        None => std::future::pending().await,
    }
}

/// Waits for a change on one of `subscriptions`, for at most `wait` where given.
pub(super) async fn changed_within<S: Store>(
    store: &S,
    subscriptions: &mut [Subscription],
    wait: Option<Duration>,
) {
    let mut sleep = pin!(sleep_for(store, wait));
    poll_fn(|context| match poll_changed(subscriptions, context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => sleep.as_mut().poll(context),
    })
    .await;
}

/// The pace of a loop that makes good what clients change: at once when that is rare, once a second when a client (or
/// another server) changes it back again and again.
#[derive(Debug)]
pub(super) struct Pace {
    left: u32,
    refilled: Duration,
}

impl Pace {
    /// A pace with its whole burst before it.
    pub(super) fn new() -> Self {
        Pace { left: BURST, refilled: Duration::ZERO }
    }

    /// Waits until the next turn may begin.
    pub(super) async fn turn<S: Store>(&mut self, store: &S) {
        store.sleep(self.wait(store.elapsed())).await;
    }

    /// Time from `now` until the next turn may begin, which counts as taken.
    fn wait(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.refilled);
        let refills = u32::try_from(passed.as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
        if self.left.saturating_add(refills) >= BURST {
            (self.left, self.refilled) = (BURST, now);
        } else {
            self.left += refills;
            self.refilled += REFILL * refills;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                GATHER
            }
            None => {
                // The next refill is this turn's.
                self.refilled += REFILL;
                self.refilled.saturating_sub(now).max(GATHER)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use orch_schema::json;

    use super::*;
    use crate::controllers::testing::Fixture;

    #[test]
    fn a_burst_passes_at_once_and_a_quarrel_once_a_second() {
        let mut pace = Pace::new();
        let mut now = Duration::from_secs(100);
        for _ in 0..BURST {
            let wait = pace.wait(now);
            assert_eq!(wait, GATHER);
            now += wait;
        }
        let began = now;
        for _ in 0..10 {
            now += pace.wait(now);
        }
        assert!(now - began >= 9 * REFILL && now - began <= 10 * REFILL, "{:?}", now - began);
        now += 20 * REFILL;
        assert_eq!([(); 9].map(|()| pace.wait(now) == GATHER), [[true; 8].as_slice(), &[false]].concat()[..]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_does_not_end_holds_up_no_turn() {
        let fixture = Fixture::new();
        let store = fixture.store();
        let mut turns = Turns::new(store, ["namespaces".into()]);
        turns.start(std::future::pending());
        turns.start(async {
            store.sleep(Duration::from_secs(1)).await;
            "ended"
        });
        fixture.namespace("n").await;
        assert_eq!(turns.next(None).await, [""; 0], "a change");
        assert_eq!(store.elapsed(), GATHER);
        assert_eq!(turns.next(Some(Duration::from_millis(7))).await, [""; 0], "a due time");
        assert_eq!(turns.next(None).await, ["ended"]);
        assert_eq!(store.elapsed(), Duration::from_secs(1) + GATHER);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_many_resources_are_one_turn() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let store = fixture.store();
        let sources = ["namespaces", "configmaps", "secrets"];
        let mut turns = Turns::new(store, sources.map(Arc::from));
        for source in ["configmaps", "secrets"] {
            fixture.create(source, "n", json!({"metadata": {"name": "a"}})).await;
        }
        let _: Vec<()> = turns.next(None).await;
        let mut next = pin!(turns.next(None));
        assert!(futures::poll!(&mut next).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_what_is_served_is_a_turn_and_leads_to_other_sources() {
        let fixture = Fixture::new();
        let (store, client) = (fixture.store(), fixture.client());
        let mut turns: Turns<'_, _, ()> = Turns::new(store, ["namespaces".into()]).following(client.follow());
        fixture.pipeline().served.update(|now| Ok::<_, Infallible>(now.without("secrets"))).unwrap();
        turns.next(None).await;
        let served = turns.newly_served().unwrap();
        assert!(served.stored("secrets").is_none() && turns.newly_served().is_none());
        turns.hear(vec!["configmaps".into()]);
        let _: Vec<()> = turns.next(Some(Duration::ZERO)).await;
        fixture.namespace("n").await;
        let mut next = Box::pin(turns.next(None));
        assert!(futures::poll!(&mut next).is_pending(), "it is no longer a source");
        fixture.create("configmaps", "n", json!({"metadata": {"name": "a"}})).await;
        next.await;
    }
}
