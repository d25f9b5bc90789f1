//! A member whose state diverges is detected, quarantined and repaired.

use super::casts::{converge, with_small_logs};
use super::*;
use crate::Runtime;
use crate::transport::Purpose;

/// A cluster whose members have the objects `a0` to `a39` in their stored state, and later history.
async fn cluster_with_stored_state() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.history = HistoryOptions { entries_max: 20, ..HistoryOptions::default() };
    cluster.start_and_found().await;
    let leader = cluster.leader().await;
    for i in 0..40 {
        revision_of(cluster.handle(leader).propose(put(&format!("a{i}"), "right")).await);
    }
    for i in 0..60 {
        revision_of(cluster.handle(leader).propose(put("busy", &format!("{i}"))).await);
    }
    converge(&cluster).await;
    cluster
}

/// Stops member `n`, applies `damage` to its disk, which must return `true`, and restarts it.
async fn damage(cluster: &mut Cluster, n: usize, damage: impl FnOnce(&MemoryDisk) -> bool) {
    cluster.kill(n).await;
    assert!(damage(&cluster.disks[n]), "nothing to damage: the state on disk is too young");
    cluster.restart(n).await.unwrap();
}

fn agreement(cluster: &Cluster, n: usize) -> AgreementStatus {
    cluster.handle(n).status().agreement
}

/// Waits until member `n` was repaired and serves, and checks that all members have the same digest.
async fn repaired(cluster: &Cluster, n: usize) {
    eventually("the member is repaired", || {
        let status = agreement(cluster, n);
        (status.repairs > 0 && status.quarantine.is_none()).then_some(())
    })
    .await;
    converge(cluster).await;
    let digests: Vec<_> = cluster
        .handles()
        .iter()
        .map(|handle| {
            let state = handle.state();
            crate::digest::digest(&state, state.applied()).unwrap()
        })
        .collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "repaired to something else");
    cluster.handle(n).may_serve().unwrap();
    cluster.handle(n).barrier().await.unwrap();
}

#[test]
fn members_that_agree_say_so() {
    simulate(11, async {
        let cluster = cluster_with_stored_state().await;
        let applied = cluster.handle(0).status().applied;
        for n in 0..3 {
            let status = eventually("agreement is seen", || {
                let status = agreement(&cluster, n);
                (status.agreed >= applied).then_some(status)
            })
            .await;
            assert_eq!(status, AgreementStatus { agreed: status.agreed, ..AgreementStatus::default() });
        }
    });
}

#[test]
fn a_changed_byte_in_the_stored_state_is_found_and_repaired() {
    simulate(12, async {
        let mut cluster = cluster_with_stored_state().await;
        let victim = (cluster.leader().await + 1) % 3;
        damage(&mut cluster, victim, |disk| disk.corrupt_object("ns/a7")).await;
        let status = eventually("it finds that it differs", || {
            Some(agreement(&cluster, victim)).filter(|status| status.quarantine.is_some())
        })
        .await;
        let reason = status.quarantine.unwrap();
        assert!(reason.contains("differs from the majority's at revision"), "{reason}");
        repaired(&cluster, victim).await;
        assert_eq!(value(&cluster.handle(victim), "a7").as_deref(), Some("right"));
        // The repaired state is on the disk: after a restart the members agree.
        cluster.kill(victim).await;
        cluster.restart(victim).await.unwrap();
        eventually("it agrees again", || (agreement(&cluster, victim).agreed.0 > 0).then_some(())).await;
        let status = agreement(&cluster, victim);
        assert_eq!((status.divergences, status.quarantine), (0, None));
    });
}

#[test]
fn a_lost_object_is_found_and_repaired_under_writes() {
    simulate(13, async {
        let mut cluster = cluster_with_stored_state().await;
        let leader = cluster.leader().await;
        let victim = (leader + 1) % 3;
        damage(&mut cluster, victim, |disk| disk.lose_object("ns/a9")).await;
        let mut written = 0;
        while agreement(&cluster, victim).repairs == 0 {
            revision_of(cluster.handle(leader).propose(put("busy", &format!("again {written}"))).await);
            written += 1;
            assert!(written < 100_000, "never repaired");
        }
        repaired(&cluster, victim).await;
        assert_eq!(value(&cluster.handle(victim), "a9").as_deref(), Some("right"));
    });
}

