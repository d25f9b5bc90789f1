//! The record of sightings: one object of the store's own, which a leader writes and the next one begins from.
//!
//! Owns its form, and when it is written: at once where an owner is seen that orphans, else [`GATHER`] after what it lacks was seen. Where nothing is
//! seen it is neither written nor read again. It tells what was seen and never what is to be done: two leaders that write in
//! turns add to what the other one saw, and an owner that orphaned before the eyes of any of them does so for all.
//!
//! No API serves it, so that neither clients nor an import from another cluster write it; one that a cluster was made anew from says
//! nothing, since its servers may be others. Sightings are as old as the clocks of both members tell; where the clock of the one that reads is behind, they
//! count for that much longer, and not at all where they would be of the future.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::{Either, select};
use orch_bounded::WarningLimit;
use orch_raft::{
    ClusterIdentity, Condition, Index, Key, Object, Operation, Outcome, Put, Revision, State, Store,
    Transaction,
};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::{BLIND_MAX, Mark, Recorded, Sighting, Sightings};
use crate::controllers::client::{Client, Moment};
use crate::error::ApiError;

/// The store's resource of the record; no API serves it.
const RECORDS: &str = "_sightings";

/// The name of the record.
const NAME: &str = "owners";

/// Owners in the record, of 23 bytes each. Dependents of further ones stay where the leader changes.
const RECORDED_MAX: usize = 4096;

/// Those of them, at least, that are there: what has ended must not drive out what has not.
const LIVE_MIN: usize = RECORDED_MAX / 4 * 3;

/// Bytes of an owner in the record before they are text: the digest, and how it was seen.
const ENTRY_BYTES: usize = 17;

/// Time for which sightings are gathered: the answers of one look mostly come in it.
const GATHER: Duration = Duration::from_secs(10);

/// Shortest time between two writes. An owner that orphans is seen by each leader for as long as it is there.
const SOON: Duration = Duration::from_secs(1);

/// How an owner was seen, in the record. Smaller numbers are the seconds for which it still counts as one with dependents.
const GONE: u8 = 254;
const ORPHANING: u8 = 255;
const _: () = assert!(BLIND_MAX.as_secs() < GONE as u64, "the seconds have numbers of their own");

/// Limits warnings of records that cannot be written.
static UNWRITTEN: WarningLimit<Moment> = WarningLimit::new();

/// Reads and writes the record while this process leads.
pub(in crate::controllers::garbage) struct Recorder<'a, S> {
    client: &'a Client<S>,
    sightings: &'a Mutex<Sightings>,
    key: Key,
    /// Revision of the record that was taken in last.
    taken_in: Option<Revision>,
}

impl<'a, S: Store> Recorder<'a, S> {
    /// Begins a time of leading with the record of the leaders before. The caller has passed a read barrier.
    ///
    /// # Errors
    /// The record has no key.
    pub(in crate::controllers::garbage) fn begin(
        client: &'a Client<S>,
        sightings: &'a Mutex<Sightings>,
    ) -> Result<Self, ApiError> {
        let key =
            Key::new(&RECORDS.into(), "", NAME).map_err(|error| ApiError::Internal(error.to_string()))?;
        sightings.lock().resume(client.store().elapsed());
        let mut recorder = Recorder { client, sightings, key, taken_in: None };
        recorder.take_in(&client.store().state());
        Ok(recorder)
    }

    /// Keeps the record. Never completes.
    pub(in crate::controllers::garbage) async fn run(mut self) -> Infallible {
        let store = self.client.store();
        let news = self.sightings.lock().news.clone();
        loop {
            let due = match self.sightings.lock().recorded {
                Recorded::All => None,
                Recorded::LacksSince(at) => Some(at + GATHER),
                Recorded::LacksOrphaning => Some(Duration::ZERO),
            };
            let wait = due.map(|due| due.saturating_sub(store.elapsed()));
            if wait.is_some_and(|wait| wait.is_zero()) {
                self.write().await;
                store.sleep(SOON).await;
                continue;
            }
            let late = match wait {
                Some(wait) => Either::Left(store.sleep(wait)),
                None => Either::Right(std::future::pending()),
            };
            select(Box::pin(news.notified()), Box::pin(late)).await;
        }
    }

    /// Writes what was seen. What could not be written is, or goes with, the next write.
    async fn write(&mut self) {
        let (store, state) = (self.client.store(), self.client.store().state());
        // Another member that led, or still believes that it does, may have written meanwhile.
        self.take_in(&state);
        let now = store.elapsed();
        let before = std::mem::take(&mut self.sightings.lock().recorded);
        let seen = self.sightings.lock().encode(now);
        let condition = match self.taken_in {
            Some(revision) => Condition::AtRevision(self.key.clone(), revision),
            None => Condition::Absent(self.key.clone()),
        };
        // date: the reader counts from it.
        let at = self.client.now_ms();
        let put = put(self.key.clone(), (&cluster(&state), at, &seen));
        let transaction = Transaction {
            proposed_ms: at,
            conditions: vec![condition],
            operations: vec![Operation::Put(put)],
        };
        let written = match store.propose(transaction).await {
            Ok(Outcome::Applied { revision, .. }) => {
                self.taken_in = Some(revision);
                return;
            }
            // It is taken in before the next write.
            Ok(Outcome::Refused { .. }) => return self.sightings.lock().lacks_again(before),
            Ok(Outcome::Full { used, quota, .. }) => ApiError::StateFull { used, quota },
            Err(error) => error.into(),
        };
        self.sightings.lock().lacks_again(Recorded::LacksSince(now));
        if let Some(left_out) = UNWRITTEN.pass_at(self.client.moment()) {
            tracing::warn!(error = %written, left_out, "owners seen at aggregated servers cannot be recorded");
        }
    }

