//! Frames that no correct member sends: unknown formats, malformed and impossible ones.

use super::*;

// Before: a format that only a newer program reads ended the member before sender and term were checked.
#[test]
fn a_removed_voter_ends_nobody_with_a_form_of_the_future() {
    for purpose in [Purpose::Append, Purpose::Snapshot] {
        simulate(1007, async move {
            let (cluster, away, liar) = away_alone_with_a_removed_voter().await;
            let vote = Some(wire::Vote { term: 30, node: peer(liar).id.0, committed: true });
            let recall = Some(wire::Recall::default());
            let frame = match purpose {
                Purpose::Append => {
                    wire::AppendRequest { vote, recall, format: 999, ..Default::default() }.encode_to_vec()
                }
                _ => {
                    let head = wire::SnapshotHead { vote, recall, format: 999, ..Default::default() };
                    let kind = Some(wire::snapshot_frame::Kind::Head(head));
                    wire::SnapshotFrame { kind }.encode_to_vec()
                }
            };
            let transport = cluster.network.transport(peer(liar).id);
            let duplex = transport.open(&peer(away), purpose).await.unwrap();
            duplex.sender.send(Bytes::from(frame)).await.unwrap();
            assert_eq!(ended(&cluster, away, Duration::from_secs(20)).await, None, "{purpose:?}");
        });
    }
}

/// Appends that no leader sends, each with its fault.
fn malformed(from: usize, end: u64, end_term: u64) -> Vec<(&'static str, wire::AppendRequest)> {
    let vote = wire::Vote { term: end_term + 5, node: peer(from).id.0, committed: true };
    let id = |index, term| Some(wire::LogId { term, index });
    let blank = |index, term| wire::Entry {
        log_id: id(index, term),
        payload: Some(wire::entry::Payload::Blank(wire::Blank {})),
        format: 1,
    };
    let members = wire::Membership { voters: vec![wire::VoterSet::default()], members: Vec::new() };
    let nobody = wire::Entry {
        log_id: id(end + 1, end_term + 5),
        payload: Some(wire::entry::Payload::Membership(members)),
        format: 0,
    };
    let sound = wire::AppendRequest {
        vote: Some(vote),
        previous: id(end, end_term),
        committed: id(end + 1, end_term + 5),
        entries: vec![blank(end + 1, end_term + 5)],
        format: 1,
        ..Default::default()
    };
    let with = |entries: Vec<wire::Entry>| wire::AppendRequest { entries, ..sound.clone() };
    vec![
        ("a gap before its entries", with(vec![blank(end + 3, end_term + 5)])),
        ("a gap among its entries", with(vec![blank(end + 1, end_term + 5), blank(end + 4, end_term + 5)])),
        ("an entry twice", with(vec![blank(end + 1, end_term + 5), blank(end + 1, end_term + 5)])),
        ("entries after nothing", wire::AppendRequest { previous: None, ..sound.clone() }),
        ("an entry of an older term", with(vec![blank(end + 1, 0)])),
        ("an entry of a later term", with(vec![blank(end + 1, end_term + 50)])),
        (
            "a vote that is no leader's",
            wire::AppendRequest { vote: Some(wire::Vote { committed: false, ..vote }), ..sound.clone() },
        ),
        ("all committed", wire::AppendRequest { committed: id(u64::MAX, end_term + 5), ..sound.clone() }),
        ("a membership of nobody", with(vec![nobody])),
        ("the last index", wire::AppendRequest { previous: id(u64::MAX, end_term), ..sound.clone() }),
    ]
}

