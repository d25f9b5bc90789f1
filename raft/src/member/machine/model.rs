//! A model checker's test of the interleavings of the state's writers.
//!
//! Owns a model of one member's state: one thread applies entries and installs a snapshot, as the consensus library does,
//! while the keeper moves history and a purge asks for the stored state to move; or the state is replaced by a peer's while
//! entries are applied. The checker may switch threads at every lock. Afterwards the disk holds the state of its mark, and
//! memory the state of its revision. At no time does the log lack an entry after the mark.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use shuttle::sync::Mutex;

use super::replace::ReplaceError;
use super::{Applied, Lock, Writer};
use crate::digest::{Digest, digest};
use crate::disk::{
    Disk, DiskError, Generation, HistorySpan, Install, LogRecord, MetaKey, OnDurable, OnInstalled, OnWritten,
    StateBatch, StateWrite,
};
use crate::encoding::{ProposalId, encode_transaction};
use crate::key::{Key, Revision};
use crate::member::codec::Mark;
use crate::member::consensus::{Command, Entry, StoredMembership, log_id};
use crate::member::fatal::Fatal;
use crate::member::feature::FeatureLevel;
use crate::member::log::Settle;
use crate::member::options::HistoryOptions;
use crate::member::proposals::Proposals;
use crate::member::tests::disk::MemoryDisk;
use crate::object::Index;
use crate::state::State;
use crate::transaction::{Operation, Put, Transaction};

/// Schedules tried by each check: with the planted bug a run fails within a few dozen.
const SCHEDULES: usize = 3000;

/// The last entry before the local member falls behind, the entry of the snapshot, and the last entry of the log.
const BEHIND: u64 = 5;
const SNAPSHOT: u64 = 9;
const LAST: u64 = 13;

/// Parts of the failure messages of the model's checks of memory, disk and log.
const FOUND: [&str; 9] = [
    "memory holds another state",
    "memory knows other last changes",
    "the disk holds another state",
    "and holds a change of",
    "and holds an object of",
    "the stored state is taken to be at",
    "the log lacks what follows",
    "the log is purged through",
    "the history has a gap",
];

impl<T: Send + 'static> Lock<T> for Mutex<T> {
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock().expect("no thread of the model panics while it holds the lock"))
    }
}

/// A disk whose background writes wait at a lock, so that the checker can reorder them.
struct ModelDisk {
    below: MemoryDisk,
    queue: Arc<Mutex<()>>,
    /// The last purged log index. Not behind a lock: only the member's locks and `queue` are to be points of a switch.
    purged: Arc<AtomicU64>,
    /// The planted bug: a step is written even if another state was installed since it was made.
    ignores_generation: bool,
}

struct ModelInstall {
    below: Box<dyn Install>,
    queue: Arc<Mutex<()>>,
    purged: Arc<AtomicU64>,
}

impl ModelDisk {
    fn new(ignores_generation: bool) -> Arc<ModelDisk> {
        let (queue, purged) = (Arc::new(Mutex::new(())), Arc::default());
        Arc::new(ModelDisk { below: MemoryDisk::default(), queue, purged, ignores_generation })
    }

    fn mark(&self) -> Revision {
        let mark = self.below.meta(MetaKey::StateMark).unwrap().map(Mark::decode);
        mark.map_or(Revision(0), |mark| mark.unwrap().revision())
    }

    /// Purges the log through `index`, unless the state still needs it.
    fn purge<L: Lock<Writer>>(&self, applied: &Applied<ModelDisk, L>, index: u64) {
        if applied.settle(index) {
            // A point of a switch between the permission and the purge.
            drop(self.queue.lock());
            self.purged.fetch_max(index, Ordering::Relaxed);
            let mark = self.mark();
            assert!(mark.0 >= index, "the log is purged through {index}, the state is that of {mark}");
        }
    }
}

impl Install for ModelInstall {
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError> {
        self.below.put(writes)
    }

    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled) {
        drop(self.queue.lock());
        let (at, purged) =
            (Mark::decode(mark.clone()).unwrap().revision(), self.purged.load(Ordering::Relaxed));
        assert!(at.0 >= purged, "the log is purged through {purged}, the state is that of {at}");
        self.below.commit(mark, on_installed);
    }
}

impl Disk for ModelDisk {
    fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError> {
        self.below.meta(key)
    }
    fn save_meta(&self, key: MetaKey, value: Bytes, on_durable: Option<OnDurable>) -> Result<(), DiskError> {
        self.below.save_meta(key, value, on_durable)
    }
    fn log_bounds(&self) -> Result<Option<(u64, u64)>, DiskError> {
        self.below.log_bounds()
    }
    fn append(&self, records: Vec<LogRecord>, on_durable: OnDurable) -> Result<(), DiskError> {
        self.below.append(records, on_durable)
    }
    fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError> {
        self.below.read_log(from, to, bytes_max)
    }
    fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError> {
        self.below.truncate_after(index)
    }
    fn purge_through(&self, index: u64, marker: Bytes) -> Result<(), DiskError> {
        self.below.purge_through(index, marker)
    }
    fn generation(&self) -> Result<Generation, DiskError> {
        self.below.generation()
    }
    fn write_state(&self, mut batch: StateBatch, on_written: OnWritten) {
        drop(self.queue.lock());
        if self.ignores_generation {
            batch.generation = self.below.generation().unwrap();
        }
        self.below.write_state(batch, on_written);
    }
    fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError> {
        self.below.read_state(each)
    }
    fn history(&self) -> Result<Vec<HistorySpan>, DiskError> {
        self.below.history()
    }
    fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError> {
        self.below.read_history(generation, resource, through)
    }
    fn begin_install(&self) -> Result<Box<dyn Install>, DiskError> {
        let (queue, purged) = (self.queue.clone(), self.purged.clone());
        Ok(Box::new(ModelInstall { below: self.below.begin_install()?, queue, purged }))
    }
}