    /// Takes in the record of `state`, unless that is the one known.
    fn take_in(&mut self, state: &State) {
        let stored = state.object(&self.key);
        let revision = stored.map(|object| object.revision);
        if revision == self.taken_in {
            return;
        }
        self.taken_in = revision;
        let Some(object) = stored else { return };
        // date: the writer's is in the record.
        let (now_ms, now) = (self.client.now_ms(), self.client.store().elapsed());
        if let Some((at, seen)) = read(object, &cluster(state)) {
            // A record of the future is of a clock that is not this one.
            let age = now_ms.checked_sub(at).map(Duration::from_millis);
            self.sightings.lock().take_in(&seen, age, now);
        }
    }
}

impl Sightings {
    /// The record was not written: it lacks what it did before.
    fn lacks_again(&mut self, before: Recorded) {
        if self.recorded == Recorded::All {
            self.recorded = before;
        }
    }

    /// The owners that were seen: those with dependents, then the others, each with the last ones that were first seen in front.
    fn encode(&self, now: Duration) -> Vec<u8> {
        let how = |mark: &Mark| match self.seen.get(mark)? {
            Sighting::WithDependents(until) => u8::try_from(until.checked_sub(now)?.as_secs()).ok(),
            Sighting::Gone => Some(GONE),
            Sighting::Orphaning => Some(ORPHANING),
        };
        let known = self.order.iter().rev().filter_map(|mark| Some((mark, how(mark)?)));
        let (mut live, mut others): (Vec<_>, Vec<_>) = known.partition(|(_, how)| *how < GONE);
        others.truncate(RECORDED_MAX - live.len().min(LIVE_MIN));
        live.truncate(RECORDED_MAX - others.len());
        let mut bytes = Vec::with_capacity((live.len() + others.len()) * ENTRY_BYTES);
        for (mark, how) in live.into_iter().chain(others) {
            bytes.extend_from_slice(&mark.0);
            bytes.push(how);
        }
        bytes
    }

    /// Takes in `seen`, which a leader recorded `age` ago; `None`: nobody can tell when.
    fn take_in(&mut self, seen: &[u8], age: Option<Duration>, now: Duration) {
        let (entries, _) = seen.as_chunks::<ENTRY_BYTES>();
        for [mark @ .., how] in entries.iter().take(RECORDED_MAX).rev() {
            let recorded = match *how {
                ORPHANING => Some(Sighting::Orphaning),
                GONE => Some(Sighting::Gone),
                seconds => {
                    let left = Duration::from_secs(seconds.into()).min(BLIND_MAX);
                    let left = age.and_then(|age| left.checked_sub(age));
                    left.map(|left| Sighting::WithDependents(now + left))
                }
            };
            let mark = Mark(*mark);
            let own = self.seen.get(&mark).copied();
            if let Some(recorded) = recorded {
                self.remember(mark, own.map_or(recorded, |own| own.joined(recorded)));
            }
        }
    }
}

impl Sighting {
    /// The sightings of one owner, by this process and by another leader.
    fn joined(self, other: Sighting) -> Sighting {
        use Sighting::{Gone, Orphaning, WithDependents};
        match (self, other) {
            (Orphaning, _) | (_, Orphaning) => Orphaning,
            (WithDependents(own), WithDependents(other)) => WithDependents(own.max(other)),
            // An owner that was seen here may have come back.
            (own @ (WithDependents(_) | Gone), _) => own,
        }
    }
}

/// The record of what a leader of `cluster` saw, at a time in milliseconds since 1970.
fn put(key: Key, (cluster, at, seen): (&str, u64, &[u8])) -> Put {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let seen = STANDARD.encode(seen);
    let json = format!("{HEAD}\"}},\"at\":{at},\"cluster\":{},\"seen\":\"{seen}\"}}", json!(cluster));
    let revision_at = u32::try_from(HEAD.len()).unwrap_or_default();
    Put { key, json: json.into(), revision_at, index: Index::default() }
}

/// Time and content of a record of `cluster`; `None`: it is another one's, or of a form that this program does not know.
fn read(object: &Object, cluster: &str) -> Option<(u64, Vec<u8>)> {
    let value: Value = serde_json::from_slice(&object.json).ok()?;
    if value.text("cluster") != cluster {
        return None;
    }
    Some((value.at("at").as_u64()?, STANDARD.decode(value.text("seen")).ok()?))
}

