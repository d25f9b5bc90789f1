//! Each violation of the protocol is detected on disks made by hand.

use orch_raft::disk::{Disk, LogRecord};

use super::super::dice::Dice;
use super::super::runtime::NodeRuntime;
use super::*;
use openraft_rt::AsyncRuntime;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

/// A disk with a log of these terms, from index 1 on, committed up to `committed`.
fn disk(terms: &[u64], committed: u64) -> SimDisk {
    disk_with(terms, committed, |_| None)
}

/// A disk as `disk` makes it, with the payload of each entry by its index.
fn disk_with(
    terms: &[u64],
    committed: u64,
    payload: impl Fn(u64) -> Option<wire::entry::Payload>,
) -> SimDisk {
    let disk = SimDisk::new(Dice::new(1, "disk"));
    let handle = disk.open();
    let records = terms.iter().zip(1..).map(|(term, index)| {
        let log_id = Some(wire::LogId { term: *term, index });
        let entry = wire::Entry { log_id, payload: payload(index), ..wire::Entry::default() };
        LogRecord { index, bytes: Bytes::from(entry.encode_to_vec()) }
    });
    handle.append(records.collect(), Box::new(|_| ())).unwrap();
    if let Some(position) = usize::try_from(committed).unwrap().checked_sub(1) {
        let id = wire::LogId { term: terms[position], index: committed };
        handle.save_meta(MetaKey::Committed, Bytes::from(id.encode_to_vec()), None).unwrap();
    }
    disk
}

fn vote(disk: &SimDisk, term: u64, node: u64) {
    let vote = wire::Vote { term, node, committed: true };
    disk.open().save_meta(MetaKey::Vote, Bytes::from(vote.encode_to_vec()), None).unwrap();
}

/// Observes the disks in turn, as members A and B that applied up to the given index.
fn observe(disks: &[(SimDisk, u64)]) -> Result<(), Breach> {
    let mut protocol = Protocol::default();
    for ((disk, applied), node) in disks.iter().zip([A, B]) {
        protocol.observe_vote(node, disk)?;
        protocol.observe_log(node, disk)?;
        protocol.observe_applied(node, Revision(*applied))?;
    }
    Ok(())
}

fn in_simulation(body: impl FnOnce()) {
    NodeRuntime::with_seed(1).block_on(async { body() });
}

#[test]
fn logs_that_differ_only_beyond_what_is_committed_are_fine() {
    in_simulation(|| {
        assert_eq!(observe(&[(disk(&[1, 1, 2], 2), 2), (disk(&[1, 1, 3], 2), 1)]), Ok(()));
    });
}

#[test]
fn two_leaders_of_a_term_are_seen() {
    in_simulation(|| {
        let (first, second) = (disk(&[1], 1), disk(&[1], 1));
        vote(&first, 4, 1);
        vote(&second, 4, 2);
        let found = observe(&[(first, 1), (second, 1)]);
        assert!(matches!(found, Err(Breach::TwoLeaders { term: 4, .. })), "{found:?}");
    });
}

#[test]
fn logs_that_agree_on_an_entry_and_differ_before_it_are_seen() {
    in_simulation(|| {
        let found = observe(&[(disk(&[1, 1, 3], 0), 0), (disk(&[1, 2, 3], 0), 0)]);
        assert!(matches!(found, Err(Breach::LogMismatch { index: 3, .. })), "{found:?}");
    });
}

#[test]
fn a_committed_entry_that_changes_is_seen() {
    in_simulation(|| {
        let found = observe(&[(disk(&[1, 1], 2), 2), (disk(&[1, 2], 2), 2)]);
        assert!(matches!(found, Err(Breach::CommittedChanged { index: 2, .. })), "{found:?}");
    });
}

#[test]
fn applying_what_nobody_committed_is_seen() {
    in_simulation(|| {
        let found = observe(&[(disk(&[1, 1, 1], 2), 3)]);
        assert!(matches!(found, Err(Breach::AppliedUncommitted { .. })), "{found:?}");
    });
}

/// Entry 1 sets three voters; entry 2 is a joint configuration with three others.
fn changing(committed: u64, entries: usize) -> SimDisk {
    let set = |ids: [u64; 3]| wire::VoterSet { ids: ids.to_vec() };
    let payload = move |index: u64| {
        let voters = if index == 1 { vec![set([1, 2, 3])] } else { vec![set([1, 2, 3]), set([2, 3, 4])] };
        Some(wire::entry::Payload::Membership(wire::Membership { voters, members: Vec::new() }))
    };
    disk_with(&vec![1; entries], committed, payload)
}

#[test]
fn voters_are_those_committed_and_those_in_a_living_log() {
    in_simulation(|| {
        let mut protocol = Protocol::default();
        assert_eq!(protocol.voter_sets(&[A, B]), None);
        protocol.observe_log(A, &changing(1, 1)).unwrap();
        protocol.observe_log(B, &changing(1, 2)).unwrap();
        let (old, new) = (BTreeSet::from([1, 2, 3]), BTreeSet::from([2, 3, 4]));
        assert_eq!(protocol.voter_sets(&[A]), Some(vec![old.clone()]), "nobody living knows of the change");
        assert_eq!(protocol.voter_sets(&[A, B]), Some(vec![old.clone(), new.clone()]));
        protocol.observe_log(B, &changing(2, 2)).unwrap();
        assert_eq!(protocol.voter_sets(&[A]), Some(vec![old, new]), "committed");
    });
}
