//! Reads of leaders that are about to be none, or that are behind what others show.

use super::*;

/// Keeps `n` from applying anything for `time`: its disk or its processor is slow.
async fn hold_up_applying(cluster: &Cluster, n: usize, time: Duration) {
    let handle = cluster.handle(n);
    let held = handle
        .0
        .raft
        .external_state_machine_request(move |_| async move { SimRuntime::sleep(time).await }.boxed());
    held.await.unwrap();
}

// Before: the only voter took what it had applied itself for all that anybody was told. A learner had applied more.
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

// Before: a leader that hands over takes no writes any more, and sends no heartbeats, so that another is elected where its
// successor does not take over. But its questions for reads were heartbeats: while somebody read, nobody was elected.
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
        // The heir does not get the message.
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

// Before: a leader that has handed over takes no writes until another one leads, and it leads on for whoever asks. The other one
// that lived did not stand for election, as it was quarantined and somebody led.
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
        // It answers that it may lead, and dies.
        cluster.kill(heir).await;
        cluster.handle(leader).0.transfer_leader(peer(heir).id).await.unwrap();
        let started = SimInstant::now();
        while let Err(error) = cluster.handle(leader).propose(put("a", "2")).await {
            assert!(started.elapsed() < Duration::from_secs(60), "{error:?}");
        }
    });
}