#[test]
fn a_missed_removal_is_found_and_repaired() {
    simulate(18, async {
        let cluster = &mut cluster_with_stored_state().await;
        let leader = cluster.leader().await;
        let secret = |name: &str| {
            let key = Key::new(&Arc::from("secrets"), "ns", name).unwrap();
            let Operation::Put(made) = put("x", "1").operations.remove(0) else { panic!("no put") };
            (key.clone(), Operation::Put(Put { key, ..made }))
        };
        let of = |operation| Transaction { operations: vec![operation], ..Transaction::default() };
        let ((_, kept), (gone, made)) = (secret("kept"), secret("gone"));
        for operation in [kept, made, Operation::Delete(gone)] {
            revision_of(cluster.handle(leader).propose(of(operation)).await);
        }
        for i in 0..60 {
            revision_of(cluster.handle(leader).propose(put("busy", &format!("more {i}"))).await);
        }
        converge(cluster).await;
        let changed = |cluster: &Cluster, n: usize| cluster.handle(n).state().collection("secrets").changed();
        let truth = changed(cluster, leader);
        let victim = (leader + 1) % 3;
        damage(cluster, victim, |disk| disk.lose_change("secrets")).await;
        assert!(changed(cluster, victim) < truth, "no removal was missed");
        repaired(cluster, victim).await;
        assert_eq!(changed(cluster, victim), truth);
    });
}

#[test]
fn a_quarantined_member_serves_nobody_and_a_restart_does_not_help_it() {
    simulate(14, async {
        let mut cluster = cluster_with_stored_state().await;
        let victim = (cluster.leader().await + 1) % 3;
        let others: Vec<usize> = (0..3).filter(|n| *n != victim).collect();
        // No peer sends it a snapshot, so it is not repaired.
        for other in &others {
            cluster.network.refuse(Purpose::Snapshot, peer(*other).id, true);
        }
        damage(&mut cluster, victim, |disk| disk.corrupt_object("ns/a7")).await;
        for _ in 0..2 {
            let handle = cluster.handle(victim);
            eventually("it is quarantined", || handle.may_serve().err()).await;
            let refused = handle.propose(put("x", "1")).await;
            assert!(matches!(refused, Err(ProposeError::NotProposed { .. })), "{refused:?}");
            assert!(handle.barrier().await.unwrap_err().reason.contains("quarantined"));
            assert!(!handle.is_leader());
            cluster.kill(victim).await;
            cluster.restart(victim).await.unwrap();
            assert!(cluster.handle(victim).may_serve().is_err(), "from the start");
        }
        let leader = cluster.leader_among(&others).await;
        revision_of(cluster.handle(leader).propose(put("y", "1")).await);
        for other in &others {
            let status = eventually("the others report it", || {
                Some(agreement(&cluster, *other)).filter(|status| !status.differing.is_empty())
            })
            .await;
            assert_eq!(status.differing, [peer(victim).id].into());
            assert!(status.quarantine.is_none() && !status.split);
        }
        for other in &others {
            cluster.network.refuse(Purpose::Snapshot, peer(*other).id, false);
        }
        repaired(&cluster, victim).await;
    });
}

