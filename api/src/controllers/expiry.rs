//! Expiry of events: removes each event a time to live after its last write.
//!
//! Owns the order in which stored events expire, kept up to date with changes, so that a check of the clock costs
//! nothing however many events there are. A removal is proposed under the condition that the event still has the
//! expired version: one that was written again meanwhile survives. No node consults its clock to apply it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, Condition, Key, ObjectPath, Operation, Revision, State, Store, Transaction};

use super::client::{Client, for_each};
use super::turns::any_changed;
use crate::error::ApiError;
use crate::follow::{Applied, Derived, Follower};

/// Storage resource of events.
const EVENTS: &str = "events";

/// Removals of one pass: a storm of events expires over several passes, with other writes between.
const BATCH_MAX: usize = 512;

/// Removals proposed concurrently: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// The shortest wait between two passes: expiry is precise to a second.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait: the history still holds the changes since, and a clock that was set is noticed.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// A stored version of an event, ordered by its last write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    written_ms: u64,
    revision: Revision,
    path: Arc<str>,
}

/// All stored events, oldest first.
#[derive(Debug)]
struct Ages {
    source: Arc<str>,
    entries: BTreeSet<Entry>,
}

impl Default for Ages {
    fn default() -> Self {
        Ages { source: EVENTS.into(), entries: BTreeSet::new() }
    }
}

impl Derived for Ages {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        if let Some(old) = &change.old {
            self.entries.remove(&entry(&change.path, old));
        }
        if let Some(new) = &change.new {
            self.entries.insert(entry(&change.path, new));
        }
    }

    fn rebuild(&mut self, state: &State) {
        let collection = state.collection(EVENTS);
        self.entries = collection.range_from("").map(|(path, object)| entry(path, object)).collect();
    }
}

impl Ages {
    /// The oldest events that were last written before `before_ms`, at most a batch.
    fn ended(&self, before_ms: u64) -> Vec<Entry> {
        self.entries
            .iter()
            .take_while(|entry| entry.written_ms < before_ms)
            .take(BATCH_MAX)
            .cloned()
            .collect()
    }

    /// Time from `now_ms` until the next event expires, clamped to the bounds of the wait. `None`: there are no events.
    fn quiet(&self, now_ms: u64, ttl: Duration) -> Option<Duration> {
        let oldest = Duration::from_millis(self.entries.first()?.written_ms);
        Some(
            oldest
                .saturating_add(ttl)
                .saturating_sub(Duration::from_millis(now_ms))
                .clamp(WAIT_MIN, WAIT_MAX),
        )
    }
}

/// Removes expired events. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>, ttl: Duration) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [store.subscribe(&EVENTS.into())];
    let mut ages = Follower::new(Ages::default(), &client.newest().await?);
    loop {
        // date: an event is as old as its last write. The wait is bounded, whatever the time of day.
        match ages.value().quiet(client.now_ms(), ttl) {
            Some(quiet) => store.sleep(quiet).await,
            None => any_changed(&mut changed).await,
        }
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        // date: as above.
        let now_ms = client.now_ms();
        let ended = ages.advance(&Applied::of(store)).ended(now_ms.saturating_sub(ttl_ms));
        for removed in for_each(ended, CONCURRENT_WRITES_MAX, |entry| remove(store, now_ms, entry)).await {
            removed?;
        }
    }
}

async fn remove<S: Store>(store: &S, proposed_ms: u64, entry: Entry) -> Result<(), ApiError> {
    let (namespace, name) = ObjectPath::of(&entry.path).parts();
    let key =
        Key::new(&EVENTS.into(), namespace, name).map_err(|error| ApiError::Internal(error.to_string()))?;
    // One event a transaction: a watch must be able to resume between any two.
    let transaction = Transaction {
        proposed_ms,
        conditions: vec![Condition::AtRevision(key.clone(), entry.revision)],
        operations: vec![Operation::Delete(key)],
    };
    store.propose(transaction).await?;
    Ok(())
}