/// The random name of the cluster; empty in a store of its own.
fn cluster(state: &State) -> Arc<str> {
    ClusterIdentity::read(state).map(|identity| identity.cluster).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LIVE, NOW, ORPHANING as ORPHANS, found, question};
    use super::*;
    use crate::controllers::testing::Fixture;

    const SECOND: Duration = Duration::from_secs(1);

    /// One that saw `a` with dependents, `b` orphaning, and `c` with dependents and gone.
    fn three() -> Sightings {
        let (mut sightings, at) = (Sightings::default(), question("v1.x", "n"));
        for (uid, how) in [("a", LIVE), ("b", LIVE), ("b", ORPHANS), ("c", LIVE)] {
            sightings.note(&at, &found(uid, how), NOW);
        }
        assert!(sightings.took_along(&at, "c", NOW));
        sightings
    }

    /// The uids of those that took their dependents along at `now`.
    fn took_along(mut sightings: Sightings, now: Duration) -> Vec<&'static str> {
        let at = question("v1.x", "n");
        ["a", "b", "c"].into_iter().filter(|uid| sightings.took_along(&at, uid, now)).collect()
    }

    /// One that took in the record of [`three`], at the time zero of its own.
    fn taken_in(age: Option<Duration>) -> Sightings {
        let mut other = Sightings::default();
        other.take_in(&three().encode(NOW + 20 * SECOND), age, Duration::ZERO);
        other
    }

    #[test]
    fn sightings_in_a_record_count_for_as_long_as_with_the_leader_that_saw_them() {
        let age = 30 * SECOND;
        let left = BLIND_MAX - 20 * SECOND - age;
        assert_eq!(took_along(taken_in(Some(age)), left), ["a", "c"]);
        assert_eq!(took_along(taken_in(Some(age)), left + SECOND), ["c"], "a may have orphaned since");
        assert_eq!(took_along(taken_in(Some(BLIND_MAX)), Duration::ZERO), ["c"]);
        assert_eq!(took_along(taken_in(None), Duration::ZERO), ["c"], "nobody knows how old they are");
    }

    #[test]
    fn sightings_of_one_leader_are_added_to_those_of_another() {
        let at = question("v1.x", "n");
        let mut own = Sightings::default();
        own.note(&at, &found("a", ORPHANS), NOW);
        own.note(&at, &found("b", LIVE), NOW);
        own.take_in(&three().encode(NOW), Some(Duration::ZERO), NOW);
        assert_eq!(took_along(own, NOW), ["c"], "both others orphan before the eyes of one of them");
        let order: Vec<Mark> = taken_in(None).order.into();
        assert_eq!(order, three().order.into_iter().skip(1).collect::<Vec<_>>(), "oldest first");
    }

    #[test]
    fn a_record_has_room_for_owners_that_are_there_and_for_those_that_orphan() {
        let at = question("v1.x", "n");
        let recorded = |live: usize, orphaning: usize| {
            let mut sightings = Sightings::default();
            for (count, how) in [(live, LIVE), (orphaning, ORPHANS)] {
                (0..count).for_each(|number| {
                    sightings.note(&at, &found(&format!("{count}-{number}"), how), NOW);
                });
            }
            let bytes = sightings.encode(NOW);
            let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
            let live = entries.iter().filter(|entry| entry[ENTRY_BYTES - 1] < GONE).count();
            (live, entries.len() - live)
        };
        assert_eq!(recorded(10, 5000), (10, RECORDED_MAX - 10));
        assert_eq!(recorded(5000, 10), (RECORDED_MAX - 10, 10));
        assert_eq!(recorded(5000, 4000), (LIVE_MIN, RECORDED_MAX - LIVE_MIN));
    }

    #[test]
    fn bytes_that_are_no_record_are_no_sightings() {
        let mut sightings = Sightings::default();
        sightings.take_in(&[7; ENTRY_BYTES - 1], Some(Duration::ZERO), NOW);
        assert!(sightings.seen.is_empty());
        sightings.take_in(&[200; ENTRY_BYTES], Some(Duration::ZERO), NOW);
        let until: Vec<Sighting> = sightings.seen.into_values().collect();
        assert_eq!(until, [Sighting::WithDependents(NOW + BLIND_MAX)], "no longer than any");
    }

    #[tokio::test]
    async fn a_record_counts_in_the_cluster_that_it_was_written_in_and_members_write_in_turns() {
        let fixture = Fixture::new();
        let (client, first, second) = (fixture.client(), Mutex::new(three()), Mutex::default());
        let mut writing = Recorder::begin(&client, &first).unwrap();
        let mut behind = Recorder::begin(&client, &second).unwrap();
        let (at, now) = (question("v1.x", "n"), client.store().elapsed());
        first.lock().note(&at, &found("a", LIVE), now);
        writing.write().await;
        second.lock().note(&at, &found("d", ORPHANS), now);
        behind.write().await;
        assert_eq!(second.lock().seen.len(), 4, "a, b in two ways, and d");
        writing.write().await;
        assert_eq!(first.lock().seen.len(), 4, "the other one has written meanwhile");
        let state = fixture.state();
        let object = state.object(&writing.key).unwrap();
        assert!(read(object, "").is_some() && read(object, "another").is_none());
    }
}
