//! Time to a new leader after the death of the old one; a living leader is not replaced.

use tokio::sync::mpsc;

use super::*;
use crate::Runtime;
use crate::transport::{Duplex, Purpose};

/// Longest time to a new leader after the process of the old one died: some round trips of 2 ms, the followers'
/// staggered elections and a pause between rounds.
const NOTICED_MAX: Duration = Duration::from_millis(250);

async fn replaced_after(cluster: &Cluster, old: usize) -> Duration {
    let start = SimInstant::now();
    let others: Vec<usize> = (0..cluster.members.len()).filter(|n| *n != old).collect();
    let term = cluster.handle(others[0]).status().term;
    eventually("another leader", || {
        let mut status = others.iter().map(|n| cluster.handle(*n).status());
        status.any(|status| status.term > term && status.role == Role::Leader).then_some(())
    })
    .await;
    SimInstant::now().saturating_duration_since(start)
}

#[test]
fn a_killed_leader_is_replaced_before_its_lease_ends() {
    for seed in 400..420 {
        for size in [3, 5] {
            let took = simulate(seed, async {
                let mut cluster = Cluster::start(size).await;
                let leader = cluster.leader().await;
                revision_of(cluster.handle(leader).propose(create("a", "x")).await);
                SimRuntime::sleep(Duration::from_millis(200)).await;
                cluster.kill(leader).await;
                replaced_after(&cluster, leader).await
            });
            assert!(took < NOTICED_MAX, "seed {seed}, {size} members: {took:?}");
        }
    }
}

#[test]
fn a_leader_that_is_cut_off_keeps_its_lease() {
    simulate(430, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        revision_of(cluster.handle(leader).propose(create("a", "x")).await);
        SimRuntime::sleep(Duration::from_millis(200)).await;
        cluster.network.isolate(peer(leader).id, (0..3).map(|n| peer(n).id));
        let took = replaced_after(&cluster, leader).await;
        // The lease is the longest election timeout; the shortest follows it.
        assert!(took > Duration::from_millis(800), "{took:?}");
    });
}

#[test]
fn a_stream_that_ends_while_the_leader_lives_changes_nothing() {
    simulate(431, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        revision_of(cluster.handle(leader).propose(create("a", "x")).await);
        let term = cluster.handle(leader).status().term;
        for n in (0..3).filter(|n| *n != leader) {
            let service = cluster.members[n].as_ref().unwrap().service();
            for from in 0..3 {
                let (sender, _answers) = mpsc::channel(1);
                let (ended, receiver) = mpsc::channel(1);
                drop(ended);
                service.stream(peer(from).id, Purpose::Append, Duplex { sender, receiver }).await;
            }
        }
        SimRuntime::sleep(Duration::from_secs(3)).await;
        for handle in cluster.handles() {
            assert_eq!(handle.status().term, term);
        }
        assert!(cluster.handle(leader).is_leader());
    });
}
