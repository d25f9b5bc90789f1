//! History leaving memory and read back from the disk, and replaced states, step by step on one thread.

mod broken;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::executor::block_on;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use parking_lot::Mutex;
use prost::Message;

use super::replace::{LOCKED_BYTES_MAX, LOCKED_ENTRIES_MAX};
use super::{Applied, Lock, Writer};
use crate::digest::digest;
use crate::disk::{Disk, DiskError, Install, OnInstalled, StateWrite};
use crate::encoding::{ProposalId, encode_transaction, object_to_wire};
use crate::key::{Key, Revision};
use crate::member::consensus::{Command, Entry, log_id};
use crate::member::fatal::Fatal;
use crate::member::feature::FeatureLevel;
use crate::member::log::Settle;
use crate::member::options::HistoryOptions;
use crate::member::proposals::Proposals;
use crate::member::tests::disk::MemoryDisk;
use crate::object::Index;
use crate::state::State;
use crate::transaction::{Operation, Put, Transaction};

/// The applied state of a member on a disk in memory whose writes complete at once.
struct Bench {
    disk: Arc<MemoryDisk>,
    applied: Applied<MemoryDisk>,
    fatal: Fatal,
    next: u64,
}

fn pods() -> Arc<str> {
    Arc::from("pods")
}

fn put(name: &str, body: &str) -> Operation {
    let json = Bytes::from(format!("{{\"v\":\"\",\"of\":\"{body}\"}}"));
    let key = Key::new(&pods(), "ns", name).unwrap();
    Operation::Put(Put { key, json, revision_at: 6, index: Index::default() })
}

impl Bench {
    fn new() -> Bench {
        Bench::on(MemoryDisk::default())
    }

    fn on(disk: MemoryDisk) -> Bench {
        let disk = Arc::new(disk);
        let (proposals, fatal) = (Arc::new(Proposals::new(1, 1, FeatureLevel::of(1))), Fatal::default());
        let applied =
            Applied::load(disk.clone(), HistoryOptions::default(), proposals, fatal.clone()).unwrap();
        let next = applied.state().applied().0;
        let next = if next == 0 { 0 } else { next + 1 };
        Bench { disk, applied, fatal, next }
    }

    /// A bench started from a copy of the present disk.
    fn restarted(&self) -> Bench {
        Bench::on(self.disk.copy())
    }

    /// Applies entry `index`, after blank entries up to it.
    fn apply(&mut self, index: u64, operations: Vec<Operation>) {
        let blanks = (self.next..index).map(|at| Entry::new(log_id(1, at), EntryPayload::Blank));
        let transaction = Transaction { operations, ..Transaction::default() };
        let command = Command(encode_transaction(ProposalId::default(), &transaction, 0));
        let entry = Entry::new(log_id(1, index), EntryPayload::Normal(command));
        let entries: Vec<Entry> = blanks.chain([entry]).collect();
        self.applied.apply(&entries).unwrap();
        self.next = index + 1;
    }

    fn put(&mut self, index: u64, name: &str) {
        self.apply(index, vec![put(name, &index.to_string())]);
    }

    /// Moves all history out of memory; changes up to `aged` leave the history altogether.
    fn move_all(&self, aged: u64) {
        self.applied.settle(self.applied.state().applied().0);
        self.applied.move_history(Revision(aged)).now_or_never().unwrap().unwrap();
    }

    /// The paths of the pods at `revision`, with the revision of each; `None` when `revision` is compacted.
    fn pods_at(&self, revision: u64) -> Option<Vec<(String, u64)>> {
        let collection = block_on(self.applied.collection_at(&pods(), Revision(revision))).ok()?;
        Some(collection.range_from("").map(|(path, one)| (path.to_string(), one.revision.0)).collect())
    }

    /// The revisions of the changes after `revision` in the first block read from the disk; `None` when it is compacted.
    fn past_after(&self, revision: u64) -> Option<Vec<u64>> {
        let changes = self.applied.past_changes(&pods(), Revision(revision)).ok()?;
        Some(changes.iter().map(|change| change.revision.0).filter(|at| *at > revision).collect())
    }

