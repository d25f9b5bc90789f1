//! Older copies of a disk: repeated starts, and elections.

use super::*;

// Before: a start of the copy was counted on its disk even if no member could condemn it, so the next start had the
// count that the cluster knows. The older copy then voted, and writes that it had acknowledged were lost.
#[test]
fn an_older_copy_that_starts_twice_is_still_an_older_copy() {
    simulate(1001, async {
        let OlderCopy { mut cluster, late, rolled_back, .. } = older_copy_and_late_member().await;
        cluster.restart(late).await.unwrap();
        cluster.restart(rolled_back).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(20)).await;
        let leaders = [late, rolled_back].map(|n| cluster.handle(n).is_leader());
        assert_eq!(leaders, [false, false], "the first start of the copy is found out");
        // A restart by a supervisor, an operator or a reboot.
        cluster.kill(rolled_back).await;
        if cluster.restart(rolled_back).await.is_ok() {
            SimRuntime::sleep(Duration::from_secs(20)).await;
            let leaders = [late, rolled_back].map(|n| cluster.handle(n).is_leader());
            let lost = value(&cluster.handle(late), "acknowledged").is_none();
            assert_eq!(leaders, [false, false], "elected with an older copy's vote; lost: {lost}");
        }
    });
}

// Before: as above, without other running members: the copy was started twice before any member answered it.
#[test]
fn an_older_copy_that_starts_twice_before_it_meets_anybody_is_found_out() {
    simulate(1002, async {
        let OlderCopy { mut cluster, late, rolled_back, .. } = older_copy_and_late_member().await;
        for _ in 0..2 {
            cluster.restart(rolled_back).await.unwrap();
            SimRuntime::sleep(SOON).await;
            cluster.kill(rolled_back).await;
        }
        cluster.restart(late).await.unwrap();
        cluster.restart(rolled_back).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(20)).await;
        let leaders = [late, rolled_back].map(|n| cluster.handle(n).is_leader());
        let lost = value(&cluster.handle(late), "acknowledged").is_none();
        assert_eq!(leaders, [false, false], "elected with an older copy's vote; lost: {lost}");
    });
}

// Before: a copy that knows no other member ended without a mark on its disk, but its start was counted. Its next start
// founded nothing, but led the cluster as of the copy beside the real one.
#[test]
fn an_older_copy_from_before_others_joined_does_not_lead_at_its_second_start() {
    simulate(1003, async {
        let (mut cluster, alone) = grown_from_one().await;
        cluster.kill(0).await;
        cluster.disks[0] = alone;
        let leader = cluster.leader_among(&[1, 2]).await;
        cluster.restart(0).await.unwrap();
        let reason = ended(&cluster, 0, LONG).await;
        assert!(reason.is_some_and(|reason| reason.contains("older copy")), "the first start is found out");
        cluster.kill(0).await;
        // The supervisor starts it again.
        if cluster.restart(0).await.is_ok() {
            let reason = ended(&cluster, 0, Duration::from_secs(20)).await;
            let leads = cluster.handle(0).is_leader();
            let forked = cluster.handle(0).propose(put("a", "forked")).await;
            let read = cluster.handle(0).barrier().await;
            let values = [0, leader].map(|n| value(&cluster.handle(n), "a"));
            assert!(
                !leads,
                "ended: {reason:?}, a write: {forked:?}, a quorum read: {read:?}, two states: {values:?}"
            );
        }
    });
}

/// A host that hangs: it accepts frames and answers none.
struct Hung;

impl PeerService for Hung {
    fn call(&self, _: NodeId, _: Purpose, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        std::future::pending().boxed()
    }

    fn stream(&self, _: NodeId, _: Purpose, duplex: Duplex) -> BoxFuture<'static, ()> {
        async move {
            let _duplex = duplex;
            std::future::pending().await
        }
        .boxed()
    }
}

