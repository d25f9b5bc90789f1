//! Golden bytes of every stored message and frame.
//!
//! Owns `golden/format-N.txt`, one for each feature level: the messages that a program writes in a cluster of that
//! level, one a line, in hex. Each line must decode to the value built here and encode to the same bytes again.
//! `UPDATE_GOLDEN=1` rewrites the file of the newest level only: messages of older levels are on disks. The first
//! version of both files came from an independent encoder of the schema (format 0: of the schema before levels
//! existed).

mod later;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use orch_proto::store as wire;
use prost::Message;

use crate::encoding::{
    FEATURE_LEVEL_MAX, ProposalId, decode, decode_transaction, encode_transaction, object_from_wire,
    object_to_wire,
};
use crate::fields::Fields;
use crate::key::{Key, Revision};
use crate::labels::Labels;
use crate::member::tests::golden::{self, Command, Entry};
use crate::object::{Index, Object, WrittenAs};
use crate::transaction::{Condition, Operation, Put, Transaction};

/// A message: its bytes at a level, and those bytes decoded and encoded again.
struct Case {
    name: &'static str,
    encode: Box<dyn Fn(u32) -> Vec<u8>>,
    again: fn(Bytes, u32) -> Vec<u8>,
}

/// The form that an object says it was written in: from level 3 on.
fn form(level: u32) -> Option<Arc<WrittenAs>> {
    (level >= 3).then(|| Arc::new(WrittenAs { version: "v1beta1".into(), definition: Revision(300) }))
}

fn transactions() -> Vec<Case> {
    let key = |name| Key::new(&Arc::from("pods"), "ns", name).unwrap();
    let index = |level| Index {
        uid: "0f8f".into(),
        labels: Labels::new([("app", "web")]),
        // As a program of that level keeps fields in memory: without names before level 1, without empty values from
        // then on.
        fields: match level {
            0 => Fields::new([("", "n1"), ("", ""), ("", "Running")]),
            _ => Fields::new([("spec.nodeName", "n1"), ("status.phase", "Running")]),
        },
        owners: vec!["7a".into()],
        terminating: true,
        written_as: form(level),
    };
    let put = move |level| {
        let json = Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"\"}}");
        Operation::Put(Put { key: key("a"), json, revision_at: 32, index: index(level) })
    };
    let case = |name, conditions: Vec<Condition>, operations: fn(Operation) -> Vec<Operation>| Case {
        name,
        encode: Box::new(move |level| {
            let (conditions, operations) = (conditions.clone(), operations(put(level)));
            let transaction = Transaction { proposed_ms: 1_700_000_000_000, conditions, operations };
            let id = ProposalId { node: 7, incarnation: u64::MAX, sequence: 3 };
            encode_transaction(id, &transaction, level).to_vec()
        }),
        again: |bytes, level| {
            let (id, transaction) = decode_transaction(bytes).unwrap();
            encode_transaction(id, &transaction, level).to_vec()
        },
    };
    vec![
        case("transaction absent", vec![Condition::Absent(key("a"))], |_| Vec::new()),
        case("transaction exists", vec![Condition::Exists(key("b"))], |_| Vec::new()),
        case("transaction at revision", vec![Condition::AtRevision(key("c"), Revision(9))], |_| Vec::new()),
        case("transaction namespace active", vec![Condition::NamespaceActive(Arc::from("ns"))], |_| {
            Vec::new()
        }),
        case("transaction put", Vec::new(), |put| vec![put]),
        case("transaction delete", Vec::new(), |_| {
            vec![Operation::Delete(Key::new(&Arc::from("pods"), "ns", "d").unwrap())]
        }),
    ]
}

fn entries() -> Vec<Case> {
    let case = |name, payload: fn(u32) -> golden::Payload| Case {
        name,
        encode: Box::new(move |level| {
            let entry = Entry::new(golden::log_id(3, 9), payload(level));
            golden::entry_to_wire(&entry, level).encode_to_vec()
        }),
        again: |bytes, level| {
            let entry = golden::entry_from_wire(decode("log entry", bytes).unwrap(), level).unwrap();
            golden::entry_to_wire(&entry, level).encode_to_vec()
        },
    };
    vec![
        case("entry blank", |_| EntryPayload::Blank),
        case("entry transaction", |level| {
            let put = transactions().into_iter().find(|case| case.name == "transaction put").unwrap();
            EntryPayload::Normal(Command(Bytes::from((put.encode)(level))))
        }),
        case("entry membership", |_| EntryPayload::Membership(golden::membership())),
    ]
}