    /// The blocks on the disk: the revision before each, and its last.
    fn blocks(&self) -> Vec<(u64, u64)> {
        self.disk.history().unwrap().iter().map(|span| (span.after, span.through)).collect()
    }
}

#[test]
fn changes_too_old_for_a_block_leave_no_gap_that_is_passed_over() {
    let mut bench = Bench::new();
    bench.put(40, "a");
    bench.put(50, "b");
    bench.move_all(0);
    assert_eq!((bench.pods_at(45), bench.past_after(45)), (Some(vec![("ns/a".into(), 40)]), Some(vec![50])));
    bench.put(60, "c");
    bench.put(70, "d");
    bench.move_all(70);
    // Drops the collection rebuilt above: it is still correct, but this test is about the blocks.
    bench.applied.pages.look(0);
    for bench in [&bench, &bench.restarted()] {
        assert_eq!(bench.applied.state().collection("pods").floor(), Revision(70));
        assert_eq!(bench.pods_at(45), None, "the changes 60 and 70 cannot be undone");
        assert_eq!(bench.past_after(45), None);
        assert_eq!(bench.blocks(), [], "nothing is left that leads up to the floor");
    }
    bench.put(90, "e");
    bench.move_all(70);
    for bench in [&bench, &bench.restarted()] {
        for before in [45, 55, 69] {
            assert_eq!((bench.pods_at(before), bench.past_after(before)), (None, None), "{before}");
        }
        assert_eq!(bench.past_after(70), Some(vec![90]));
        assert_eq!(bench.pods_at(89).unwrap().len(), 4);
        assert_eq!(bench.blocks(), [(70, 90)]);
    }
}

#[test]
fn blocks_that_do_not_lead_up_to_the_state_are_not_read_after_a_restart() {
    let mut bench = Bench::new();
    for index in [40, 50, 60, 70] {
        bench.put(index, &format!("p{index}"));
        bench.move_all(0);
    }
    assert_eq!(bench.blocks(), [(0, 40), (40, 50), (50, 60), (60, 70)]);
    for (lost, answered) in [(50, 50), (70, 70)] {
        let restarted = Bench::on(bench.disk.copy());
        restarted.disk.lose_block("pods", lost);
        let restarted = restarted.restarted();
        assert_eq!(restarted.pods_at(answered - 1), None, "without block {lost}");
        assert_eq!(restarted.pods_at(answered).map(|pods| pods.len()), Some(if lost == 50 { 2 } else { 4 }));
        assert_eq!(restarted.past_after(41), None, "without block {lost}");
    }
}

#[test]
fn a_revision_is_in_one_block_as_a_whole() {
    let mut bench = Bench::new();
    let large = "x".repeat(200 << 10);
    bench.apply(1, ["a", "b", "c"].map(|name| put(name, &large)).into());
    bench.put(2, "d");
    bench.move_all(0);
    assert_eq!(bench.blocks(), [(0, 1), (1, 2)]);
    assert_eq!(bench.past_after(0), Some(vec![1, 1, 1]));
    assert_eq!(bench.pods_at(1).unwrap().len(), 3);
    assert_eq!(bench.pods_at(0), Some(Vec::new()));
}

/// Whether the writer's lock is held, and the bytes of entries read since it was taken.
#[derive(Default)]
struct Held {
    is_locked: AtomicBool,
    bytes: AtomicUsize,
}

/// The writer's lock, which records when it is held.
struct Watched(Mutex<Writer>, Arc<Held>);

impl Lock<Writer> for Watched {
    fn with<R>(&self, work: impl FnOnce(&mut Writer) -> R) -> R {
        let mut writer = self.0.lock();
        self.1.bytes.store(0, Ordering::Relaxed);
        self.1.is_locked.store(true, Ordering::Relaxed);
        let result = work(&mut writer);
        self.1.is_locked.store(false, Ordering::Relaxed);
        result
    }
}

type Member = Applied<MemoryDisk, Watched>;