/// The transaction of entry `index`: objects are created, changed and deleted; no entry after the snapshot touches the
/// objects deleted before it.
fn transaction(index: u64) -> Transaction {
    let key = |name: &str| Key::new(&Arc::from("pods"), "ns", name).unwrap();
    let put = |name: &str| {
        let json = Bytes::from(format!("{{\"v\":\"\",\"of\":{index}}}"));
        Operation::Put(Put { key: key(name), json, revision_at: 6, index: Index::default() })
    };
    let operation = match index {
        1..=4 => put(["a", "b", "c", "d"][usize::try_from(index - 1).unwrap()]),
        BEHIND => put("a"),
        6 => Operation::Delete(key("a")),
        7 => Operation::Delete(key("b")),
        8 | SNAPSHOT => put("e"),
        _ => put("f"),
    };
    Transaction { operations: vec![operation], ..Transaction::default() }
}

fn entry(index: u64) -> Entry {
    if index == 0 {
        return Entry::new(log_id(1, 0), EntryPayload::Blank);
    }
    let command = Command(encode_transaction(ProposalId::default(), &transaction(index), 0));
    Entry::new(log_id(1, index), EntryPayload::Normal(command))
}

/// The state after each entry, by its index.
type Truth = BTreeMap<u64, (State, Digest)>;

/// Computes the states by applying all entries.
fn truth() -> Truth {
    let mut state = State::default();
    let mut truth = BTreeMap::new();
    for index in 1..=LAST {
        state.apply(Revision(index), &transaction(index));
        truth.insert(index, (state.clone(), digest(&state, Revision(index)).unwrap()));
    }
    truth
}

fn mark(index: u64, state: &State) -> Mark {
    let changed = Some(state.changed_at_floor(Revision(index)));
    Mark { log_id: Some(log_id(1, index)), membership: StoredMembership::default(), changed }
}

fn load<L: Lock<Writer>>(disk: &Arc<ModelDisk>, lock: impl FnOnce(Writer) -> L) -> Applied<ModelDisk, L> {
    let history = HistoryOptions { entries_max: 2, ..HistoryOptions::default() };
    let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
    Applied::load_with(disk.clone(), history, proposals, Fatal::default(), lock).unwrap()
}

/// A received copy of `state`, in memory and beside the current state on the disk.
fn received(disk: &ModelDisk, state: &State) -> (State, Box<dyn Install>) {
    let mut install = disk.begin_install().unwrap();
    let mut restore = super::Restore::default();
    for (resource, collection) in state.collections() {
        for (path, object) in collection.range_from("") {
            let record = prost::Message::encode_to_vec(&crate::encoding::object_to_wire(object));
            let write = StateWrite {
                resource: Box::from(&**resource),
                path: Box::from(&**path),
                record: Some(Bytes::from(record)),
            };
            install.put(vec![write]).unwrap();
            restore.add_object(resource, path, object.clone()).unwrap();
        }
    }
    (restore.finish(&mark(state.applied().0, state)).unwrap(), install)
}

/// One run, in a schedule of the checker, in which a snapshot is installed.
fn run(ignores_generation: bool) {
    let truth = truth();
    let disk = ModelDisk::new(ignores_generation);
    let applied = Arc::new(load(&disk, Mutex::new));
    let keeper = shuttle::thread::spawn({
        let applied = applied.clone();
        move || (0..3).for_each(|_| shuttle::future::block_on(applied.move_history(Revision(0))).unwrap())
    });
    let purge = shuttle::thread::spawn({
        let (applied, disk) = (applied.clone(), disk.clone());
        move || [4, SNAPSHOT + 1].iter().for_each(|index| disk.purge(&applied, *index))
    });
    for index in 0..=BEHIND {
        applied.apply(&[entry(index)]).unwrap();
    }
    let snapshot = &truth[&SNAPSHOT].0;
    let (state, install) = received(&disk, snapshot);
    shuttle::future::block_on(applied.install(state, install, &mark(SNAPSHOT, snapshot))).unwrap();
    for index in SNAPSHOT + 1..=LAST {
        applied.apply(&[entry(index)]).unwrap();
    }
    keeper.join().unwrap();
    purge.join().unwrap();
    shuttle::future::block_on(applied.move_history(Revision(0))).unwrap();

    check_states(&applied, &disk, &truth);
    let now = applied.state();
    // Every change since the snapshot is in memory or on the disk, once and in order.
    let (pods, mut seen) = (Arc::from("pods"), Revision(SNAPSHOT));
    let mut revisions = Vec::new();
    while let Err(gone) = now.collection("pods").changes_after(seen).map(|_| ()) {
        let past =
            applied.past_changes(&pods, seen).unwrap_or_else(|_| panic!("the history has a gap: {gone}"));
        revisions.extend(past.iter().map(|change| change.revision).filter(|revision| *revision > seen));
        seen = past.last().unwrap().revision;
    }
    revisions.extend(now.collection("pods").changes_after(seen).unwrap().map(|change| change.revision));
    let all: Vec<Revision> = (SNAPSHOT + 1..=LAST).map(Revision).collect();
    assert_eq!(revisions, all, "the history has a gap, or a change twice");
}

