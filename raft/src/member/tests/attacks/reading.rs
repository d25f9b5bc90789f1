//! Reads of leaders that are about to be deposed, or that have applied less than other members.

use super::*;

/// Delays applying on `n` by `time`, as a slow disk or processor does.
async fn hold_up_applying(cluster: &Cluster, n: usize, time: Duration) {
    let handle = cluster.handle(n);
    let held = handle
        .0
        .raft
        .external_state_machine_request(move |_| async move { SimRuntime::sleep(time).await }.boxed());
    held.await.unwrap();
}

// Before: the only voter served reads from its own applied state. A learner had applied, and acknowledged, more.
#[test]
fn the_only_voter_reads_what_a_learner_has_acknowledged() {
    simulate(1060, async {
        let mut cluster = Cluster::start(1).await;
        cluster.leader().await;
        let first = cluster.handle(0);
        first.barrier().await.unwrap();
        let learner = cluster.join().await;
        first.add_learner(&peer(learner)).await.unwrap();
        known_everywhere(&cluster).await;
        converge(&cluster).await;
        first.barrier().await.unwrap();
        hold_up_applying(&cluster, 0, Duration::from_millis(500)).await;
        let written = revision_of(cluster.handle(learner).propose(put("a", "1")).await);
        let read = first.barrier().await.unwrap();
        assert!(read >= written, "{written} was acknowledged, {read} is read");
        assert_eq!(value(&first, "a").as_deref(), Some("1"));
    });
}

// Before: a leader that hands over takes no writes and sends no heartbeats, so that another leader is elected if its
// successor fails. But its quorum rounds for reads were heartbeats: under reads, no leader was elected.
#[test]
fn reads_do_not_keep_a_leader_that_has_handed_over_in_vain() {
    simulate(1061, async {
        let cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let leader = cluster.leader().await;
        let heir = (leader + 1) % 3;
        let reading: Vec<_> = (0..3)
            .map(|n| {
                let handle = cluster.handle(n);
                SimRuntime::spawn(async move {
                    for _ in 0..20 {
                        let until = SimInstant::now() + Duration::from_secs(1);
                        while SimInstant::now() < until {
                            drop(handle.barrier().await);
                            SimRuntime::sleep(Duration::from_millis(20)).await;
                        }
                    }
                })
            })
            .collect();
        // The successor does not get the transfer message.
        cluster.network.isolate(peer(heir).id, [peer(leader).id].into_iter());
        cluster.handle(leader).0.transfer_leader(peer(heir).id).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(1)).await;
        cluster.network.heal();
        let started = SimInstant::now();
        loop {
            let written = cluster.handle(leader).propose(put("a", "1")).await;
            if written.is_ok() {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(15), "{written:?}");
        }
        for reader in reading {
            reader.await.unwrap();
        }
    });
}

// Before: a leader that has handed over takes no writes until another leads, but still counts as leader. The other
// living member did not stand for election, being quarantined while there was a leader.
#[test]
fn a_leader_that_has_handed_over_in_vain_leads_again() {
    simulate(1063, async {
        let mut cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let leader = cluster.leader().await;
        let (heir, wrong) = ((leader + 1) % 3, (leader + 2) % 3);
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        converge(&cluster).await;
        (0..3).for_each(|n| cluster.network.refuse(Purpose::Snapshot, peer(n).id, true));
        cluster.handle(wrong).0.applied.damage(&key("a fault"));
        eventually("it is quarantined", || cluster.handle(wrong).may_serve().err()).await;
        assert!(cluster.handle(leader).is_leader());
        // As if the successor had answered that it may lead, and died.
        cluster.kill(heir).await;
        cluster.handle(leader).0.transfer_leader(peer(heir).id).await.unwrap();
        let started = SimInstant::now();
        while let Err(error) = cluster.handle(leader).propose(put("a", "2")).await {
            assert!(started.elapsed() < Duration::from_secs(60), "{error:?}");
        }
    });
}
