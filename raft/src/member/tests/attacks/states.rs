//! Snapshots that a member must refuse, and those that it must install.

use super::*;
use crate::transport::Purpose;

// Before: a state that can never be installed was received in whole every two seconds, with a warning each time,
// although its first frame shows that it cannot.
#[test]
fn a_state_that_is_not_this_members_past_is_not_received_over_and_over() {
    use crate::warnings::counting::Warned;
    let warned = Warned::default();
    tracing::subscriber::with_default(warned.clone(), || {
        simulate(915, async {
            let mut cluster = Cluster::start(3).await;
            let right = majority_loses(&mut cluster, 400, 290).await;
            cluster.restart(right).await.unwrap();
            eventually("it is quarantined", || cluster.handle(right).may_serve().err()).await;
            SimRuntime::sleep(LONG).await;
            let (streams, lines) = (cluster.network.streams(Purpose::Snapshot), warned.count());
            SimRuntime::sleep(Duration::from_secs(600)).await;
            let streams = cluster.network.streams(Purpose::Snapshot) - streams;
            let lines = warned.count() - lines;
            assert!(streams <= 60 && lines <= 200, "{streams} states received, {lines} lines in ten minutes");
        });
    });
}

// Before: a lagging quarantined member asked for a state, and waited half a minute for log entries that only the
// leader's snapshot can replace. Meanwhile it refused that snapshot, and then asked the next member.
#[test]
fn a_quarantined_member_that_lags_takes_the_leaders_snapshot() {
    simulate(1010, async {
        let mut cluster = with_small_logs(3);
        cluster.start_and_found().await;
        let leader = cluster.leader().await;
        let wrong = (leader + 1) % 3;
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        cluster.handle(wrong).0.applied.damage(&key("never written"));
        for i in 0..300 {
            revision_of(cluster.handle(leader).propose(put("busy", &format!("{i}"))).await);
        }
        let handle = cluster.handle(wrong);
        eventually("it is quarantined", || handle.may_serve().err()).await;
        cluster.network.isolate(peer(wrong).id, (0..3).map(|n| peer(n).id));
        for i in 0..500 {
            revision_of(cluster.handle(leader).propose(put("busy", &format!("again {i}"))).await);
        }
        SimRuntime::sleep(Duration::from_secs(3)).await;
        cluster.network.heal();
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, false));
        let healed = SimInstant::now();
        eventually("it serves again", || handle.may_serve().ok()).await;
        let took = SimInstant::now().saturating_duration_since(healed);
        assert!(took < Duration::from_secs(20), "after {took:?}");
    });
}

// Before: without a majority, a quarantined member installed the state of any member that had judged it, although these
// differ from each other by now. The wrong state then had a majority, and the right member was repaired to it.
#[test]
fn a_quarantined_member_takes_no_state_of_judges_that_differ() {
    simulate(1020, async {
        let cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let right = cluster.leader().await;
        let (wrong, quarantined) = ((right + 1) % 3, (right + 2) % 3);
        revision_of(cluster.handle(right).propose(put("a", "1")).await);
        converge(&cluster).await;
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        let handle = cluster.handle(quarantined);
        handle.0.applied.damage(&key("first fault"));
        eventually("it is quarantined", || handle.may_serve().err()).await;
        cluster.handle(wrong).0.applied.damage(&key("second fault"));
        eventually("everybody differs", || {
            let status = (0..3).map(|n| cluster.handle(n).status().agreement);
            status.into_iter().all(|status| status.split).then_some(())
        })
        .await;
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, false));
        SimRuntime::sleep(LONG).await;
        let spread =
            [right, quarantined].map(|n| cluster.handle(n).state().object(&key("second fault")).is_some());
        let repairs = cluster.handle(right).status().agreement.repairs;
        assert_eq!(
            (spread, repairs),
            ([false, false], 0),
            "the right one, the quarantined one; repairs of the right one"
        );
    });
}

