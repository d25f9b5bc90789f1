//! Runs the consensus library's test suite for log and state machine, and tests of this crate's stricter log.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::entry::RaftEntry;
use openraft::storage::{
    EntryResponder, IOFlushed, LogState, RaftLogStorage, RaftLogStorageExt, RaftStateMachine,
};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, OptionalSend, RaftLogReader, StorageError};
use openraft_rt_sim::SimRuntime;
use prost::Message;

use super::disk::MemoryDisk;
use crate::Runtime;
use crate::disk::{Disk, StateWrite};
use crate::encoding::object_to_wire;
use crate::member::codec::Mark;
use crate::member::consensus::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembership, Types, Vote, log_id};
use crate::member::fatal::Fatal;
use crate::member::feature::FeatureLevel;
use crate::member::log::{Log, Settle};
use crate::member::machine::{Applied, Machine, Restore, SnapshotBody};
use crate::member::options::HistoryOptions;
use crate::member::proposals::Proposals;
use crate::state::State;

type SimTypes = Types<SimRuntime>;
type SimLog = Log<SimRuntime, MemoryDisk>;
type SimMachine = Machine<SimRuntime, MemoryDisk>;
type Applicable = EntryResponder<SimTypes>;

/// Lets every purge pass: the suite purges entries without applying them.
struct Settled;

impl Settle for Settled {
    fn settle(&self, _: u64) -> bool {
        true
    }
}

struct Builder;

/// The log with the library's looser contract: entries missing at either end of a range are left out. Ours calls that
/// an error (see the log's reader), so the range is clipped to the entries there are.
struct Tolerant(SimLog);

impl Tolerant {
    async fn within(&mut self, range: impl RangeBounds<u64>) -> Result<std::ops::Range<u64>, io::Error> {
        let LogState { last_purged_log_id, last_log_id } = self.0.get_log_state().await?;
        let next = |id: Option<LogId>| id.map_or(0, |id| id.index + 1);
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(from) => from + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(to) => to + 1,
            Bound::Excluded(to) => *to,
            Bound::Unbounded => u64::MAX,
        };
        let first = self.0.first().unwrap_or_default();
        Ok(from.max(next(last_purged_log_id)).max(first)..to.min(next(last_log_id)))
    }
}

impl RaftLogReader<SimTypes> for Tolerant {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> Result<Vec<Entry>, io::Error> {
        let range = self.within(range).await?;
        self.0.try_get_log_entries(range).await
    }

    async fn entries_stream<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend {
        let range = self.within(range).await.unwrap();
        self.0.entries_stream(range).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        self.0.read_vote().await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.0.limited_get_log_entries(start, end).await
    }
}

impl RaftLogStorage<SimTypes> for Tolerant {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<SimTypes>, io::Error> {
        self.0.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self {
        Tolerant(self.0.get_log_reader().await)
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.0.save_vote(vote).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.0.save_committed(committed).await
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        self.0.read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<SimTypes>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.0.append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        self.0.truncate_after(last).await
    }

    async fn purge(&mut self, through: LogId) -> Result<(), io::Error> {
        self.0.purge(through).await
    }
}

/// The state machine for the library's cases. Some apply entries that do not follow the last one, which ours refuses,
/// so the gap is filled with blank entries, which change nothing. Some install a snapshot as sent, which ours takes
/// only as received.
struct Gapless {
    machine: SimMachine,
    disk: Arc<MemoryDisk>,
}

impl Gapless {
    /// Blank entries, of the term of `id`, that fill the gap between the last applied entry and `id`.
    async fn blanks_before(&mut self, id: LogId) -> Result<Vec<Applicable>, io::Error> {
        let (applied, _) = self.machine.applied_state().await?;
        let next = applied.map_or(0, |applied| applied.index + 1);
        let term = id.leader_id.term;
        let blank = |index| (Entry::new(log_id(term, index), EntryPayload::Blank), None);
        Ok((next..id.index).map(blank).collect())
    }

