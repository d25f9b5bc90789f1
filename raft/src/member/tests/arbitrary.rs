//! Feeds mutated frames and noise to every decoder of bytes from a peer or a disk.
//!
//! One function for each decoder. It must not panic, asserts invariants of what it decodes, and returns whether
//! decoding succeeded. Decoded values are encoded and decoded again without a difference: members that accepted them
//! would agree.
#![allow(clippy::needless_update, reason = "messages get new fields")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use prost::Message;

use super::*;
use crate::encoding::{
    ProposalId, decode, decode_transaction, encode_transaction, object_from_wire, object_to_wire,
};
use crate::member::codec::{
    Mark, entry_from_frame, entry_to_wire, required_vote, vote_from_wire, vote_to_wire,
};
use crate::member::network::{append_from_wire, vote_request_from_wire};
use orch_proto::store as wire;

/// Feature level of all encoding and decoding.
const LEVEL: u32 = crate::encoding::FEATURE_LEVEL_MAX;

/// Inputs for each decoder: about a second.
const CASES: u32 = 16_384;

/// One mutation of a valid message.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Cut(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    // Too large lengths and field numbers, and an unterminated varint.
    let pieces =
        select(vec![vec![0xff; 10], vec![0xff, 0xff, 0xff, 0xff, 0x0f], vec![0x0a, 0x00], vec![0x12]]);
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (at(), pieces).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (at(), 1..8_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        at().prop_map(Edit::Cut),
    ]
}