fn stored() -> Vec<Case> {
    let object = |level| {
        let fields = match level {
            0 => Fields::new([("", "n1")]),
            _ => Fields::new([("spec.nodeName", "n1")]),
        };
        Object {
            revision: Revision(9),
            created: Revision(4),
            written_ms: 5,
            json: Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"9\"}}"),
            revision_at: 32,
            index: Index { uid: "0f8f".into(), fields, written_as: form(level), ..Index::default() },
            protobuf: OnceLock::new(),
        }
    };
    vec![
        Case {
            name: "stored object",
            encode: Box::new(move |level| object_to_wire(&object(level)).encode_to_vec()),
            again: |bytes, _| {
                let object = object_from_wire(decode("object", bytes).unwrap()).unwrap();
                object_to_wire(&object).encode_to_vec()
            },
        },
        Case {
            name: "state mark",
            encode: Box::new(|_| golden::mark().encode().to_vec()),
            again: |bytes, _| golden::Mark::decode(bytes).unwrap().encode().to_vec(),
        },
        frame(
            "identity",
            &wire::Identity {
                node: 7,
                name: "a".into(),
                cluster: "c".into(),
                brand: "orch".into(),
                directory: "00ff".into(),
                ..wire::Identity::default()
            },
        ),
    ]
}

/// A message that the store uses without a type of its own.
fn frame<M: Message + Default>(name: &'static str, message: &M) -> Case {
    let bytes = message.encode_to_vec();
    Case {
        name,
        encode: Box::new(move |_| bytes.clone()),
        again: |bytes, _| M::decode(bytes).unwrap().encode_to_vec(),
    }
}

fn frames() -> Vec<Case> {
    use wire::append_response::Outcome as Appended;
    let (position, ballot) =
        (wire::LogId { term: 3, index: 9 }, wire::Vote { term: 3, node: 7, committed: true });
    let (log_id, vote) = (Some(position), Some(ballot));
    let entries = vec![wire::Entry { log_id, ..wire::Entry::default() }];
    let append =
        wire::AppendRequest { vote, previous: log_id, committed: log_id, entries, ..Default::default() };
    let appended = |outcome| wire::AppendResponse { outcome: Some(outcome) };
    let accepted = Appended::Accepted(wire::Accepted { through: log_id });
    let transactions = vec![Bytes::from_static(b"t"), Bytes::new()];
    let forward = wire::ForwardRequest { sequence: 2, term: 3, transactions, ..Default::default() };
    let forwarded =
        wire::ForwardResponse { sequence: 2, not_appended: vec![0, 300], leader: 7, ..Default::default() };
    let snapshot = |kind| wire::SnapshotFrame { kind: Some(kind) };
    use wire::snapshot_frame::Kind;
    let mark = Some(golden::mark().to_wire());
    let object = wire::StoredObject { revision: 9, json: Bytes::from_static(b"{}"), ..Default::default() };
    let objects =
        vec![wire::SnapshotObject { resource: "pods".into(), path: "ns/a".into(), object: Some(object) }];
    let answer = |outcome| wire::SnapshotAnswer { outcome: Some(outcome) };
    vec![
        frame("vote", &ballot),
        frame("append request", &append),
        frame("append accepted", &appended(accepted)),
        frame("append conflict", &appended(Appended::Conflict(position))),
        frame("append higher vote", &appended(Appended::HigherVote(ballot))),
        frame("append failure", &appended(Appended::Failure("stopped".into()))),
        frame("forward request", &forward),
        frame("forward response", &forwarded),
        frame(
            "snapshot head",
            &snapshot(Kind::Head(wire::SnapshotHead { vote, mark, ..Default::default() })),
        ),
        frame("snapshot objects", &snapshot(Kind::Objects(wire::SnapshotObjects { objects }))),
        frame("snapshot end", &snapshot(Kind::End(wire::SnapshotEnd { objects: 1, checksum: 0xdead_beef }))),
        frame("snapshot installed", &answer(wire::snapshot_answer::Outcome::Vote(ballot))),
        frame("snapshot failure", &answer(wire::snapshot_answer::Outcome::Failure("cut".into()))),
    ]
}