#[test]
fn a_quarantined_member_does_not_lead_when_the_leader_is_killed_and_its_watches_end() {
    for seed in 140..146 {
        simulate(seed, async {
            let mut cluster = cluster_with_stored_state().await;
            let leader = cluster.leader().await;
            let followers: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
            // The follower that would stand for election first.
            let victim = followers.iter().copied().min_by_key(|n| peer(*n).id).unwrap();
            (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
            let handle = cluster.handle(victim);
            let mut subscription = handle.subscribe(&Arc::from("configmaps"));
            let before = handle.revocations();
            handle.0.applied.damage(&key("never written"));
            eventually("it is quarantined", || handle.may_serve().err()).await;
            assert!(handle.revocations() > before);
            let woken = SimRuntime::timeout(Duration::from_secs(1), subscription.changed()).await;
            assert!(matches!(woken, Ok(Some(_))), "idle watches sleep on: {woken:?}");
            cluster.kill(leader).await;
            let sound = followers.iter().copied().find(|n| *n != victim).unwrap();
            eventually("a sound member leads", || cluster.handle(sound).is_leader().then_some(())).await;
            assert_eq!(cluster.handle(victim).status().term, cluster.handle(sound).status().term);
            revision_of(cluster.handle(sound).propose(put("y", "1")).await);
        });
    }
}

#[test]
fn a_count_of_the_quarantine_is_never_that_of_the_repaired_state() {
    simulate(17, async {
        let cluster = cluster_with_stored_state().await;
        let victim = (cluster.leader().await + 1) % 3;
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        let handle = cluster.handle(victim);
        handle.0.applied.damage(&key("never written"));
        eventually("it is quarantined", || handle.may_serve().err()).await;
        // As a value is derived that a change or a request asks for meanwhile.
        let mut subscription = handle.subscribe(&Arc::from("configmaps"));
        let (during, wrong) = (handle.revocations(), handle.state());
        assert!(wrong.object(&key("never written")).is_some(), "the state is the wrong one");
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, false));
        repaired(&cluster, victim).await;
        assert!(handle.state().object(&key("never written")).is_none());
        assert_eq!(handle.state().applied(), wrong.applied(), "revisions do not tell the states apart");
        assert!(handle.revocations() > during, "the value is taken for one of the right state");
        let woken = SimRuntime::timeout(Duration::from_secs(1), subscription.changed()).await;
        assert!(matches!(woken, Ok(Some(_))), "loops that follow sleep on: {woken:?}");
    });
}

#[test]
fn a_leader_that_differs_hands_over_and_is_repaired() {
    simulate(15, async {
        let cluster = cluster_with_stored_state().await;
        let victim = cluster.leader().await;
        let others: Vec<usize> = (0..3).filter(|n| *n != victim).collect();
        cluster.handle(victim).0.applied.damage(&key("never written"));
        let handle = cluster.handle(victim);
        eventually("it is quarantined", || handle.may_serve().err()).await;
        repaired(&cluster, victim).await;
        let leader = cluster.leader().await;
        assert!(others.contains(&leader), "{leader} leads, {victim} was wrong");
        assert!(cluster.handle(victim).state().object(&key("never written")).is_none());
        revision_of(cluster.handle(leader).propose(put("y", "1")).await);
    });
}

#[test]
fn without_a_majority_everybody_is_told_and_nobody_is_changed() {
    simulate(16, async {
        let mut cluster = cluster_with_stored_state().await;
        for (n, name) in [(1, "ns/a1"), (2, "ns/a2")] {
            cluster.kill(n).await;
            assert!(cluster.disks[n].corrupt_object(name));
        }
        for n in [1, 2] {
            cluster.restart(n).await.unwrap();
        }
        for n in 0..3 {
            let status = eventually("the split is seen", || {
                Some(agreement(&cluster, n)).filter(|status| status.split && status.differing.len() == 3)
            })
            .await;
            assert_eq!((status.quarantine, status.repairs), (None, 0));
        }
    });
}

