//! Reads of a leader that is the only member, which needs no quorum round, and of a deposed leader.

use super::*;
use crate::Runtime;
use crate::transport::Purpose;

/// Adds `n`, makes it a voter, and writes through it meanwhile: reads that the first member serves alone must include
/// every acknowledged write.
async fn grow_while_writing(cluster: &Cluster, n: usize, writes: &mut u64) {
    let (first, grown) = (cluster.handle(0), cluster.handle(n));
    first.add_learner(&peer(n)).await.unwrap();
    let name = format!("by{n}");
    let mut promoted = Box::pin(first.promote(peer(n).id));
    loop {
        let written = revision_of(grown.propose(put(&name, "x")).await);
        *writes += 1;
        assert!(first.0.read_alone().is_none_or(|alone| alone >= written));
        if let Some(done) = futures::FutureExt::now_or_never(&mut promoted) {
            return done.unwrap();
        }
    }
}

#[test]
fn the_only_voter_asks_nobody_until_there_are_others() {
    simulate(301, async {
        let mut cluster = Cluster::start(1).await;
        cluster.leader().await;
        let first = cluster.handle(0);
        let written = revision_of(first.propose(create("a", "1")).await);
        assert!(first.barrier().await.unwrap() >= written);
        assert!(first.0.read_alone().is_some_and(|alone| alone >= written));
        let mut writes = 0;
        for _ in 0..2 {
            let n = cluster.join().await;
            grow_while_writing(&cluster, n, &mut writes).await;
            assert_eq!(first.0.read_alone(), None, "there is another voter");
        }
        assert!(writes > 10, "only {writes} writes while the cluster grew");

        // The others elect a leader without member 0, which must not serve reads from its state.
        cluster.network.isolate(peer(0).id, [peer(1).id, peer(2).id].into_iter());
        let leader = cluster.leader_among(&[1, 2]).await;
        revision_of(cluster.handle(leader).propose(put("a", "2")).await);
        assert_eq!(first.0.read_alone(), None);
        assert!(first.barrier().await.is_err());
    });
}

#[test]
fn writes_acknowledged_before_a_restart_are_in_the_first_read_after_it() {
    simulate(302, async {
        let mut cluster = Cluster::start(1).await;
        for i in 0..20 {
            cluster.leader().await;
            let written = revision_of(cluster.handle(0).propose(put("a", &i.to_string())).await);
            assert!(cluster.handle(0).barrier().await.unwrap() >= written);
            cluster.kill(0).await;
            cluster.restart(0).await.unwrap();
            let handle = cluster.handle(0);
            assert_eq!(handle.0.read_alone(), None, "nobody has read in this term");
            assert!(handle.barrier().await.unwrap() >= written);
            assert_eq!(value(&handle, "a"), Some(i.to_string()));
            assert!(handle.0.read_alone().is_some_and(|alone| alone >= written));
        }
    });
}

#[test]
fn a_cluster_that_shrank_to_one_reads_alone_again() {
    simulate(303, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let handle = cluster.handle(leader);
        for n in (0..3).filter(|n| *n != leader) {
            let known = || crate::member::identity::registered(&handle.state(), peer(n).id);
            eventually("a registered disk", known).await;
            handle.remove(peer(n).id).await.unwrap();
        }
        let written = revision_of(handle.propose(create("a", "1")).await);
        assert!(handle.barrier().await.unwrap() >= written);
        assert!(handle.0.read_alone().is_some_and(|alone| alone >= written));
    });
}

/// A leader that is cut off does not learn of a new leader or of removals.
#[test]
fn a_leader_that_nobody_follows_is_in_touch_with_nobody() {
    simulate(304, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let handle = cluster.handle(leader);
        assert!(handle.0.is_in_touch());
        SimRuntime::sleep(Duration::from_secs(30)).await;
        assert!(handle.0.is_in_touch(), "its heartbeats are answered");
        let others: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
        cluster.network.isolate(peer(leader).id, others.iter().map(|n| peer(*n).id));
        cluster.leader_among(&others).await;
        SimRuntime::sleep(Duration::from_secs(3)).await;
        assert!(!handle.0.is_in_touch());

        let mut alone = Cluster::start(1).await;
        alone.leader().await;
        SimRuntime::sleep(Duration::from_secs(30)).await;
        assert!(alone.handle(0).0.is_in_touch(), "the only voter follows itself");
        alone.kill(0).await;
        cluster.kill(leader).await;
    });
}

/// Entries are acknowledged on separate streams, and an acknowledgement may be late. Only an answer to this round's
/// request proves that a voter follows now.
#[test]
fn acknowledgements_of_entries_confirm_no_read() {
    simulate(305, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let handle = cluster.handle(leader);
        handle.barrier().await.unwrap();
        let leave_no_calls = |refuse| {
            for n in (0..3).filter(|n| *n != leader) {
                cluster.network.refuse(Purpose::Control, peer(n).id, refuse);
            }
        };
        leave_no_calls(true);
        let mut written = 0;
        let writing = async {
            loop {
                revision_of(handle.propose(put("a", "1")).await);
                written += 1;
            }
        };
        let read = SimRuntime::select2(Box::pin(handle.barrier()), Box::pin(writing));
        // Shorter than an election timeout.
        let read = SimRuntime::timeout(Duration::from_millis(100), read).await;
        assert!(read.is_err(), "nobody was asked");
        leave_no_calls(false);
        assert!(written > 5, "{written} writes were acknowledged meanwhile");
        handle.barrier().await.unwrap();
    });
}
