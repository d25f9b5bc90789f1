//! Founding of a cluster, and disks that must not found it again: emptied ones and older copies.

use orch_proto::store as wire;

use super::*;
use crate::Runtime;
use crate::member::FoundError;
use crate::member::identity::registered;

/// Longer than any founding, election and registration takes.
const LONG: Duration = Duration::from_secs(20);

fn refusal(founded: Result<(), FoundError>) -> String {
    match founded {
        Err(FoundError::Refused { reason }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

/// Waits until member `at` has applied the registration of start number `starts` of member `n`.
async fn starts_known(cluster: &Cluster, at: usize, n: usize, starts: u64) {
    eventually("a registered start", || {
        let known = registered(&cluster.handle(at).state(), peer(n).id)?;
        (known.starts >= starts).then_some(())
    })
    .await;
}

async fn wipe(cluster: &mut Cluster, n: usize) {
    cluster.kill(n).await;
    cluster.disks[n] = Arc::default();
}

#[test]
fn founders_wait_for_the_one_act_and_for_each_other() {
    simulate(201, async {
        let mut cluster = Cluster::new(3);
        cluster.restart(2).await.unwrap();
        cluster.restart(0).await.unwrap();
        SimRuntime::sleep(LONG).await;
        assert!(cluster.handle(0).status().leader.is_none());
        assert_eq!(refusal(cluster.handle(0).found().await), "n1 does not answer");
        cluster.restart(1).await.unwrap();
        SimRuntime::sleep(LONG).await;
        assert!(cluster.handle(1).status().leader.is_none(), "a refused founding is not made up for");
        cluster.handle(2).found().await.unwrap();
        cluster.leader().await;
        revision_of(cluster.handle(1).propose(put("a", "1")).await);
        // A second founding changes nothing, and restarts with unchanged flags continue the cluster.
        cluster.handle(1).found().await.unwrap();
        for n in 0..3 {
            cluster.kill(n).await;
        }
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        cluster.leader().await;
        cluster.handle(0).barrier().await.unwrap();
        assert_eq!(value(&cluster.handle(0), "a").as_deref(), Some("1"));
    });
}

#[test]
fn a_founding_that_a_disk_refuses_is_not_said_to_be_done() {
    simulate(210, async {
        let mut cluster = Cluster::new(3);
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        let first = (0..3).min_by_key(|n| peer(*n).id).unwrap();
        cluster.disks[first].fail();
        for asked in [(first + 1) % 3, first] {
            let error = cluster.handle(asked).found().await.unwrap_err();
            assert!(matches!(error, FoundError::Unknown { .. }), "{error}");
        }
    });
}

#[test]
fn nobody_founds_without_one_of_the_founders() {
    simulate(202, async {
        let mut cluster = Cluster::new(3);
        let first = (0..3).min_by_key(|n| peer(*n).id).unwrap();
        let missing = (first + 1) % 3;
        cluster.restart(first).await.unwrap();
        cluster.restart((first + 2) % 3).await.unwrap();
        let reason = refusal(cluster.handle(first).found().await);
        assert_eq!(reason, format!("n{missing} does not answer"));
    });
}

#[test]
fn a_founder_that_was_told_of_others_is_not_founded_with() {
    simulate(203, async {
        let mut cluster = Cluster::new(3);
        let first = (0..3).min_by_key(|n| peer(*n).id).unwrap();
        for n in 0..3 {
            cluster.founders = (0..if n == (first + 1) % 3 { 4 } else { 3 }).map(peer).collect();
            cluster.restart(n).await.unwrap();
        }
        let reason = refusal(cluster.handle(first).found().await);
        assert_eq!(reason, format!("n{} was told of other founders", (first + 1) % 3));
    });
}

#[test]
fn a_founder_alone_that_was_emptied_founds_nothing_beside_the_cluster_it_grew_into() {
    simulate(204, async {
        let mut cluster = Cluster::start(1).await;
        cluster.handle(0).wait_cluster().await.unwrap();
        for n in 1..3 {
            let joined = cluster.join().await;
            cluster.handle(0).add_learner(&peer(joined)).await.unwrap();
            starts_known(&cluster, 0, n, 1).await;
            cluster.handle(0).promote(peer(joined).id).await.unwrap();
        }
        revision_of(cluster.handle(0).propose(put("a", "1")).await);
        wipe(&mut cluster, 0).await;
        cluster.leader_among(&[1, 2]).await;
        // With unchanged flags it knows itself as the only founder.
        cluster.restart(0).await.unwrap();
        SimRuntime::sleep(LONG).await;
        assert!(cluster.handle(0).cluster().is_none() && cluster.handle(0).status().leader.is_none());
        assert!(cluster.handle(0).propose(put("b", "2")).await.is_err());
        // An explicit founding is refused, too: members that the emptied disk has forgotten contact it.
        let reason = refusal(cluster.handle(0).found().await);
        assert!(reason.contains("of a running cluster speaks to this one"), "{reason}");
        revision_of(cluster.handle(1).propose(put("a", "2")).await);
    });
}

#[test]
fn an_emptied_founder_and_a_late_one_found_nothing_anew() {
    simulate(205, async {
        let mut cluster = Cluster::new(3);
        let first = (0..3).min_by_key(|n| peer(*n).id).unwrap();
        let (late, down, emptied) = ((first + 1) % 3, (first + 2) % 3, first);
        cluster.start_and_found().await;
        cluster.leader().await;
        revision_of(cluster.handle(down).propose(put("a", "1")).await);
        // As if it had never been started; a real founding needs all founders.
        wipe(&mut cluster, late).await;
        cluster.kill(down).await;
        wipe(&mut cluster, emptied).await;
        cluster.restart(late).await.unwrap();
        cluster.restart(emptied).await.unwrap();
        SimRuntime::sleep(LONG).await;
        for n in [late, emptied] {
            assert!(cluster.handle(n).status().leader.is_none() && cluster.handle(n).cluster().is_none());
        }
        let reason = refusal(cluster.handle(late).found().await);
        assert_eq!(reason, format!("n{down} does not answer"));
        // The founder that still has the cluster makes them stop.
        cluster.restart(down).await.unwrap();
        for n in [late, emptied] {
            let reason = cluster.handle(n).fatal().await;
            assert!(reason.contains("has lost its data"), "{reason}");
        }
    });
}

#[test]
fn a_founder_emptied_right_after_the_founding_is_refused() {
    for seed in 206..216 {
        simulate(seed, async {
            let mut cluster = Cluster::new(3);
            for n in 0..3 {
                cluster.restart(n).await.unwrap();
            }
            let first = (0..3).min_by_key(|n| peer(*n).id).unwrap();
            cluster.handle(first).found().await.unwrap();
            let emptied = (first + 1) % 3;
            wipe(&mut cluster, emptied).await;
            cluster.restart(emptied).await.unwrap();
            let reason = cluster.handle(emptied).fatal().await;
            assert!(reason.contains("has lost its data"), "{reason}");
            let others = [first, (first + 2) % 3];
            let leader = cluster.leader_among(&others).await;
            revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        });
    }
}

#[test]
fn an_older_copy_of_a_disk_is_refused_by_its_count_of_starts() {
    simulate(216, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let (rolled_back, other) = ((leader + 1) % 3, (leader + 2) % 3);
        starts_known(&cluster, other, rolled_back, 1).await;
        cluster.kill(rolled_back).await;
        let copy = Arc::new(cluster.disks[rolled_back].copy());
        cluster.restart(rolled_back).await.unwrap();
        starts_known(&cluster, other, rolled_back, 2).await;
        cluster.kill(rolled_back).await;
        // Restarts clear what members remember beside the state.
        cluster.kill(leader).await;
        cluster.kill(other).await;
        cluster.disks[rolled_back] = copy;
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        let reason = cluster.handle(rolled_back).fatal().await;
        assert!(reason.contains("has an older copy of its data"), "{reason}");
        let leader = cluster.leader_among(&[leader, other]).await;
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
    });
}

#[test]
fn an_older_copy_of_a_disk_is_refused_by_those_it_promised_more() {
    simulate(217, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let rolled_back = (leader + 1) % 3;
        starts_known(&cluster, rolled_back, rolled_back, 1).await;
        SimRuntime::sleep(Duration::from_secs(2)).await;
        // A copy of the running member's disk: no start lies between the copy and the loss.
        let copy = Arc::new(cluster.disks[rolled_back].copy());
        let at = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        assert!(cluster.handle(rolled_back).wait_applied(at, LONG).await);
        cluster.kill(rolled_back).await;
        cluster.disks[rolled_back] = copy;
        cluster.restart(rolled_back).await.unwrap();
        let reason = cluster.handle(rolled_back).fatal().await;
        assert!(reason.contains("has an older copy of its data"), "{reason}");
        revision_of(cluster.handle(leader).propose(put("a", "2")).await);
    });
}

#[test]
fn a_member_is_not_ready_before_its_start_is_registered() {
    simulate(218, async {
        let mut cluster = Cluster::start(3).await;
        cluster.leader().await;
        for n in 0..3 {
            cluster.handle(n).wait_cluster().await.unwrap();
        }
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.restart(0).await.unwrap();
        let alone = SimRuntime::timeout(LONG, cluster.handle(0).wait_cluster()).await;
        assert!(alone.is_err(), "ready without a quorum that knows of this start");
        cluster.restart(1).await.unwrap();
        cluster.handle(0).wait_cluster().await.unwrap();
    });
}

#[test]
fn a_member_that_came_back_answers_one_that_is_added_later() {
    simulate(219, async {
        let mut cluster = Cluster::start(1).await;
        cluster.handle(0).wait_cluster().await.unwrap();
        cluster.kill(0).await;
        cluster.restart(0).await.unwrap();
        cluster.handle(0).wait_cluster().await.unwrap();
        let joined = cluster.join().await;
        cluster.handle(0).add_learner(&peer(joined)).await.unwrap();
        cluster.handle(0).promote(peer(joined).id).await.unwrap();
        let written = cluster.handle(joined).propose(put("a", "1")).await;
        revision_of(written);
    });
}

/// Found by a simulation: at the founding one founder's disk was full, and another's was lost soon after. The third had
/// the founding record, and did not send it.
#[test]
fn a_founder_that_missed_the_founding_is_told_of_it_until_it_has_registered() {
    simulate(331, async {
        let mut cluster = Cluster::new(3);
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        cluster.handle(0).found().await.unwrap();
        let late = peer(2).id;
        let (told, handle) =
            (|answer: wire::IdentityResponse| answer.identity.unwrap().founding, cluster.handle(0));
        let about = wire::IdentityRequest { unconfirmed: true, about: 0 };
        eventually("the cluster's identity", || handle.cluster()).await;
        let is_registered = || registered(&handle.state(), late).is_some_and(|known| known.starts > 0);
        assert!(!is_registered());
        assert!(told(handle.0.answer_identity(late, about).await).is_some());
        eventually("its registration", || is_registered().then_some(())).await;
        assert!(told(handle.0.answer_identity(late, about).await).is_none(), "its state tells more");
        let stranger = crate::member::node_id("stranger");
        assert!(told(handle.0.answer_identity(stranger, about).await).is_none());
    });
}

/// The founding is on the disk and the member is enrolled, but its first entry is not in the log yet: only founders may
/// get its vote.
#[test]
fn a_founder_without_an_entry_lets_in_founders_only() {
    simulate(213, async {
        let mut cluster = Cluster::new(3);
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        let core = cluster.handle(1).0.clone();
        let mut founding = wire::Founding { cluster: "test".to_owned(), ..Default::default() };
        founding.founders = (0..3)
            .map(|n| wire::Founder {
                member: Some(wire::Member {
                    id: peer(n).id.0,
                    name: peer(n).name.to_string(),
                    address: peer(n).address.to_string(),
                }),
                ..Default::default()
            })
            .collect();
        let mut entering = Box::pin(core.enter(founding));
        let mut looks = 0;
        loop {
            let entered = futures::FutureExt::now_or_never(&mut entering);
            let has_entry = core.membership().membership().nodes().next().is_some();
            if core.joining.is_enrolled() && !has_entry {
                looks += 1;
                assert_eq!(core.vouch(peer(8).id).await, None, "a stranger");
                assert!(core.vouch(peer(2).id).await.is_some(), "a founder");
            }
            if let Some(entered) = entered {
                entered.unwrap();
                break;
            }
            SimRuntime::sleep(Duration::from_micros(10)).await;
        }
        assert!(looks > 0);
    });
}