// Before: a member gave no vote to a member that it was not compared with, but as a candidate it accepted such votes.
// It asks all members in one round, which a hung host makes a second long.
#[test]
fn an_older_copy_takes_no_vote_of_a_member_that_it_was_not_compared_with() {
    let mut led = Vec::new();
    for offset in (0..1100).step_by(50) {
        let run = simulate(1017, async move {
            let OlderCopy { mut cluster, late, gone, rolled_back } = older_copy_and_late_member().await;
            cluster.network.serve(peer(gone).id, Arc::new(Hung));
            cluster.restart(rolled_back).await.unwrap();
            SimRuntime::sleep(Duration::from_millis(3000 + offset)).await;
            cluster.restart(late).await.unwrap();
            let mut has_led = false;
            for _ in 0..500 {
                SimRuntime::sleep(Duration::from_millis(10)).await;
                has_led |= cluster.handle(rolled_back).is_leader();
            }
            let lost = value(&cluster.handle(late), "acknowledged").is_none();
            has_led.then(|| format!("after {offset} ms, what was acknowledged is lost: {lost}"))
        });
        led.extend(run);
    }
    assert!(led.is_empty(), "{led:#?}");
}

/// As above for a copy of a running member's disk, whose count of starts reveals nothing.
// Only the leader remembers what the member promised after the copy was made.
#[test]
fn an_older_copy_takes_no_vote_of_one_that_was_promised_more() {
    let mut led = Vec::new();
    for offset in (0..1100).step_by(50) {
        let run = simulate(1018, async move {
            let mut cluster = Cluster::start(3).await;
            cluster.leader().await;
            known_everywhere(&cluster).await;
            converge(&cluster).await;
            let leader = cluster.leader().await;
            let (gone, rolled_back) = ((leader + 1) % 3, (leader + 2) % 3);
            // The leader is not restarted, and remembers what it was promised.
            let older = copy(&cluster, rolled_back);
            revision_of(cluster.handle(leader).propose(put("acknowledged", "1")).await);
            converge(&cluster).await;
            cluster.kill(gone).await;
            cluster.kill(rolled_back).await;
            cluster.network.serve(peer(gone).id, Arc::new(Hung));
            cluster.network.isolate(peer(leader).id, (0..3).map(|n| peer(n).id));
            cluster.disks[rolled_back] = older;
            cluster.restart(rolled_back).await.unwrap();
            SimRuntime::sleep(Duration::from_millis(3000 + offset)).await;
            cluster.network.heal();
            let mut has_led = false;
            for _ in 0..500 {
                SimRuntime::sleep(Duration::from_millis(10)).await;
                has_led |= cluster.handle(rolled_back).is_leader();
            }
            has_led.then(|| format!("after {offset} ms"))
        });
        led.extend(run);
    }
    assert!(led.is_empty(), "{led:#?}");
}

// Before: a leader's knowledge of a disk was checked against older copies only. An emptied disk, enrolled on a removed
// member's word, voted for a member that lacked writes it had acknowledged.
#[test]
fn an_emptied_disk_that_a_removed_member_lets_in_has_no_vote() {
    simulate(1040, async {
        let mut cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let (late, emptied, liar) = (0, 1, 2);
        let leader = cluster.leader().await;
        let joined = join_as_voter(&mut cluster, leader).await;
        known_everywhere(&cluster).await;
        converge(&cluster).await;
        // If the member to be removed leads, it hands over first.
        cluster.handle(late).remove(peer(liar).id).await.unwrap();
        cluster.kill(liar).await;
        converge(&cluster).await;
        cluster.kill(late).await;
        let leader = cluster.leader_among(&[emptied, joined]).await;
        revision_of(cluster.handle(leader).propose(put("acknowledged", "1")).await);
        cluster.kill(joined).await;
        cluster.kill(emptied).await;
        cluster.disks[emptied] = Arc::default();
        let lie = wire::IdentityResponse { confirmed: true, ..Default::default() };
        cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
        cluster.restart(emptied).await.unwrap();
        SimRuntime::sleep(SOON).await;
        cluster.restart(late).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(10)).await;
        assert!(!cluster.handle(late).is_leader(), "elected by a disk that forgot what it acknowledged");
        cluster.restart(joined).await.unwrap();
        let now = cluster.leader_among(&[late, joined]).await;
        cluster.handle(now).barrier().await.unwrap();
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}
