//! Messages added with feature level 1: a program that writes level 0 ignores them or is never sent them.
//!
//! Owns one example of each. The parent module compares them.

use bytes::Bytes;
use orch_proto::store as wire;
use wire::change_response::Outcome as Changed;
use wire::control_request::Kind as Ask;
use wire::control_response::Kind as Answer;
use wire::digest_response::Outcome as Digest;
use wire::found_response::Outcome as Found;
use wire::read_index_response::Outcome as ReadIndex;
use wire::transfer_response::Outcome as Transfer;

use super::{Case, frame};
use crate::member::tests::golden;

const POSITION: wire::LogId = wire::LogId { term: 3, index: 9 };
const VOTE: wire::Vote = wire::Vote { term: 3, node: 7, committed: true };

fn promise() -> wire::Promise {
    wire::Promise { term: 3, log_id: Some(POSITION) }
}

#[expect(clippy::unnecessary_wraps, reason = "as the messages hold it")]
fn recall() -> Option<wire::Recall> {
    let (directory, promised, proof) = ("00ff".to_owned(), Some(promise()), Bytes::from_static(&[9]));
    Some(wire::Recall { directory, starts: 4, incarnation: u64::MAX, promised, proof })
}

fn ask(name: &'static str, kind: Ask) -> Case {
    frame(name, &wire::ControlRequest { kind: Some(kind), ..Default::default() })
}

fn answer(name: &'static str, kind: Answer) -> Case {
    frame(name, &wire::ControlResponse { kind: Some(kind) })
}

pub(super) fn messages() -> Vec<Case> {
    [features(), stored(), appended(), snapshots(), asked(), answered(), refused()]
        .into_iter()
        .flatten()
        .collect()
}

fn features() -> Vec<Case> {
    let refused = vec![wire::ForwardRefusal { position: 1, reason: "unknown".into() }];
    let response = wire::ForwardResponse { sequence: 2, leader: 7, refused, ..Default::default() };
    vec![
        frame("state mark with changes", &golden::mark_with_changes().to_wire()),
        frame("forward refusal", &response),
        ask("ask feature level", Ask::Feature(wire::FeatureRequest {})),
        answer(
            "answer feature level",
            Answer::Feature(wire::FeatureResponse { node: 7, supported: 2, agreed: 1 }),
        ),
    ]
}

fn stored() -> Vec<Case> {
    let member = wire::Member { id: 7, name: "a".into(), address: "h:1".into() };
    let founder = wire::Founder { member: Some(member), directory: "00ff".into() };
    let identity = wire::Identity {
        node: 7,
        name: "a".into(),
        directory: "00ff".into(),
        starts: 4,
        format: 1,
        ..Default::default()
    };
    let founder = wire::Identity {
        cluster: "c".into(),
        brand: "orch".into(),
        founding: Some(wire::Founding { cluster: "c".into(), founders: vec![founder] }),
        ..identity.clone()
    };
    let older_copy = wire::Identity { older_copy: "why".into(), ..identity };
    let object =
        wire::StoredObject { revision: 9, json: Bytes::from_static(b"{}"), format: 1, ..Default::default() };
    let created = wire::HistoricChange {
        revision: 9,
        time_ms: 5,
        path: "ns/a".into(),
        old: None,
        new: Some(object.clone()),
    };
    let removed =
        wire::HistoricChange { revision: 10, time_ms: 6, path: "ns/a".into(), old: Some(object), new: None };
    vec![
        frame("identity of a founder", &founder),
        frame("identity on an older copy", &older_copy),
        frame("quarantine", &wire::Quarantine { reason: "why".into(), revision: 9, majority: Vec::new() }),
        frame(
            "quarantine by a majority",
            &wire::Quarantine { reason: "why".into(), revision: 9, majority: vec![7, 8] },
        ),
        frame("history record", &wire::HistoryRecord { changes: vec![created, removed] }),
    ]
}

fn appended() -> Vec<Case> {
    let vote = Some(VOTE);
    let ballot = wire::VoteRequest {
        vote: Some(wire::Vote { committed: false, ..VOTE }),
        last_log_id: Some(POSITION),
        leader_transfer: false,
    };
    let ballot = wire::ControlRequest { kind: Some(Ask::Vote(ballot)), recall: recall(), format: 0 };
    let request = wire::AppendRequest { vote, recall: recall(), ..Default::default() };
    let accepted = wire::append_response::Outcome::Accepted(wire::Accepted { through: Some(POSITION) });
    vec![
        frame("append request with recall", &request),
        frame("ask vote with recall", &ballot),
        answer("answer heartbeat", Answer::Heartbeat(wire::AppendResponse { outcome: Some(accepted) })),
    ]
}