    /// Turns a state into a received snapshot: built from its objects, and installed on the disk beside the current
    /// state.
    fn receive(&self, meta: &SnapshotMeta, state: &State) -> Result<SnapshotBody, io::Error> {
        let (mut restore, mut install) =
            (Restore::default(), self.disk.begin_install().map_err(io::Error::other)?);
        for (resource, collection) in state.collections() {
            for (path, object) in collection.range_from("") {
                let record = Some(Bytes::from(object_to_wire(object).encode_to_vec()));
                restore.add_object(resource, path, object.clone()).map_err(io::Error::other)?;
                let write = StateWrite { resource: (&**resource).into(), path: (&**path).into(), record };
                install.put(vec![write]).map_err(io::Error::other)?;
            }
        }
        let changed = Some(state.changed_at_floor(state.applied()));
        let mark = Mark { log_id: meta.last_log_id, membership: meta.last_membership.clone(), changed };
        let state = restore.finish(&mark).map_err(io::Error::other)?;
        Ok(SnapshotBody::Received(state, install))
    }
}

impl RaftStateMachine<SimTypes> for Gapless {
    type SnapshotData = SnapshotBody;
    type SnapshotBuilder = <SimMachine as RaftStateMachine<SimTypes>>::SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        self.machine.applied_state().await
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<Applicable, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(entry) = entries.next().await {
            let (entry, responder) = entry?;
            let mut run = self.blanks_before(entry.log_id).await?;
            run.push((entry, responder));
            self.machine.apply(futures::stream::iter(run.into_iter().map(Ok))).await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        self.machine.get_snapshot_builder().await
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, body: SnapshotBody) -> Result<(), io::Error> {
        let received = match body {
            SnapshotBody::Sending(state) => self.receive(meta, &state)?,
            received @ SnapshotBody::Received(..) => received,
        };
        self.machine.install_snapshot(meta, received).await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<SnapshotBody>>, io::Error> {
        self.machine.get_current_snapshot().await
    }
}

impl StoreBuilder<SimTypes, Tolerant, Gapless, ()> for Builder {
    async fn build(&self) -> Result<((), Tolerant, Gapless), StorageError<SimTypes>> {
        let (disk, fatal) = (Arc::new(MemoryDisk::default()), Fatal::default());
        let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
        let applied = Applied::load(disk.clone(), HistoryOptions::default(), proposals, fatal.clone());
        let applied = Arc::new(applied.unwrap());
        let memory = disk.clone();
        let log = Log::open(disk, Arc::new(Settled), fatal, FeatureLevel::of(1)).unwrap();
        Ok(((), Tolerant(log), Gapless { machine: Machine::new(applied, Arc::default()), disk: memory }))
    }
}

#[test]
fn the_log_and_the_machine_keep_the_librarys_contract() {
    SimRuntime::with_seed(1).block_on(Suite::test_all(Builder)).unwrap();
}

/// A log of entries 0 to 9, the first five purged.
async fn purged_log() -> (SimLog, Arc<MemoryDisk>) {
    let (disk, fatal) = (Arc::new(MemoryDisk::default()), Fatal::default());
    let settled = Arc::new(Settled);
    let mut log: SimLog = Log::open(disk.clone(), settled, fatal, FeatureLevel::of(1)).unwrap();
    let blank = |index| Entry::new(log_id(1, index), EntryPayload::Blank);
    log.blocking_append((0..10).map(blank)).await.unwrap();
    log.purge(log_id(1, 4)).await.unwrap();
    (log, disk)
}

fn indexes(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.log_id.index).collect()
}

#[test]
fn a_range_that_is_not_wholly_in_the_log_is_an_error() {
    SimRuntime::with_seed(1).block_on(async {
        let (mut log, _) = purged_log().await;
        assert_eq!(indexes(&log.try_get_log_entries(5..10).await.unwrap()), [5, 6, 7, 8, 9]);
        assert_eq!(indexes(&log.try_get_log_entries(..=6).await.unwrap()), [5, 6]);
        assert_eq!(indexes(&log.try_get_log_entries(8..).await.unwrap()), [8, 9]);
        assert!(log.try_get_log_entries(7..7).await.unwrap().is_empty());
        for (range, missing) in [(4..10, 4), (0..3, 0), (8..11, 10), (10..12, 10), (20..30, 20)] {
            let reason = log.try_get_log_entries(range.clone()).await.unwrap_err().to_string();
            assert!(reason.contains(&format!("entry {missing} is missing")), "{range:?}: {reason}");
            let mut stream = std::pin::pin!(log.entries_stream(range.clone()).await);
            assert!(stream.next().await.unwrap().is_err(), "{range:?}: applied past a gap");
        }
    });
}

#[test]
fn replication_gets_no_later_entries_than_it_asked_for() {
    SimRuntime::with_seed(1).block_on(async {
        let (mut log, _) = purged_log().await;
        assert_eq!(indexes(&log.limited_get_log_entries(5, 7).await.unwrap()), [5, 6]);
        assert!(log.limited_get_log_entries(3, 7).await.unwrap().is_empty(), "entry 5 does not follow 2");
        assert!(log.limited_get_log_entries(12, 14).await.unwrap().is_empty(), "truncated meanwhile");
    });
}

#[test]
fn a_hole_on_the_disk_is_an_error() {
    SimRuntime::with_seed(1).block_on(async {
        let (log, disk) = purged_log().await;
        drop(log);
        disk.lose_entry(7);
        let mut log: SimLog =
            Log::open(disk, Arc::new(Settled), Fatal::default(), FeatureLevel::of(1)).unwrap();
        assert!(log.try_get_log_entries(5..10).await.is_err());
        assert!(log.limited_get_log_entries(7, 10).await.is_err());
    });
}

#[test]
fn an_entry_is_applied_after_the_one_before_it_and_after_no_other() {
    SimRuntime::with_seed(1).block_on(async {
        let refused = [
            (log_id(1, 2), "entry 2 was given to apply where entry 1 follows"),
            (log_id(1, 0), "entry 0 was"),
            (log_id(0, 1), "entry 1 of term 0 was given to apply after one of term 1"),
        ];
        for (next, reason) in refused {
            let fatal = Fatal::default();
            let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
            let history = HistoryOptions::default();
            let disk = Arc::new(MemoryDisk::default());
            let applied = Applied::load(disk, history, proposals, fatal.clone());
            let mut machine: SimMachine = Machine::new(Arc::new(applied.unwrap()), Arc::default());
            let blank = |id| Ok((Entry::new(id, EntryPayload::Blank), None));
            machine.apply(futures::stream::iter([blank(log_id(1, 0))])).await.unwrap();
            let refused = machine.apply(futures::stream::iter([blank(next)])).await.unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused}");
            assert_eq!(fatal.reason().await, refused.to_string(), "the member stops");
        }
    });
}

#[test]
#[should_panic(expected = "a vote that was given is never taken back")]
fn a_vote_is_not_saved_over_a_newer_one() {
    SimRuntime::with_seed(1).block_on(async {
        let (mut log, _) = purged_log().await;
        log.save_vote(&Vote::new(3, 1)).await.unwrap();
        log.save_vote(&Vote::new_committed(3, 1)).await.unwrap();
        drop(log.save_vote(&Vote::new(3, 2)).await);
    });
}
