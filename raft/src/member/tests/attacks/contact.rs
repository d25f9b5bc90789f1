//! Members that are wrongly in touch: they take an old log for up to date, and therefore believe a single peer.

use super::*;

/// An append of `from` as the leader of `term`. `format` 999 is one that only a newer program reads.
fn append(from: usize, term: u64, format: u32) -> wire::AppendRequest {
    let vote = Some(wire::Vote { term, node: peer(from).id.0, committed: true });
    let committed = Some(wire::LogId { term, index: 1 });
    wire::AppendRequest {
        vote,
        committed,
        recall: Some(wire::Recall::default()),
        format,
        ..Default::default()
    }
}

async fn beat(cluster: &Cluster, from: usize, to: usize, term: u64) -> Result<(), String> {
    let (kind, recall) = (Some(Request::Heartbeat(append(from, term, 0))), Some(wire::Recall::default()));
    let frame = Bytes::from(wire::ControlRequest { kind, recall, format: 0 }.encode_to_vec());
    let answer =
        cluster.network.transport(peer(from).id).call(&peer(to), Purpose::Control, frame, SOON).await;
    answer.map(drop).map_err(|error| error.to_string())
}

async fn send_newer(cluster: &Cluster, from: usize, to: usize, term: u64) {
    let transport = cluster.network.transport(peer(from).id);
    let Ok(duplex) = transport.open(&peer(to), Purpose::Append).await else { return };
    drop(duplex.sender.send(Bytes::from(append(from, term, 999).encode_to_vec())).await);
    SimRuntime::sleep(Duration::from_millis(5)).await;
}

