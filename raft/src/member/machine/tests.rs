//! What leaves memory and comes back from the disk, step by step on one thread.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;

use super::Applied;
use crate::disk::Disk;
use crate::encoding::{ProposalId, encode_transaction};
use crate::key::{Key, Revision};
use crate::member::consensus::{Command, Entry, log_id};
use crate::member::fatal::Fatal;
use crate::member::feature::FeatureLevel;
use crate::member::log::Settle;
use crate::member::options::HistoryOptions;
use crate::member::proposals::Proposals;
use crate::member::tests::disk::MemoryDisk;
use crate::object::Index;
use crate::transaction::{Operation, Put, Transaction};

/// The state of a member on a disk that answers at once.
struct Bench {
    disk: Arc<MemoryDisk>,
    applied: Applied<MemoryDisk>,
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
        let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
        let applied =
            Applied::load(disk.clone(), HistoryOptions::default(), proposals, Fatal::default()).unwrap();
        let next = applied.state().applied().0;
        let next = if next == 0 { 0 } else { next + 1 };
        Bench { disk, applied, next }
    }

    /// What a process that starts from the disk of now has.
    fn restarted(&self) -> Bench {
        Bench::on(self.disk.copy())
    }

    /// Applies entry `index` and empty ones before it.
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

    /// Has everything applied leave memory; changes up to `aged` leave the history.
    fn move_all(&self, aged: u64) {
        self.applied.settle(self.applied.state().applied().0);
        self.applied.move_history(Revision(aged)).now_or_never().unwrap().unwrap();
    }

    /// The names of the pods at `revision`, with the revision of each; `None` when it is gone.
    fn pods_at(&self, revision: u64) -> Option<Vec<(String, u64)>> {
        let collection = self.applied.collection_at(&pods(), Revision(revision)).ok()?;
        Some(collection.range_from("").map(|(path, one)| (path.to_string(), one.revision.0)).collect())
    }

    /// The revisions of the changes after `revision` on the disk, as far as one read goes.
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
