//! Claims of removed members and of learners about other members.

use super::*;

/// A cluster of three founders shrunk to one member, which has acknowledged a write. Returns that member.
async fn shrunk_to_one() -> (Cluster, usize) {
    let mut cluster = Cluster::start(3).await;
    known_everywhere(&cluster).await;
    let last = cluster.leader().await;
    for n in (0..3).filter(|n| *n != last) {
        cluster.handle(last).remove(peer(n).id).await.unwrap();
        cluster.kill(n).await;
    }
    let kept = eventually("it leads alone", || {
        let status = cluster.handle(last).status();
        (cluster.handle(last).is_leader() && status.members.len() == 1).then_some(last)
    })
    .await;
    revision_of(cluster.handle(kept).propose(put("acknowledged", "1")).await);
    (cluster, kept)
}

// Before: a member that knows no other asked the founders of its flags whether it was removed, and believed one answer,
// although it led.
#[test]
fn a_removed_member_does_not_end_the_only_one_that_is_left() {
    simulate(1004, async {
        let (mut cluster, last) = shrunk_to_one().await;
        let liar = (last + 1) % 3;
        let lie = wire::IdentityResponse { removed: true, ..Default::default() };
        cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
        let running = ended(&cluster, last, LONG).await;
        cluster.kill(last).await;
        cluster.restart(last).await.unwrap();
        let restarted = ended(&cluster, last, LONG).await;
        assert_eq!((running, restarted), (None, None));
    });
}

// Before: a member in touch with a leader, which therefore was not removed, believed one answer that it was: a
// learner's, which has no vote.
#[test]
fn a_learner_does_not_end_every_member_by_saying_they_were_removed() {
    simulate(1005, async {
        let lie = wire::IdentityResponse { removed: true, ..Default::default() };
        let cluster = with_lying_learner(lie).await;
        let mut reasons = Vec::new();
        for n in 0..3 {
            reasons.push(ended(&cluster, n, LONG).await);
        }
        assert_eq!(reasons, [None, None, None]);
    });
}

// Before: a member in touch believed one accuser, even a learner, although the leader and the applied state contradict
// it. Its disk was marked for ever.
#[test]
fn a_learner_does_not_condemn_the_disk_of_every_member_that_restarts() {
    simulate(1006, async {
        let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
        let mut cluster = with_lying_learner(lie).await;
        let follower = (cluster.leader_among(&[0, 1, 2]).await + 1) % 3;
        cluster.kill(follower).await;
        cluster.restart(follower).await.unwrap();
        let reason = ended(&cluster, follower, LONG).await;
        cluster.kill(follower).await;
        let again = cluster.restart(follower).await.map_err(|error| error.to_string());
        assert_eq!((reason, again), (None, Ok(())));
    });
}

// Before: one answer of any peer that it was told to ask ended a member that waits for enrolment, and the third of
// these lies marked its disk for ever.
#[test]
fn a_single_answer_of_several_keeps_no_peer_out() {
    let lies = [
        wire::IdentityResponse { removed: true, ..Default::default() },
        wire::IdentityResponse { directory: "another".into(), ..Default::default() },
        wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() },
    ];
    for (seed, lie) in (1041..).zip(lies) {
        simulate(seed, async move {
            let mut cluster = Cluster::start(3).await;
            known_everywhere(&cluster).await;
            let leader = cluster.leader().await;
            let (liar, late) = (9, cluster.members.len());
            cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
            cluster.disks.push(Arc::default());
            cluster.members.push(None);
            for _ in 0..2 {
                let mut options = cluster.options(late);
                options.join = vec![peer(liar), peer(0), peer(1), peer(2)];
                let transport = cluster.network.transport(peer(late).id);
                let member = Member::start(options, cluster.disks[late].clone(), transport).await.unwrap();
                cluster.network.serve(peer(late).id, member.service());
                cluster.members[late] = Some(member);
                assert_eq!(ended(&cluster, late, SOON).await, None);
                cluster.handle(leader).add_learner(&peer(late)).await.unwrap();
                let at = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
                assert!(cluster.handle(late).wait_applied(at, LONG).await);
                cluster.kill(late).await;
            }
        });
    }
}