fn entry(path: &Arc<str>, object: &SharedObject) -> Entry {
    Entry { written_ms: object.written_ms, revision: object.revision, path: path.clone() }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::controllers::testing::{Fixture, event};

    const TTL: Duration = Duration::from_secs(3600);

    fn ages_of(fixture: &Fixture) -> Follower<Ages> {
        Follower::new(Ages::default(), &fixture.applied())
    }

    async fn with_event(name: &str) -> Fixture {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        fixture.create("events", "n", event("n", name)).await;
        fixture
    }

    #[tokio::test]
    async fn an_event_ends_its_time_to_live_after_its_last_write() {
        let fixture = with_event("a").await;
        fixture.advance(Duration::from_secs(1800));
        fixture.create("events", "n", event("n", "b")).await;
        let mut follower = ages_of(&fixture);
        let ages = follower.value();
        let start_ms = fixture.now_ms() - 1_800_000;
        assert_eq!(ages.quiet(start_ms, TTL), Some(WAIT_MAX), "a long wait is cut");
        assert_eq!(ages.quiet(start_ms + 3_590_000, TTL), Some(Duration::from_secs(10)));
        assert_eq!(ages.quiet(start_ms + 9_999_000, TTL), Some(WAIT_MIN));
        assert!(ages.ended(start_ms).is_empty());
        assert_eq!(&*ages.ended(start_ms + 1)[0].path, "n/a");
        fixture.merge("events", "n/a", json!({"count": 2})).await;
        let ages = follower.advance(&fixture.applied());
        assert!(ages.ended(start_ms + 1).is_empty(), "the second write starts the time again");
        assert_eq!(ages.entries.len(), 2);
    }

    #[tokio::test]
    async fn following_and_starting_anew_agree() {
        let fixture = with_event("a").await;
        let mut follower = ages_of(&fixture);
        follower.advance(&fixture.applied());
        fixture.create("events", "n", event("n", "b")).await;
        fixture.delete("events", "n/a", json!({})).await;
        let ages = follower.advance(&fixture.applied());
        assert_eq!(ages.entries, ages_of(&fixture).value().entries);
        fixture.delete("events", "n/b", json!({})).await;
        fixture.forget_history();
        let ages = follower.advance(&fixture.applied());
        assert!(ages.entries.is_empty());
        assert_eq!(ages.quiet(0, TTL), None);
    }

    #[tokio::test]
    async fn an_event_written_again_survives_a_removal_decided_before() {
        let fixture = with_event("a").await;
        let ended = ages_of(&fixture).value().ended(u64::MAX).remove(0);
        fixture.merge("events", "n/a", json!({"count": 2})).await;
        remove(fixture.store(), fixture.now_ms(), ended).await.unwrap();
        assert!(fixture.exists("events", "n/a"));
        let ended = ages_of(&fixture).value().ended(u64::MAX).remove(0);
        remove(fixture.store(), fixture.now_ms(), ended).await.unwrap();
        assert!(!fixture.exists("events", "n/a"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_loop_removes_what_ended_and_nothing_else() {
        let fixture = with_event("a").await;
        fixture.advance(Duration::from_secs(3599));
        fixture.create("events", "n", event("n", "b")).await;
        let client = fixture.client();
        fixture.while_running(run(&client, TTL), 60).await;
        assert!(fixture.exists("events", "n/a"));
        fixture.advance(Duration::from_secs(2));
        fixture.while_running(run(&client, TTL), 60).await;
        assert!(!fixture.exists("events", "n/a"));
        assert!(fixture.exists("events", "n/b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_counts_from_the_last_write() {
        let fixture = with_event("updated").await;
        for name in ["untouched", "unchanged"] {
            fixture.create("events", "n", event("n", name)).await;
        }
        let client = fixture.client();
        fixture.while_running(run(&client, TTL), 60).await;
        fixture.advance(Duration::from_secs(1800));
        fixture.merge("events", "n/updated", json!({"count": 2})).await;
        // As in the reference, a patch without effect is no write.
        fixture.merge("events", "n/unchanged", json!({"reason": "Tested"})).await;
        fixture.forget_history();
        fixture.advance(Duration::from_secs(1801));
        let next = fixture.client();
        fixture.while_running(run(&next, TTL), 60).await;
        assert!(fixture.exists("events", "n/updated"));
        assert_eq!(fixture.state().collection("events").len(), 1);
        fixture.advance(Duration::from_secs(1800));
        fixture.while_running(run(&next, TTL), 60).await;
        assert!(!fixture.exists("events", "n/updated"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_events_ends_over_some_looks() {
        let fixture = with_event("first").await;
        for at in 0..2 * BATCH_MAX {
            fixture.create("events", "n", event("n", &format!("e-{at}"))).await;
        }
        fixture.advance(TTL + Duration::from_secs(1));
        assert_eq!(ages_of(&fixture).value().ended(fixture.now_ms()).len(), BATCH_MAX);
        let client = fixture.client();
        let mut sizes = Vec::new();
        let steps = async {
            for _ in 0..4 {
                fixture.store().sleep(WAIT_MIN).await;
                sizes.push(fixture.state().collection("events").len());
            }
        };
        fixture.beside(run(&client, TTL), steps).await;
        assert!(sizes.iter().any(|&size| size > 0 && size < 2 * BATCH_MAX), "{sizes:?}");
        assert!(fixture.state().collection("events").is_empty());
    }
}