/// An install during whose commit the entries of `meanwhile` are applied.
struct Slow {
    below: Box<dyn Install>,
    member: Arc<Member>,
    meanwhile: Vec<Entry>,
}

impl Install for Slow {
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError> {
        self.below.put(writes)
    }

    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled) {
        self.member.apply(&self.meanwhile).unwrap();
        self.below.commit(mark, on_installed);
    }
}

/// Entry `index`: writes one of a thousand pods; every seventh entry deletes one.
fn busy_entry(index: u64) -> Entry {
    if index == 0 {
        return Entry::new(log_id(1, 0), EntryPayload::Blank);
    }
    let name = format!("p{}", index % 1000);
    let operation = match put(&name, &index.to_string()) {
        Operation::Put(put) if index.is_multiple_of(7) => Operation::Delete(put.key),
        other => other,
    };
    let transaction = Transaction { operations: vec![operation], ..Transaction::default() };
    let command = Command(encode_transaction(ProposalId::default(), &transaction, 0));
    Entry::new(log_id(1, index), EntryPayload::Normal(command))
}

/// An install that has received all pods of `state`.
fn received(disk: &MemoryDisk, state: &State) -> Box<dyn Install> {
    let mut install = disk.begin_install().unwrap();
    for (path, object) in state.collection("pods").range_from("") {
        let record = Some(Bytes::from(object_to_wire(object).encode_to_vec()));
        install.put(vec![StateWrite { resource: "pods".into(), path: (&**path).into(), record }]).unwrap();
    }
    install
}

/// The received state is older than the stored one, and catches up thousands of entries before and after the commit.
#[test]
fn a_state_is_replaced_under_load_and_memory_stays_within_its_bounds() {
    let (at_peer, before, after) = (1000, 5000, 9000);
    let history = HistoryOptions { entries_max: 100, ..HistoryOptions::default() };
    let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
    let (disk, held) = (Arc::new(MemoryDisk::default()), Arc::<Held>::default());
    let lock = |writer| Watched(Mutex::new(writer), held.clone());
    let member =
        Arc::new(Member::load_with(disk.clone(), history, proposals, Fatal::default(), lock).unwrap());
    let entries = |from: u64, to: u64| (from..to).map(busy_entry).collect::<Vec<_>>();
    member.apply(&entries(0, at_peer + 1)).unwrap();
    let (peer, mark) = member.now();
    member.apply(&entries(at_peer + 1, before + 1)).unwrap();
    block_on(member.move_history(Revision(0))).unwrap();
    assert!(member.stored() > Revision(at_peer), "the disk is ahead of the peer");
    let below = received(&disk, &peer);
    let install = Slow { below, member: member.clone(), meanwhile: entries(before + 1, after + 1) };
    let read = |from: u64, to: u64| {
        assert!(
            !held.is_locked.load(Ordering::Relaxed) || to - from <= LOCKED_ENTRIES_MAX,
            "{from}..{to} under the lock"
        );
        Ok(entries(from, to.min(from + 300)))
    };
    let mut restore = super::Restore::default();
    let pods = peer.collection("pods");
    pods.range_from("").for_each(|(path, object)| restore.add_object("pods", path, object.clone()).unwrap());
    block_on(member.replace(restore.finish(&mark).unwrap(), Box::new(install), &mark, &read)).unwrap();

    let digest_of = |state: &State| digest(state, state.applied()).unwrap();
    let stored = Bench::on(disk.copy()).applied.state();
    let at = stored.applied().0;
    // Not the peer's revision: the changes that left the history while catching up are on the disk.
    assert!((before - 1000..=before).contains(&at), "the disk is at {at}");
    let truth = Bench::new().applied;
    truth.apply(&entries(0, at + 1)).unwrap();
    assert_eq!(digest_of(&stored), digest_of(&truth.state()), "the disk");
    truth.apply(&entries(at + 1, after + 1)).unwrap();
    assert_eq!(digest_of(&member.state()), digest_of(&truth.state()), "memory");
}