/// Asserts that memory holds the state after the last entry, and the disk the state of its mark.
fn check_states<L: Lock<Writer>>(applied: &Applied<ModelDisk, L>, disk: &Arc<ModelDisk>, truth: &Truth) {
    let now = applied.state();
    assert_eq!(digest(&now, Revision(LAST)).unwrap(), truth[&LAST].1, "memory holds another state");
    let changed = |state: &State| state.collection("pods").changed();
    assert_eq!(changed(&now), changed(&truth[&LAST].0), "memory knows other last changes");
    let stored = load(disk, parking_lot::Mutex::new).state();
    let at = stored.applied();
    assert_eq!(
        digest(&stored, at).unwrap(),
        truth[&at.0].1,
        "the disk holds another state than that of {at}"
    );
    let taken = applied.stored();
    assert_eq!(taken, at, "the stored state is taken to be at {taken} and is at {at}");
    assert!(disk.purged.load(Ordering::Relaxed) <= at.0, "the log lacks what follows {at}");
}

/// One run in which the state is replaced by the one after entry [`BEHIND`]. Counts the replacements that were made: a
/// replacement is refused where the log may have been purged past it.
fn run_replacing(replaced: &AtomicUsize) {
    let truth = truth();
    let disk = ModelDisk::new(false);
    let applied = Arc::new(load(&disk, Mutex::new));
    for index in 0..=BEHIND + 1 {
        applied.apply(&[entry(index)]).unwrap();
    }
    let keeper = shuttle::thread::spawn({
        let applied = applied.clone();
        move || (0..3).for_each(|_| shuttle::future::block_on(applied.move_history(Revision(0))).unwrap())
    });
    let purge = shuttle::thread::spawn({
        let (applied, disk) = (applied.clone(), disk.clone());
        move || [4, BEHIND + 1, SNAPSHOT, LAST - 2].iter().for_each(|index| disk.purge(&applied, *index))
    });
    let peer = truth[&BEHIND].0.clone();
    let replace = shuttle::thread::spawn({
        let (applied, disk) = (applied.clone(), disk.clone());
        move || {
            let read = |from: u64, to: u64| {
                assert!(from > disk.purged.load(Ordering::Relaxed), "entry {from} is purged");
                Ok((from..to).map(entry).collect())
            };
            let (state, install) = received(&disk, &peer);
            let mark = mark(BEHIND, &peer);
            let replacing = applied.replace(state, install, &mark, &read);
            match shuttle::future::block_on(replacing) {
                Ok(()) => true,
                Err(ReplaceError::OutOfRange { .. }) => false,
                Err(other) => panic!("{other}"),
            }
        }
    });
    for index in BEHIND + 2..=LAST {
        applied.apply(&[entry(index)]).unwrap();
    }
    keeper.join().unwrap();
    purge.join().unwrap();
    replaced.fetch_add(usize::from(replace.join().unwrap()), Ordering::Relaxed);
    check_states(&applied, &disk, &truth);
    shuttle::future::block_on(applied.move_history(Revision(0))).unwrap();
    check_states(&applied, &disk, &truth);
}

#[test]
fn no_order_of_a_replacement_and_a_purge_leaves_a_log_that_starts_too_late() {
    let replaced = Arc::new(AtomicUsize::new(0));
    let count = replaced.clone();
    shuttle::check_pct(move || run_replacing(&count), SCHEDULES, 3);
    let count = replaced.clone();
    shuttle::check_random(move || run_replacing(&count), SCHEDULES);
    let replaced = replaced.load(Ordering::Relaxed);
    assert!((SCHEDULES / 20..2 * SCHEDULES).contains(&replaced), "replaced in {replaced} schedules");
}

#[test]
fn no_order_of_writers_mixes_two_states() {
    shuttle::check_pct(|| run(false), SCHEDULES, 3);
    shuttle::check_random(|| run(false), SCHEDULES);
}

#[test]
fn a_disk_that_ignores_the_generation_is_found() {
    let found = catch_unwind(AssertUnwindSafe(|| shuttle::check_random(|| run(true), SCHEDULES)));
    let panicked = found.expect_err("the model does not see a step that lands in another state");
    let text = panicked.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(FOUND.iter().any(|found| text.contains(found)), "the model failed of itself: {text}");
}