fn control() -> Vec<Case> {
    use wire::control_request::Kind as Ask;
    use wire::control_response::Kind as Answer;
    let log = Some(wire::LogId { term: 3, index: 9 });
    let vote = Some(wire::Vote { term: 3, node: 7, committed: false });
    let ask = |name, kind| frame(name, &wire::ControlRequest { kind: Some(kind), ..Default::default() });
    let answer = |name, kind| frame(name, &wire::ControlResponse { kind: Some(kind) });
    let ballot = wire::VoteRequest { vote, last_log_id: log, leader_transfer: true };
    let member = wire::Member { id: 7, name: "a".into(), address: "h:1".into() };
    let change = |kind| wire::ChangeRequest { kind: Some(kind) };
    let transfer = wire::TransferRequest { from: vote, to: 8, last_log_id: log };
    let identity = wire::IdentityResponse {
        log_end: 10,
        directory: "00ff".into(),
        confirmed: true,
        ..Default::default()
    };
    vec![
        ask("ask vote", Ask::Vote(ballot)),
        ask("ask pre-vote", Ask::PreVote(ballot)),
        ask("ask heartbeat", Ask::Heartbeat(wire::AppendRequest { vote, ..Default::default() })),
        ask("ask transfer", Ask::Transfer(transfer)),
        ask("ask read index", Ask::ReadIndex(wire::ReadIndexRequest::default())),
        ask("ask digest", Ask::Digest(wire::DigestRequest { revision: 9 })),
        ask("ask add learner", Ask::Change(change(wire::change_request::Kind::AddLearner(member)))),
        ask("ask promote", Ask::Change(change(wire::change_request::Kind::Promote(7)))),
        ask("ask remove", Ask::Change(change(wire::change_request::Kind::Remove(7)))),
        ask("ask transfer leader", Ask::Change(change(wire::change_request::Kind::TransferLeader(7)))),
        ask("ask identity", Ask::Identity(wire::IdentityRequest::default())),
        answer("answer vote", Answer::Vote(wire::VoteResponse { vote, last_log_id: log, granted: true })),
        answer("answer identity", Answer::Identity(identity)),
        answer(
            "answer read index",
            Answer::ReadIndex(wire::ReadIndexResponse {
                outcome: Some(wire::read_index_response::Outcome::Index(9)),
            }),
        ),
        answer(
            "answer change",
            Answer::Change(wire::ChangeResponse {
                outcome: Some(wire::change_response::Outcome::Refused("no".into())),
            }),
        ),
    ]
}

fn cases(level: u32) -> Vec<Case> {
    let later = if level == 0 { Vec::new() } else { later::messages() };
    [transactions(), entries(), stored(), frames(), control(), later].into_iter().flatten().collect()
}

fn file(level: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/tests/golden/format-{level}.txt"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// The golden bytes of a level, by case name; empty if the file is absent.
fn kept(level: u32) -> BTreeMap<String, Bytes> {
    let text = std::fs::read_to_string(file(level)).unwrap_or_default();
    let line = |line: &str| line.split_once(": ").map(|(name, bytes)| (name.to_owned(), unhex(bytes)));
    text.lines().filter_map(line).collect()
}

#[test]
fn every_format_is_written_and_read_as_it_ever_was() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for level in 0..=FEATURE_LEVEL_MAX {
        if update && (level == FEATURE_LEVEL_MAX || !file(level).exists()) {
            let mut text = String::new();
            for case in cases(level) {
                writeln!(text, "{}: {}", case.name, hex(&(case.encode)(level))).unwrap();
            }
            std::fs::write(file(level), text).unwrap();
        }
        let kept = kept(level);
        assert_eq!(kept.len(), cases(level).len(), "lines of format {level}");
        for case in cases(level) {
            let name = case.name;
            let bytes = kept.get(name).unwrap_or_else(|| panic!("format {level} lacks {name}"));
            assert_eq!(hex(&(case.encode)(level)), hex(bytes), "{name} as written at level {level}");
            assert_eq!(hex(&(case.again)(bytes.clone(), level)), hex(bytes), "{name} read at its own level");
        }
    }
}

#[test]
fn forms_of_older_programs_are_read_by_this_one() {
    for level in 0..=FEATURE_LEVEL_MAX {
        let kept = kept(level);
        let transaction = decode_transaction(kept["transaction put"].clone()).unwrap().1;
        let Operation::Put(put) = &transaction.operations[0] else { panic!("not a put") };
        assert_eq!(put.index.fields.value("spec.nodeName", 0), "n1", "format {level}");
        assert_eq!(put.index.fields.value("status.phase", 2), "Running", "format {level}");
        let blank = decode("log entry", kept["entry blank"].clone()).unwrap();
        assert_eq!(golden::entry_from_wire(blank, FEATURE_LEVEL_MAX).unwrap().payload, EntryPayload::Blank);
        let entry = decode("log entry", kept["entry transaction"].clone()).unwrap();
        let EntryPayload::Normal(command) =
            golden::entry_from_wire(entry, FEATURE_LEVEL_MAX).unwrap().payload
        else {
            panic!("not a transaction")
        };
        assert_eq!(command.0, kept["transaction put"], "the proposer's bytes are not touched");
    }
}