fn changed(mut input: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for edit in edits {
        let place = |at: Index| at.index(input.len() + 1);
        match edit {
            Edit::Set(at, byte) => {
                let at = place(at);
                input.splice(at..(at + 1).min(input.len()), [byte]);
            }
            Edit::Flip(at, bit) => {
                let at = place(at);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Edit::Insert(at, piece) => {
                let at = place(at);
                input.splice(at..at, piece);
            }
            Edit::Remove(at, length) => {
                let at = place(at);
                input.drain(at..(at + length).min(input.len()));
            }
            Edit::Cut(at) => input.truncate(place(at)),
        }
    }
    input
}

#[track_caller]
fn check(reader: fn(Bytes) -> bool, examples: Vec<Vec<u8>>) {
    assert!(examples.iter().all(|example| reader(Bytes::from(example.clone()))), "an example means nothing");
    let edited = (select(examples), vec(edit(), 1..6)).prop_map(|(input, edits)| changed(input, edits));
    let noise = vec(any::<u8>(), 0..64);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&prop_oneof![1 => noise, 7 => edited], |input| {
        reader(Bytes::from(input));
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}

fn log_id(index: u64) -> Option<wire::LogId> {
    Some(wire::LogId { term: 3, index })
}

fn vote() -> Option<wire::Vote> {
    Some(wire::Vote { term: 4, node: 77, committed: true })
}

fn membership() -> wire::Membership {
    let member = |id: u64| wire::Member { id, name: format!("n{id}"), address: format!("h{id}:1") };
    wire::Membership {
        voters: vec![wire::VoterSet { ids: vec![1, 2] }, wire::VoterSet { ids: vec![2, 3] }],
        members: (1..=4).map(member).collect(),
    }
}

fn transaction_bytes() -> Bytes {
    encode_transaction(ProposalId { node: 1, incarnation: 2, sequence: 3 }, &create("a", "value"), LEVEL)
}

fn entries() -> Vec<wire::Entry> {
    use wire::entry::Payload;
    let payloads =
        [None, Some(Payload::Transaction(transaction_bytes())), Some(Payload::Membership(membership()))];
    (5..)
        .zip(payloads)
        .map(|(index, payload)| wire::Entry { log_id: log_id(index), payload, ..Default::default() })
        .collect()
}

fn mark() -> wire::StateMark {
    let membership = wire::AppliedMembership { log_id: log_id(2), membership: Some(membership()) };
    wire::StateMark { log_id: log_id(9), membership: Some(membership), revision: 9, ..Default::default() }
}

fn object() -> wire::StoredObject {
    let index =
        wire::Index { uid: "u".into(), labels: vec![wire::Label::default()], ..wire::Index::default() };
    wire::StoredObject {
        json: Bytes::from_static(b"{\"v\":\"0\"}"),
        revision_at: 6,
        index: Some(index),
        ..Default::default()
    }
}

fn append() -> wire::AppendRequest {
    wire::AppendRequest {
        vote: vote(),
        previous: log_id(4),
        committed: log_id(4),
        entries: entries(),
        ..Default::default()
    }
}

/// A log entry, and the transaction in it.
fn read_entry(bytes: Bytes) -> bool {
    let Ok(entry) = decode("entry", bytes).and_then(|entry| entry_from_frame(entry, LEVEL)) else {
        return false;
    };
    let again = Bytes::from(entry_to_wire(&entry, LEVEL).encode_to_vec());
    assert_eq!(decode("entry", again).and_then(|entry| entry_from_frame(entry, LEVEL)), Ok(entry));
    true
}

fn read_transaction(bytes: Bytes) -> bool {
    let Ok((id, transaction)) = decode_transaction(bytes) else { return false };
    assert_eq!(decode_transaction(encode_transaction(id, &transaction, LEVEL)), Ok((id, transaction)));
    true
}

/// An object of the state, as on disk and in snapshots. Its JSON can be split at the revision.
fn read_object(bytes: Bytes) -> bool {
    let Ok(object) = decode("object", bytes).and_then(object_from_wire) else { return false };
    let (before, after) = object.json_around_revision();
    assert!(before.ends_with(b"\"") && after.starts_with(b"\""));
    let again = object_from_wire(object_to_wire(&object)).unwrap();
    assert_eq!((&again.json, &again.index, again.revision), (&object.json, &object.index, object.revision));
    true
}

fn read_mark(bytes: Bytes) -> bool {
    let Ok(mark) = Mark::decode(bytes) else { return false };
    assert_eq!(Mark::decode(mark.encode()), Ok(mark));
    true
}

fn read_vote(bytes: Bytes) -> bool {
    let Ok(vote) = decode("vote", bytes).map(vote_from_wire) else { return false };
    assert_eq!(vote_from_wire(vote_to_wire(&vote)), vote);
    true
}

fn read_append(bytes: Bytes) -> bool {
    decode("append request", bytes).and_then(|request| append_from_wire::<SimRuntime>(request, LEVEL)).is_ok()
}

fn read_control(bytes: Bytes) -> bool {
    use wire::control_request::Kind;
    let Ok(request) = decode::<wire::ControlRequest>("control request", bytes) else { return false };
    match request.kind {
        Some(Kind::Vote(request) | Kind::PreVote(request)) => {
            vote_request_from_wire::<SimRuntime>(request).is_ok()
        }
        Some(Kind::Heartbeat(request)) => append_from_wire::<SimRuntime>(request, LEVEL).is_ok(),
        Some(Kind::Transfer(request)) => required_vote(request.from).is_ok(),
        Some(_) => true,
        None => false,
    }
}

fn read_forward(bytes: Bytes) -> bool {
    let Ok(request) = decode::<wire::ForwardRequest>("forward request", bytes) else { return false };
    request.transactions.into_iter().all(read_transaction)
}

fn read_snapshot(bytes: Bytes) -> bool {
    use wire::snapshot_frame::Kind;
    let Ok(frame) = decode::<wire::SnapshotFrame>("snapshot frame", bytes) else { return false };
    match frame.kind {
        Some(Kind::Head(head)) => {
            required_vote(head.vote).is_ok() && Mark::from_wire(head.mark.unwrap_or_default()).is_ok()
        }
        Some(Kind::Objects(objects)) => {
            let mut objects = objects.objects.into_iter();
            objects.all(|object| object.object.is_some_and(|object| object_from_wire(object).is_ok()))
        }
        Some(Kind::End(_) | Kind::Pull(_) | Kind::Refused(_)) => true,
        None => false,
    }
}

fn encoded(messages: Vec<impl Message>) -> Vec<Vec<u8>> {
    messages.iter().map(Message::encode_to_vec).collect()
}

fn control_frames() -> Vec<Vec<u8>> {
    use wire::control_request::Kind;
    let request = wire::VoteRequest {
        vote: vote(),
        last_log_id: log_id(8),
        leader_transfer: true,
        ..Default::default()
    };
    let kinds = [
        Kind::Vote(request),
        Kind::PreVote(request),
        Kind::Heartbeat(append()),
        Kind::Transfer(wire::TransferRequest {
            from: vote(),
            to: 2,
            last_log_id: log_id(8),
            ..Default::default()
        }),
        Kind::ReadIndex(wire::ReadIndexRequest {}),
        Kind::Digest(wire::DigestRequest { revision: 8 }),
    ];
    kinds
        .into_iter()
        .map(|kind| wire::ControlRequest { kind: Some(kind), ..Default::default() }.encode_to_vec())
        .collect()
}

fn snapshot_frames() -> Vec<Vec<u8>> {
    use wire::snapshot_frame::Kind;
    let object = wire::SnapshotObject {
        resource: "pods".into(),
        path: "n/p".into(),
        object: Some(object()),
        ..Default::default()
    };
    let kinds = [
        Kind::Head(wire::SnapshotHead { vote: vote(), mark: Some(mark()), ..Default::default() }),
        Kind::Objects(wire::SnapshotObjects { objects: vec![object.clone(), object], ..Default::default() }),
        Kind::End(wire::SnapshotEnd { objects: 2, checksum: 7, ..Default::default() }),
    ];
    kinds
        .into_iter()
        .map(|kind| wire::SnapshotFrame { kind: Some(kind), ..Default::default() }.encode_to_vec())
        .collect()
}

#[test]
fn log_entries_take_anything() {
    check(read_entry, encoded(entries()));
}

#[test]
fn transactions_take_anything() {
    check(read_transaction, vec![transaction_bytes().to_vec()]);
}

#[test]
fn stored_objects_take_anything() {
    check(read_object, encoded(vec![object()]));
}

#[test]
fn state_marks_take_anything() {
    check(read_mark, encoded(vec![mark()]));
}

#[test]
fn votes_take_anything() {
    check(read_vote, encoded(vec![vote().unwrap()]));
}

#[test]
fn append_frames_take_anything() {
    check(read_append, encoded(vec![append()]));
}

#[test]
fn control_frames_take_anything() {
    check(read_control, control_frames());
}

#[test]
fn forward_frames_take_anything() {
    let request = wire::ForwardRequest {
        sequence: 1,
        term: 3,
        transactions: vec![transaction_bytes(); 2],
        ..Default::default()
    };
    check(read_forward, encoded(vec![request]));
}

#[test]
fn snapshot_frames_take_anything() {
    check(read_snapshot, snapshot_frames());
}