fn snapshots() -> Vec<Case> {
    use wire::snapshot_frame::Kind;
    let snapshot = |name, kind| frame(name, &wire::SnapshotFrame { kind: Some(kind) });
    let head =
        wire::SnapshotHead { vote: Some(VOTE), mark: None, resumes_after: 300, format: 1, recall: recall() };
    let mark = wire::StateMark { log_id: Some(POSITION), revision: 9, format: 1, ..Default::default() };
    vec![
        snapshot("snapshot pull", Kind::Pull(wire::SnapshotPull {})),
        snapshot("snapshot refused", Kind::Refused("why".into())),
        snapshot("snapshot head resumed", Kind::Head(head)),
        ask("ask snapshot offset", Ask::SnapshotOffset(wire::SnapshotOffsetRequest { mark: Some(mark) })),
        answer(
            "answer snapshot offset",
            Answer::SnapshotOffset(wire::SnapshotOffsetResponse { objects: 300 }),
        ),
    ]
}

fn asked() -> Vec<Case> {
    let undo = wire::ChangeRequest { kind: Some(wire::change_request::Kind::Undo(wire::Done {})) };
    vec![
        ask("ask undo", Ask::Change(undo)),
        ask("ask identity of another", Ask::Identity(wire::IdentityRequest { unconfirmed: true, about: 8 })),
        ask("ask found", Ask::Found(wire::FoundRequest {})),
        ask(
            "ask agreement",
            Ask::Agreement(wire::AgreementRequest { short_of_space: true, very_short_of_space: true }),
        ),
    ]
}

fn answered() -> Vec<Case> {
    let done = wire::Done {};
    let transfer = Answer::Transfer(wire::TransferResponse { outcome: Some(Transfer::Accepted(done)) });
    let digest = Digest::Digest(Bytes::from_static(&[1, 2]));
    let digest = Answer::Digest(wire::DigestResponse { outcome: Some(digest) });
    let checkpoint =
        wire::Checkpoint { revision: 9, digest: Bytes::from_static(&[1]), changes: Bytes::from_static(&[2]) };
    let agreement = wire::AgreementResponse {
        checkpoints: vec![checkpoint],
        short_of_space: true,
        very_short_of_space: true,
        applied: 9,
        feature_level_max: 2,
        contacts: vec![wire::Contact { member: 8, heard_ms_ago: 300, applied: 7 }],
        clock_ms: 0,
        syncs: None,
        room: None,
        report: Bytes::new(),
    };
    let identity = wire::IdentityResponse {
        identity: Some(wire::Identity { node: 8, ..Default::default() }),
        membership: None,
        log_end: 0,
        directory: "00ff".into(),
        confirmed: true,
        removed: true,
        waiting: true,
        founders: vec![7, 8],
        starts: 4,
        promised: Some(promise()),
        incarnation: 5,
        about_member: true,
        about_removed: true,
        quarantined: true,
        about_stranger: true,
        about_learner: false,
    };
    vec![
        answer("answer transfer accepted", transfer),
        answer("answer digest", digest),
        answer(
            "answer change done",
            Answer::Change(wire::ChangeResponse { outcome: Some(Changed::Done(done)) }),
        ),
        answer("answer agreement", Answer::Agreement(agreement)),
        answer("answer found done", Answer::Found(wire::FoundResponse { outcome: Some(Found::Done(done)) })),
        answer("answer identity in full", Answer::Identity(identity)),
    ]
}

fn refused() -> Vec<Case> {
    let no = || "no".to_owned();
    let transfer = |outcome| Answer::Transfer(wire::TransferResponse { outcome: Some(outcome) });
    let read_index = |outcome| Answer::ReadIndex(wire::ReadIndexResponse { outcome: Some(outcome) });
    let digest = |outcome| Answer::Digest(wire::DigestResponse { outcome: Some(outcome) });
    let change = |outcome| Answer::Change(wire::ChangeResponse { outcome: Some(outcome) });
    let found = |outcome| Answer::Found(wire::FoundResponse { outcome: Some(outcome) });
    vec![
        answer("answer transfer refused", transfer(Transfer::Refused(no()))),
        answer("answer read index leader", read_index(ReadIndex::Leader(8))),
        answer("answer read index failure", read_index(ReadIndex::Failure(no()))),
        answer("answer digest unavailable", digest(Digest::Unavailable("old".into()))),
        answer("answer change leader", change(Changed::Leader(8))),
        answer("answer found refused", found(Found::Refused(no()))),
        answer("answer found unknown", found(Found::Unknown("disk".into()))),
    ]
}