/// A few large entries are as much work under the lock as many small ones.
#[test]
fn entries_applied_under_the_lock_while_a_state_is_replaced_are_bounded_in_bytes() {
    const BODY_BYTES: usize = 100_000;
    let body = "x".repeat(BODY_BYTES);
    let large = |index: u64| {
        let operations = vec![put(&format!("p{}", index % 10), &body)];
        let transaction = Transaction { operations, ..Transaction::default() };
        let command = Command(encode_transaction(ProposalId::default(), &transaction, 0));
        Entry::new(log_id(1, index), EntryPayload::Normal(command))
    };
    let entries = |from: u64, to: u64| (from..to).map(large).collect::<Vec<_>>();
    let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
    let (disk, held) = (Arc::new(MemoryDisk::default()), Arc::<Held>::default());
    let lock = |writer| Watched(Mutex::new(writer), held.clone());
    let history = HistoryOptions::default();
    let member = Member::load_with(disk.clone(), history, proposals, Fatal::default(), lock).unwrap();
    let member = Arc::new(member);
    member.apply(&[Entry::new(log_id(1, 0), EntryPayload::Blank)]).unwrap();
    member.apply(&entries(1, 11)).unwrap();
    let (peer, mark) = member.now();
    member.apply(&entries(11, 111)).unwrap();
    let install =
        Slow { below: received(&disk, &peer), member: member.clone(), meanwhile: entries(111, 211) };
    let read = |from: u64, to: u64| {
        let part = entries(from, to.min(from + 15));
        let bytes = part.len() * BODY_BYTES;
        let locked = bytes + held.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_locked = held.is_locked.load(Ordering::Relaxed);
        assert!(!is_locked || locked <= LOCKED_BYTES_MAX, "{from}..{to} under the lock");
        Ok(part)
    };
    let mut restore = super::Restore::default();
    let pods = peer.collection("pods");
    pods.range_from("").for_each(|(path, object)| restore.add_object("pods", path, object.clone()).unwrap());
    block_on(member.replace(restore.finish(&mark).unwrap(), Box::new(install), &mark, &read)).unwrap();
    assert_eq!(member.state().applied(), Revision(210));
}

#[test]
fn a_replacement_is_refused_where_the_log_may_start_later() {
    let mut bench = Bench::new();
    bench.put(5, "a");
    let (peer, mark) = bench.applied.now();
    bench.put(9, "b");
    bench.move_all(0);
    assert!(bench.applied.settle(9), "the log may be purged from here on");
    let read = |_, _| panic!("nothing is read");
    let replaced = bench.applied.replace((*peer).clone(), received(&bench.disk, &peer), &mark, &read);
    assert!(block_on(replaced).unwrap_err().to_string().contains("start after 9"));
}

#[test]
fn a_block_that_cannot_be_read_costs_what_is_behind_it_and_nothing_else() {
    let mut bench = Bench::new();
    for index in [40, 50, 60] {
        bench.put(index, &format!("p{index}"));
        bench.move_all(0);
    }
    bench.disk.corrupt_block("pods", 50);
    assert_eq!(bench.past_after(50), Some(vec![60]));
    assert_eq!(bench.past_after(40), None, "damaged");
    assert_eq!((bench.pods_at(45), bench.past_after(30)), (None, None), "behind it");
    assert_eq!(bench.pods_at(50).map(|pods| pods.len()), Some(2));
    assert!(bench.fatal.reason().now_or_never().is_none(), "the member goes on");
    bench.put(70, "p70");
    bench.move_all(0);
    assert_eq!(bench.blocks(), [(50, 60), (60, 70)]);
}

#[test]
fn a_revision_behind_too_many_bytes_is_gone() {
    let mut bench = Bench::new();
    let body = "x".repeat(900_000);
    for index in 1..=60 {
        bench.apply(index, vec![put("a", &body)]);
        bench.move_all(0);
    }
    assert_eq!(bench.pods_at(30), Some(vec![("ns/a".into(), 30)]));
    assert_eq!(bench.pods_at(10), None, "fifty blocks of two large objects");
    assert_eq!(bench.past_after(10), Some(vec![11]), "a watch reads one after another");
}