/// Sends pre-vote requests to `to` with the certificates of `strangers`, ten a second each.
fn flood(cluster: &Cluster, to: usize, strangers: std::ops::Range<usize>) {
    for stranger in strangers {
        let transport = cluster.network.transport(peer(stranger).id);
        let kind = Some(Request::PreVote(ballot(stranger, 9)));
        let frame = Bytes::from(wire::ControlRequest { kind, ..Default::default() }.encode_to_vec());
        drop(SimRuntime::spawn(async move {
            loop {
                drop(transport.call(&peer(to), Purpose::Control, frame.clone(), SOON).await);
                SimRuntime::sleep(Duration::from_millis(100)).await;
            }
        }));
    }
}

// Before: 64 strangers filled the table of answers, so that members were not asked about a leader that had joined
// meanwhile.
#[test]
fn strangers_without_number_keep_no_newer_leader_from_being_heard() {
    simulate(1044, async {
        let mut cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let leader = cluster.leader().await;
        let away = (leader + 1) % 3;
        cluster.kill(away).await;
        let joined = join_as_voter(&mut cluster, leader).await;
        cluster.handle(leader).transfer_leader(peer(joined).id).await.unwrap();
        cluster.leader_among(&[joined]).await;
        flood(&cluster, away, 100..170);
        cluster.network.isolate(peer(away).id, [peer(joined).id].into_iter());
        cluster.restart(away).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(3)).await;
        cluster.network.heal();
        let at = revision_of(cluster.handle(joined).propose(put("a", "1")).await);
        assert!(cluster.handle(away).wait_applied(at, LONG).await);
    });
}

// Before: a member accused while it compared its disk did not stand for election again until a restart, even if no
// voter supported the accusation.
#[test]
fn an_accusation_that_ends_leaves_a_member_that_can_be_elected() {
    simulate(1045, async {
        let mut cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let leader = cluster.leader().await;
        let (accused, other) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(accused).await;
        let liar = join_as_voter(&mut cluster, leader).await;
        known_everywhere(&cluster).await;
        converge(&cluster).await;
        for n in [liar, other, leader] {
            cluster.kill(n).await;
        }
        // Without the accused member's vote there is no leader, and so no member that condemns its disk.
        for n in [leader, other, accused] {
            cluster.restart(n).await.unwrap();
        }
        for _ in 0..20 {
            let recall = wire::Recall { starts: 1000, incarnation: 5, ..Default::default() };
            let ballot = Request::PreVote(ballot(liar, 9));
            ask(&cluster, liar, accused, ballot, recall).await.unwrap_err();
            SimRuntime::sleep(Duration::from_millis(20)).await;
        }
        let core = cluster.handle(accused).0.clone();
        assert!(core.is_accused() && core.returning.is_finished());
        cluster.network.isolate(peer(accused).id, (0..4).map(|n| peer(n).id));
        eventually("nobody calls the liar a member", || (!core.is_accused()).then_some(())).await;
        cluster.network.heal();
        let now = cluster.leader_among(&[leader, other, accused]).await;
        cluster.handle(now).remove(peer(liar).id).await.unwrap();
        converge(&cluster).await;
        // Now one of the others lacks a write, and the third is cut off: only the accused member can lead.
        let keeps = if now == accused { leader } else { now };
        let lags = leader + other - keeps;
        cluster.network.isolate(peer(lags).id, (0..4).map(|n| peer(n).id));
        let now = cluster.leader_among(&[accused, keeps]).await;
        revision_of(cluster.handle(now).propose(put("acknowledged", "1")).await);
        SimRuntime::sleep(SOON).await;
        cluster.network.heal();
        cluster.network.isolate(peer(keeps).id, (0..4).map(|n| peer(n).id));
        assert_eq!(cluster.leader_among(&[accused, lags]).await, accused);
    });
}