// Before: if the others purge their log past the difference before it has as many entries, they send a snapshot. It
// ended the member that kept the lost entries, at every start, by an assertion of the consensus library, in every
// build: a leader's appends were checked against the entries committed here, its snapshots were not.
#[test]
fn the_one_that_keeps_what_a_majority_lost_is_not_ended_by_their_state() {
    simulate(1022, async {
        let mut cluster = with_small_logs(3);
        cluster.start_and_found().await;
        let right = majority_loses(&mut cluster, 600, 250).await;
        SimRuntime::sleep(Duration::from_secs(5)).await;
        for _ in 0..2 {
            cluster.restart(right).await.unwrap();
            let reason = ended(&cluster, right, Duration::from_secs(30)).await;
            assert_eq!(reason, None);
            cluster.kill(right).await;
        }
    });
}

// Before: the sender of a snapshot was checked at its start only, and one snapshot is received at a time. The removed
// voter began one while no other member ran, and never ended it; the leader's snapshot was refused meanwhile.
#[test]
fn a_state_that_a_removed_voter_never_ends_keeps_no_member_from_the_leaders() {
    simulate(1064, async {
        let mut cluster = Cluster::new(3);
        cluster.log = LogOptions { snapshot_every: 50, keep: 30, ..LogOptions::default() };
        cluster.history = HistoryOptions { entries_max: 20, ..HistoryOptions::default() };
        let (mut cluster, away, liar) = away_alone(cluster, 500).await;
        let status = cluster.handle(away).status();
        let term = status.term + 5;
        let vote = Some(wire::Vote { term, node: peer(liar).id.0, committed: true });
        let log_id = Some(wire::LogId { term, index: 10_000 });
        let mark = wire::StateMark { log_id, revision: 10_000, ..Default::default() };
        let recall = Some(wire::Recall::default());
        let head = wire::SnapshotHead { vote, mark: Some(mark), recall, ..Default::default() };
        let frame = |kind| Bytes::from(wire::SnapshotFrame { kind: Some(kind) }.encode_to_vec());
        let (head, objects) = (
            frame(wire::snapshot_frame::Kind::Head(head)),
            frame(wire::snapshot_frame::Kind::Objects(wire::SnapshotObjects::default())),
        );
        let transport = cluster.network.transport(peer(liar).id);
        let sending = SimRuntime::spawn(async move {
            // The removed voter tries again whenever it is refused.
            for _ in 0..40 {
                let duplex = transport.open(&peer(away), Purpose::Snapshot).await.unwrap();
                let mut next = head.clone();
                while duplex.sender.send(next).await.is_ok() {
                    next = objects.clone();
                    SimRuntime::sleep(Duration::from_secs(3)).await;
                }
            }
        });
        SimRuntime::sleep(SOON).await;
        for n in [0, 1] {
            cluster.restart(n).await.unwrap();
        }
        let leader = cluster.leader_among(&[0, 1]).await;
        let at = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        assert!(cluster.handle(away).wait_applied(at, LONG).await);
        drop(sending);
    });
}

// Before: a transfer to a member that asked for a state and read nothing of it never ended, and one state is sent at a
// time.
#[test]
fn a_member_that_reads_nothing_of_a_state_keeps_no_other_from_a_repair() {
    simulate(1065, async {
        let cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let leader = cluster.leader().await;
        // More than the buffers of a stream hold.
        let large = "x".repeat(1 << 20);
        for i in 0..24 {
            revision_of(cluster.handle(leader).propose(put(&format!("a{i}"), &large)).await);
        }
        let pull = async |from: usize| {
            let transport = cluster.network.transport(peer(from).id);
            let duplex = transport.open(&peer(leader), Purpose::Snapshot).await.unwrap();
            let kind = Some(wire::snapshot_frame::Kind::Pull(wire::SnapshotPull::default()));
            let frame = wire::SnapshotFrame { kind }.encode_to_vec();
            duplex.sender.send(Bytes::from(frame)).await.unwrap();
            duplex
        };
        let stalled = pull((leader + 1) % 3).await;
        SimRuntime::sleep(Duration::from_secs(700)).await;
        let mut other = pull((leader + 2) % 3).await;
        let first = wire::SnapshotFrame::decode(other.receiver.recv().await.unwrap()).unwrap();
        assert!(matches!(first.kind, Some(wire::snapshot_frame::Kind::Head(_))), "{first:?}");
        drop(stalled);
    });
}