/// A cluster with a dead leader, a quarantined member that cannot be repaired, and a member that lacks the newest
/// entry. Returns the latter two.
async fn quarantined_with_the_newest_log() -> (Cluster, usize, usize) {
    let mut cluster = cluster_with_stored_state().await;
    let leader = cluster.leader().await;
    let (wrong, behind) = ((leader + 1) % 3, (leader + 2) % 3);
    (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
    damage(&mut cluster, wrong, |disk| disk.corrupt_object("ns/a7")).await;
    let handle = cluster.handle(wrong);
    eventually("it is quarantined", || handle.may_serve().err()).await;
    cluster.network.isolate(peer(behind).id, (0..3).map(|n| peer(n).id));
    revision_of(cluster.handle(leader).propose(put("newest", "1")).await);
    cluster.kill(leader).await;
    cluster.network.heal();
    (cluster, wrong, behind)
}

#[test]
fn a_quarantined_member_gives_its_newest_entries_to_one_that_may_lead() {
    simulate(98, async {
        let (cluster, wrong, behind) = quarantined_with_the_newest_log().await;
        let right = cluster.handle(behind);
        eventually("the other leads", || right.status().leader.filter(|leader| *leader == peer(behind)))
            .await;
        right.barrier().await.unwrap();
        assert_eq!(value(&right, "newest").as_deref(), Some("1"));
        revision_of(right.propose(put("more", "1")).await);
        // Agreement on revisions before the divergence does not lift the quarantine.
        SimRuntime::sleep(Duration::from_secs(20)).await;
        cluster.handle(wrong).may_serve().unwrap_err();
    });
}

#[test]
fn the_lead_is_not_given_to_a_quarantined_member() {
    simulate(99, async {
        let mut cluster = cluster_with_stored_state().await;
        let leader = cluster.leader().await;
        let (wrong, dead) = ((leader + 1) % 3, (leader + 2) % 3);
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        damage(&mut cluster, wrong, |disk| disk.corrupt_object("ns/a7")).await;
        let handle = cluster.handle(wrong);
        eventually("it is quarantined", || handle.may_serve().err()).await;
        cluster.kill(dead).await;
        let refused = cluster.handle(leader).transfer_leader(peer(wrong).id).await.unwrap_err();
        assert!(refused.to_string().contains("quarantined"), "{refused}");
        revision_of(cluster.handle(leader).propose(put("more", "1")).await);
    });
}

#[test]
fn a_quarantined_member_is_repaired_by_one_of_its_judges_while_others_are_away() {
    simulate(909, async {
        let mut cluster = cluster_with_stored_state().await;
        let right = cluster.leader().await;
        let (wrong, away) = ((right + 1) % 3, (right + 2) % 3);
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        damage(&mut cluster, wrong, |disk| disk.lose_object("ns/a9")).await;
        let handle = cluster.handle(wrong);
        eventually("it is quarantined", || handle.may_serve().err()).await;
        cluster.kill(away).await;
        // The members that judged it are recorded on its disk.
        cluster.kill(wrong).await;
        cluster.restart(wrong).await.unwrap();
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, false));
        let handle = cluster.handle(wrong);
        eventually("it is repaired", || handle.may_serve().ok()).await;
        assert_eq!(value(&handle, "a9").as_deref(), Some("right"));
    });
}

#[test]
fn a_quarantined_leader_does_not_spread_its_state() {
    simulate(902, async {
        let mut cluster = with_small_logs(3);
        cluster.start_and_found().await;
        let right = cluster.leader().await;
        let (wrong, behind) = ((right + 1) % 3, (right + 2) % 3);
        for i in 0..40 {
            revision_of(cluster.handle(right).propose(put(&format!("a{i}"), "right")).await);
        }
        for i in 0..60 {
            revision_of(cluster.handle(right).propose(put("busy", &format!("{i}"))).await);
        }
        SimRuntime::sleep(Duration::from_secs(3)).await;
        converge(&cluster).await;
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        damage(&mut cluster, wrong, |disk| disk.lose_object("ns/a9")).await;
        eventually("it is quarantined", || cluster.handle(wrong).may_serve().err()).await;
        cluster.kill(behind).await;
        for i in 0..500 {
            revision_of(cluster.handle(right).propose(put("busy", &format!("{i}"))).await);
        }
        SimRuntime::sleep(Duration::from_secs(3)).await;
        eventually("the quarantined member has the log", || {
            let ends = [right, wrong].map(|n| cluster.handle(n).status().applied);
            (ends[0] == ends[1]).then_some(())
        })
        .await;
        cluster.kill(right).await;
        // The quarantined member has the newest log, and the other needs a snapshot.
        cluster.restart(behind).await.unwrap();
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, false));
        SimRuntime::sleep(Duration::from_secs(60)).await;
        cluster.handle(wrong).may_serve().unwrap_err();
        assert_eq!(value(&cluster.handle(behind), "a9").as_deref(), Some("right"));
        cluster.restart(right).await.unwrap();
        repaired(&cluster, wrong).await;
        for n in 0..3 {
            assert_eq!(value(&cluster.handle(n), "a9").as_deref(), Some("right"), "member {n}");
        }
    });
}