// Before: a leader that no other member vouches for counted as contact with the cluster. The removed voter led first,
// and then its word alone was believed.
#[test]
fn a_removed_voter_that_leads_is_no_contact_with_the_cluster() {
    simulate(1070, async {
        let (cluster, away, liar) = away_alone_with_a_removed_voter().await;
        let mut led = Ok(());
        for _ in 0..20 {
            led = beat(&cluster, liar, away, 30).await;
            SimRuntime::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(led, Ok(()), "nobody else is there, so it leads");
        let is_in_touch = cluster.handle(away).0.is_in_touch();
        send_newer(&cluster, liar, away, 31).await;
        let end = ended(&cluster, away, Duration::from_secs(20)).await;
        assert_eq!((is_in_touch, end), (false, None));
    });
}

// Before: the first heartbeat after a partition counted as contact, since all entries that the leader had called
// committed before the partition were applied.
#[test]
fn a_member_that_was_cut_off_is_in_touch_once_it_has_applied_what_it_missed() {
    simulate(1071, async {
        let mut cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let leader = cluster.leader().await;
        let liar = cluster.join().await;
        cluster.handle(leader).add_learner(&peer(liar)).await.unwrap();
        known_everywhere(&cluster).await;
        cluster.handle(leader).promote(peer(liar).id).await.unwrap();
        converge(&cluster).await;
        let leader = cluster.leader().await;
        let away = (0..3).find(|n| *n != leader).unwrap();
        cluster.network.isolate(peer(away).id, (0..4).map(|n| peer(n).id));
        SimRuntime::sleep(Duration::from_secs(5)).await;
        let rest: Vec<usize> = (0..4).filter(|n| *n != away).collect();
        let mut leader = cluster.leader_among(&rest).await;
        if leader == liar {
            let heir = rest[0];
            cluster.handle(liar).transfer_leader(peer(heir).id).await.unwrap();
            leader = eventually("the lead", || cluster.handle(heir).is_leader().then_some(heir)).await;
        }
        cluster.handle(leader).remove(peer(liar).id).await.unwrap();
        let removed_at = cluster.handle(leader).barrier().await.unwrap();
        cluster.kill(liar).await;
        cluster.network.serve(peer(liar).id, Arc::new(Liar(wire::IdentityResponse::default())));
        let handle = cluster.handle(away);
        // It receives the leader's heartbeats, but not the missed entries.
        cluster.network.refuse(Purpose::Append, peer(away).id, true);
        cluster.network.heal();
        for _ in 0..100 {
            SimRuntime::sleep(Duration::from_millis(10)).await;
            assert!(handle.state().applied() < removed_at);
            assert!(!handle.0.is_in_touch(), "its log has a removed voter");
        }
        cluster.network.refuse(Purpose::Append, peer(away).id, false);
        eventually("it is in touch again", || handle.0.is_in_touch().then_some(())).await;
    });
}

// Before: an accuser needed no vote if one voter vouched for it and claimed to follow a leader. A removed voter could
// vouch for a second certificate, of a name that was never a member.
#[test]
fn a_removed_voter_condemns_no_disk_by_another_certificate() {
    simulate(1072, async {
        let (mut cluster, away, liar) = away_alone_with_a_removed_voter().await;
        let lie = wire::IdentityResponse { about_member: true, confirmed: true, ..Default::default() };
        cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
        let vote = Some(wire::Vote { term: 30, node: peer(9).id.0, committed: false });
        let ballot = wire::VoteRequest { vote, ..Default::default() };
        let recall = wire::Recall { starts: 1000, incarnation: 77, ..Default::default() };
        let kind = Some(Request::PreVote(ballot));
        let frame = wire::ControlRequest { kind, recall: Some(recall), format: 0 };
        let transport = cluster.network.transport(peer(9).id);
        for _ in 0..20 {
            let frame = Bytes::from(frame.encode_to_vec());
            drop(transport.call(&peer(away), Purpose::Control, frame, SOON).await);
            SimRuntime::sleep(Duration::from_millis(100)).await;
        }
        let end = ended(&cluster, away, LONG).await;
        cluster.kill(away).await;
        let again = cluster.restart(away).await.map_err(|error| error.to_string());
        assert_eq!((end, again), (None, Ok(())));
    });
}

// Before: a peer that one voter vouches for was believed in claims in which one voter alone is not. A removed voter
// needed only a second certificate.
#[test]
fn a_removed_voter_is_not_believed_by_another_certificate() {
    let mut ends = Vec::new();
    for (what, term) in [("a form of the future", 31), ("a term that is used up", (1 << 20) + 1)] {
        let run = simulate(1073, async move {
            let (mut cluster, away, liar) = away_alone_with_a_removed_voter().await;
            let lie = wire::IdentityResponse { about_member: true, confirmed: true, ..Default::default() };
            cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
            for _ in 0..20 {
                drop(beat(&cluster, 9, away, 30).await);
                SimRuntime::sleep(Duration::from_millis(100)).await;
            }
            for _ in 0..5 {
                drop(beat(&cluster, 9, away, term).await);
            }
            send_newer(&cluster, 9, away, term).await;
            let is_in_touch = cluster.handle(away).0.is_in_touch();
            let end = ended(&cluster, away, Duration::from_secs(5)).await;
            let taken = cluster.handle(away).status().term;
            cluster.network.unserve(peer(liar).id);
            for n in [0, 1] {
                cluster.restart(n).await.unwrap();
            }
            (is_in_touch, end, taken <= 1 << 19)
        });
        if run != (false, None, true) {
            ends.push(format!("{what}: {run:?}"));
        }
    }
    assert!(ends.is_empty(), "{ends:#?}");
}

// Before: a follower counted as in touch although no other member followed its leader any more, and trusted its old log
// for as long as that lasted.
#[test]
fn a_member_that_follows_a_leader_that_is_cut_off_is_in_touch_with_nobody() {
    simulate(1074, async {
        let cluster = Cluster::start(5).await;
        known_everywhere(&cluster).await;
        converge(&cluster).await;
        let leader = cluster.leader().await;
        let others: Vec<usize> = (0..5).filter(|n| *n != leader).collect();
        let [away, liar, kept @ ..] = others.as_slice() else { panic!() };
        let (away, liar) = (*away, *liar);
        let rest = || others.iter().filter(|n| **n != away).map(|n| peer(*n).id);
        cluster.network.isolate(peer(leader).id, rest());
        cluster.network.isolate(peer(away).id, rest());
        let living: Vec<usize> = kept.iter().copied().chain([liar]).collect();
        let mut now = cluster.leader_among(&living).await;
        if now == liar {
            cluster.handle(liar).transfer_leader(peer(kept[0]).id).await.unwrap();
            now = eventually("the lead", || cluster.handle(kept[0]).is_leader().then_some(kept[0])).await;
        }
        for n in [leader, liar] {
            cluster.handle(now).remove(peer(n).id).await.unwrap();
        }
        SimRuntime::sleep(Duration::from_secs(10)).await;
        let handle = cluster.handle(away);
        assert_eq!(handle.status().leader.map(|leader| leader.id), Some(peer(leader).id));
        let has_removed = handle.0.membership().membership().get_node(&peer(liar).id.0).is_some();
        assert!(has_removed, "it does not know of the removal");
        assert!(!handle.0.is_in_touch());
        // The leader of the others reaches it again.
        cluster.network.heal();
        eventually("it is in touch again", || handle.0.is_in_touch().then_some(())).await;
        assert!(!handle.0.is_voter(peer(liar).id));
    });
}