// Before: the appends that the failure message lists ended the member.
#[test]
fn a_removed_voter_ends_nobody_with_appends_that_no_leader_sends() {
    let cases = malformed(3, 1, 1).len();
    let mut ends = Vec::new();
    for case in 0..cases {
        let run = std::panic::catch_unwind(|| {
            simulate(1008, async move {
                let (cluster, away, liar) = away_alone_with_a_removed_voter().await;
                let status = cluster.handle(away).status();
                let (what, request) =
                    malformed(liar, status.last_log, last_term(&cluster, away)).swap_remove(case);
                for _ in 0..3 {
                    let heartbeat = Request::Heartbeat(request.clone());
                    drop(ask(&cluster, liar, away, heartbeat, wire::Recall::default()).await);
                }
                ended(&cluster, away, Duration::from_secs(10)).await.map(|reason| format!("{what}: {reason}"))
            })
        });
        match run {
            Ok(None) => {}
            Ok(Some(reason)) => ends.push(reason),
            Err(_) => ends.push(format!("{}: a panic", malformed(3, 1, 1)[case].0)),
        }
    }
    assert!(ends.is_empty(), "{ends:#?}");
}

/// The term of the last entry in the log of a member.
fn last_term(cluster: &Cluster, n: usize) -> u64 {
    use crate::disk::Disk;
    let (_, last) = cluster.disks[n].log_bounds().unwrap().unwrap();
    let record = cluster.disks[n].read_log(last, last + 1, 1).unwrap().remove(0);
    wire::Entry::decode(record.bytes).unwrap().log_id.unwrap().term
}

// Before: one warning for each transaction.
#[test]
fn forwarded_frames_that_cannot_be_read_do_not_fill_the_log() {
    use crate::warnings::counting::Warned;
    let warned = Warned::default();
    tracing::subscriber::with_default(warned.clone(), || {
        simulate(1011, async {
            let cluster = Cluster::start(3).await;
            known_everywhere(&cluster).await;
            let leader = cluster.leader().await;
            let transport = cluster.network.transport(peer((leader + 1) % 3).id);
            let duplex = transport.open(&peer(leader), Purpose::Forward).await.unwrap();
            let before = warned.count();
            let transactions = vec![Bytes::from_static(b"\xff\xff"); 200];
            let request =
                wire::ForwardRequest { sequence: 1, term: 1, transactions, format: 0, traces: Vec::new() };
            duplex.sender.send(Bytes::from(request.encode_to_vec())).await.unwrap();
            SimRuntime::sleep(SOON).await;
            let lines = warned.count() - before;
            assert!(lines <= 2, "{lines} lines");
        });
    });
}

// Before: a snapshot of impossible entries ended the process by an `assert!` of the consensus library, in every build.
#[test]
fn a_removed_voter_ends_nobody_with_a_state_of_impossible_entries() {
    let mut ends = Vec::new();
    for (what, term, index) in [("beyond the vote", 1 << 10, 100_000), ("behind what is committed", 30, 3)] {
        let run = std::panic::catch_unwind(|| {
            simulate(1021, async move {
                let (cluster, away, liar) = away_alone_with_a_removed_voter().await;
                let vote = Some(wire::Vote { term: 30, node: peer(liar).id.0, committed: true });
                let mark = wire::StateMark {
                    log_id: Some(wire::LogId { term, index }),
                    revision: index,
                    ..Default::default()
                };
                let recall = Some(wire::Recall::default());
                let head = wire::SnapshotHead { vote, mark: Some(mark), recall, ..Default::default() };
                let transport = cluster.network.transport(peer(liar).id);
                let mut duplex = transport.open(&peer(away), Purpose::Snapshot).await.unwrap();
                let kinds = [
                    wire::snapshot_frame::Kind::Head(head),
                    wire::snapshot_frame::Kind::End(wire::SnapshotEnd { objects: 0, checksum: 0 }),
                ];
                for kind in kinds {
                    let frame = wire::SnapshotFrame { kind: Some(kind) }.encode_to_vec();
                    duplex.sender.send(Bytes::from(frame)).await.unwrap();
                }
                drop(SimRuntime::timeout(SOON, duplex.receiver.recv()).await);
                ended(&cluster, away, Duration::from_secs(10)).await
            })
        });
        match run {
            Ok(None) => {}
            Ok(Some(reason)) => ends.push(format!("{what}: {reason}")),
            Err(_) => ends.push(format!("{what}: a panic")),
        }
    }
    assert!(ends.is_empty(), "{ends:#?}");
}
