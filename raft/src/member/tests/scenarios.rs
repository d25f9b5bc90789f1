//! Basic behaviour of a cluster, one claim a test.

use super::casts::with_small_logs;
use super::*;
use crate::Runtime;
use crate::transport::Purpose;

#[test]
fn a_single_member_serves_and_keeps_its_writes() {
    simulate(1, async {
        let mut cluster = Cluster::start(1).await;
        cluster.leader().await;
        let handle = cluster.handle(0);
        let first = revision_of(handle.propose(create("a", "1")).await);
        assert!(first.0 >= 2, "0 and 1 are never an object's");
        let second = revision_of(handle.propose(put("a", "2")).await);
        assert!(handle.barrier().await.unwrap() >= second);
        cluster.kill(0).await;
        cluster.restart(0).await.unwrap();
        let handle = cluster.handle(0);
        assert_eq!(value(&handle, "a").as_deref(), Some("2"));
        let collection = handle.state().collection("configmaps");
        let earlier = collection.at(first).unwrap();
        assert_eq!(earlier.get("ns/a").unwrap().revision, first, "the history comes back too");
        cluster.leader().await;
        assert!(revision_of(cluster.handle(0).propose(put("a", "3")).await) > second);
    });
}

#[test]
fn every_member_takes_writes_and_reads_what_others_wrote() {
    simulate(2, async {
        let cluster = Cluster::start(3).await;
        cluster.leader().await;
        for n in 0..3 {
            let revision = revision_of(cluster.handle(n).propose(create(&format!("by{n}"), "x")).await);
            assert!(value(&cluster.handle(n), &format!("by{n}")).is_some(), "a proposer sees its own write");
            for reader in cluster.handles() {
                assert!(reader.barrier().await.unwrap() >= revision);
                assert!(value(&reader, &format!("by{n}")).is_some());
            }
        }
        let at = cluster.handle(0).barrier().await.unwrap();
        let first = cluster.handle(0).digest(at).unwrap();
        for (n, handle) in cluster.handles().into_iter().enumerate() {
            assert!(handle.wait_applied(at, Duration::from_secs(5)).await);
            assert_eq!(handle.digest(at).unwrap(), first);
            assert!(n == 0 || cluster.handle(0).agrees_with(&peer(n), at).await.unwrap());
        }
    });
}

#[test]
fn a_refused_transaction_says_what_stood_in_the_way() {
    simulate(3, async {
        let cluster = Cluster::start(3).await;
        cluster.leader().await;
        for n in 0..3 {
            revision_of(cluster.handle(0).propose(put("same", "1")).await);
            let outcome = cluster.handle(n).propose(create("same", "2")).await.unwrap();
            assert!(
                matches!(outcome, Outcome::Refused { condition: 0, current: Some(_), .. }),
                "{outcome:?}"
            );
        }
    });
}

#[test]
fn writers_on_all_members_at_once_lose_nothing() {
    simulate(4, async {
        let cluster = Cluster::start(3).await;
        cluster.leader().await;
        let writers = (0..300).map(|i| {
            let handle = cluster.handle(i % 3);
            async move { revision_of(handle.propose(create(&format!("o{i}"), "x")).await) }
        });
        let mut revisions = futures::future::join_all(writers).await;
        revisions.sort_unstable();
        revisions.dedup();
        assert_eq!(revisions.len(), 300);
        cluster.handle(1).barrier().await.unwrap();
        assert_eq!(cluster.handle(1).state().collection("configmaps").len(), 300);
    });
}

#[test]
fn a_cut_off_leader_serves_no_barrier_and_the_others_go_on() {
    simulate(5, async {
        let cluster = Cluster::start(3).await;
        let old = cluster.leader().await;
        revision_of(cluster.handle(old).propose(put("a", "old")).await);
        cluster.network.isolate(peer(old).id, (0..3).map(|n| peer(n).id));
        // Asked at once, while the old leader still believes that it leads.
        let stale = cluster.handle(old).barrier().await;
        assert!(stale.is_err(), "{stale:?}");
        let others: Vec<usize> = (0..3).filter(|n| *n != old).collect();
        let new = cluster.leader_among(&others).await;
        let written = revision_of(cluster.handle(new).propose(put("a", "new")).await);
        assert_eq!(value(&cluster.handle(old), "a").as_deref(), Some("old"));
        cluster.network.heal();
        assert!(cluster.handle(old).barrier().await.unwrap() >= written);
        assert_eq!(value(&cluster.handle(old), "a").as_deref(), Some("new"));
    });
}

#[test]
fn writes_under_way_survive_their_leader_and_are_done_once() {
    simulate(6, async {
        let mut cluster = Cluster::start(3).await;
        let old = cluster.leader().await;
        let others: Vec<usize> = (0..3).filter(|n| *n != old).collect();
        let writes: Vec<_> = (0..200)
            .map(|i| {
                let handle = cluster.handle(others[i % 2]);
                SimRuntime::spawn(async move { handle.propose(create(&format!("o{i}"), "x")).await })
            })
            .collect();
        SimRuntime::sleep(Duration::from_millis(3)).await;
        cluster.kill(old).await;
        for write in writes {
            // A write is sent again only if it is certainly not in the log, so that no create conflicts with itself.
            revision_of(write.await.unwrap());
        }
        cluster.handle(others[0]).barrier().await.unwrap();
        assert_eq!(cluster.handle(others[0]).state().collection("configmaps").len(), 200);
    });
}

#[test]
fn without_a_quorum_a_write_is_not_proposed_or_unknown_and_nothing_hangs() {
    simulate(7, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let others: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
        cluster.kill(others[0]).await;
        cluster.kill(others[1]).await;
        let unknown = cluster.handle(leader).propose(put("a", "1")).await;
        assert!(matches!(unknown, Err(ProposeError::Unknown { .. })), "{unknown:?}");
        cluster.kill(leader).await;
        cluster.restart(others[0]).await.unwrap();
        let refused = cluster.handle(others[0]).propose(put("a", "2")).await;
        assert!(matches!(refused, Err(ProposeError::NotProposed { .. })), "{refused:?}");
        assert!(cluster.handle(others[0]).barrier().await.is_err());
    });
}

#[test]
fn all_members_killed_at_once_forget_nothing() {
    simulate(8, async {
        let mut cluster = Cluster::start(3).await;
        cluster.leader().await;
        for i in 0..20 {
            revision_of(cluster.handle(i % 3).propose(create(&format!("o{i}"), "x")).await);
        }
        for n in 0..3 {
            cluster.kill(n).await;
        }
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        cluster.leader().await;
        for handle in cluster.handles() {
            handle.barrier().await.unwrap();
            assert_eq!(handle.state().collection("configmaps").len(), 20);
        }
    });
}

/// A cluster with short logs and one stopped member that needs a snapshot. Returns that member.
async fn with_one_left_behind() -> (Cluster, usize) {
    let mut cluster = with_small_logs(3);
    cluster.start_and_found().await;
    let leader = cluster.leader().await;
    let behind = (leader + 1) % 3;
    revision_of(cluster.handle(leader).propose(put("gone", "x")).await);
    cluster.kill(behind).await;
    let delete = Transaction { operations: vec![Operation::Delete(key("gone"))], ..Transaction::default() };
    revision_of(cluster.handle(leader).propose(delete).await);
    for i in 0..3000 {
        revision_of(cluster.handle(leader).propose(put(&format!("o{}", i % 200), &i.to_string())).await);
    }
    // The log is purged periodically, not with each write.
    SimRuntime::sleep(Duration::from_secs(3)).await;
    (cluster, behind)
}

#[test]
fn a_member_behind_the_log_gets_a_snapshot() {
    simulate(9, async {
        let (mut cluster, behind) = with_one_left_behind().await;
        let attempts = cluster.network.frames(Purpose::Snapshot);
        cluster.restart(behind).await.unwrap();
        let handle = cluster.handle(behind);
        let mut watch = handle.subscribe(&Arc::from("configmaps"));
        let before = handle.state().applied();
        let at = handle.barrier().await.unwrap();
        assert!(cluster.network.frames(Purpose::Snapshot) > attempts + 2);
        assert_eq!(handle.figures().snapshots_installed, 1);
        assert!(watch.changed().await.is_some());
        assert!(value(&handle, "gone").is_none());
        assert!(handle.state().collection("configmaps").changes_after(before).is_err(), "compacted");
        let other = cluster.leader().await;
        let at = at.max(handle.status().oldest);
        assert_eq!(handle.digest(at).unwrap(), cluster.handle(other).digest(at).unwrap());
        // The installed state is on the disk.
        cluster.kill(behind).await;
        cluster.restart(behind).await.unwrap();
        let at = at.max(cluster.handle(behind).barrier().await.unwrap());
        assert_eq!(cluster.handle(behind).digest(at).unwrap(), cluster.handle(other).digest(at).unwrap());
    });
}

#[test]
fn the_stored_state_trails_and_a_restart_replays_the_rest() {
    simulate(10, async {
        let mut cluster = Cluster::new(1);
        cluster.history = HistoryOptions { entries_max: 40, ..HistoryOptions::default() };
        cluster.log = LogOptions { snapshot_every: 100, keep: 10, ..LogOptions::default() };
        cluster.start_and_found().await;
        cluster.leader().await;
        for i in 0..1500 {
            revision_of(cluster.handle(0).propose(put(&format!("o{}", i % 70), &i.to_string())).await);
        }
        let at = cluster.handle(0).barrier().await.unwrap();
        let digest = cluster.handle(0).digest(at).unwrap();
        let status = cluster.handle(0).status();
        assert!(status.oldest.0 + 45 >= at.0 && status.oldest < at, "{status:?}");
        assert!(cluster.disks[0].objects() >= 70);
        cluster.kill(0).await;
        cluster.restart(0).await.unwrap();
        assert_eq!(cluster.handle(0).digest(at).unwrap(), digest);
        assert!(cluster.handle(0).status().oldest < at, "there is history after a restart");
    });
}

#[test]
fn a_purge_that_waits_for_the_stored_state_needs_no_other_append() {
    simulate(13, async {
        let cluster = Cluster::start(1).await;
        cluster.leader().await;
        for i in 0..100 {
            revision_of(cluster.handle(0).propose(put("busy", &i.to_string())).await);
        }
        let handle = cluster.handle(0);
        // By then the member has made its own writes: its registration, the feature level.
        SimRuntime::sleep(Duration::from_secs(20)).await;
        let (applied, trigger) = (handle.status().applied.0, handle.0.raft.trigger());
        trigger.snapshot().await.unwrap();
        let metrics = handle.0.raft.metrics();
        let taken = || metrics.borrow_watched().snapshot.is_some_and(|id| id.index == applied);
        eventually("the library's snapshot", || taken().then_some(())).await;
        assert!(handle.0.applied.stored().0 < applied, "there is nothing to wait for");
        let through = applied - 10;
        trigger.purge_log(through).await.unwrap();
        let first =
            || crate::disk::Disk::log_bounds(&*cluster.disks[0]).unwrap().map_or(0, |(first, _)| first);
        eventually("the log is cut", || (first() > through).then_some(())).await;
        assert_eq!(handle.status().applied.0, applied, "something was appended");
    });
}

#[test]
fn old_history_goes_with_time_alone() {
    simulate(11, async {
        let mut cluster = Cluster::new(1);
        cluster.history = HistoryOptions { age_ms: 60_000, ..HistoryOptions::default() };
        cluster.start_and_found().await;
        cluster.leader().await;
        let written = Transaction { proposed_ms: 1_000_000, ..put("a", "1") };
        let at = revision_of(cluster.handle(0).propose(written).await);
        let oldest = || cluster.handle(0).status().oldest;
        SimRuntime::sleep(Duration::from_secs(40)).await;
        assert!(oldest() < at);
        SimRuntime::sleep(Duration::from_secs(30)).await;
        assert!(oldest() >= at);
    });
}

#[test]
fn members_come_and_go() {
    simulate(12, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let joined = cluster.join().await;
        // Changes are asked of a follower, which forwards them.
        let handle = cluster.handle((leader + 1) % 3);
        handle.add_learner(&peer(joined)).await.unwrap();
        let at = revision_of(handle.propose(put("a", "1")).await);
        assert!(cluster.handle(joined).wait_applied(at, Duration::from_secs(20)).await);
        assert_eq!(cluster.handle(joined).status().role, Role::Learner);
        handle.promote(peer(joined).id).await.unwrap();
        eventually("a vote", || (cluster.handle(joined).status().role == Role::Follower).then_some(())).await;
        handle.transfer_leader(peer(joined).id).await.unwrap();
        eventually("the lead", || cluster.handle(joined).is_leader().then_some(())).await;
        let removed = leader;
        cluster.handle(joined).remove(peer(removed).id).await.unwrap();
        let members = cluster.handle(joined).status().members;
        assert_eq!(members.len(), 3);
        assert!(members.iter().all(|member| member.voter && member.peer != peer(removed)));
        let refused = cluster.handle(joined).promote(node_id("stranger")).await;
        assert!(matches!(refused, Err(ChangeError::Refused { .. })), "{refused:?}");
    });
}

#[test]
fn a_learner_without_the_log_is_not_promoted() {
    simulate(14, async {
        let mut cluster = Cluster::start(3).await;
        let handle = cluster.handle(cluster.leader().await);
        let joined = cluster.join().await;
        cluster.kill(joined).await;
        handle.add_learner(&peer(joined)).await.unwrap();
        let refused = handle.promote(peer(joined).id).await;
        assert!(matches!(refused, Err(ChangeError::Refused { .. })), "{refused:?}");
        assert!(handle.status().members.iter().all(|member| member.peer != peer(joined) || !member.voter));
        cluster.restart(joined).await.unwrap();
        handle.promote(peer(joined).id).await.unwrap();
    });
}

#[test]
fn a_leader_that_shuts_down_hands_over_first() {
    simulate(13, async {
        let mut cluster = Cluster::start(3).await;
        let old = cluster.leader().await;
        let term = cluster.handle(old).status().term;
        let member = cluster.members[old].take().unwrap();
        let handle = member.handle();
        let began = SimInstant::now();
        member.shutdown().await;
        assert!(began.elapsed() < Duration::from_millis(300), "sooner than an election would start");
        cluster.network.unserve(peer(old).id);
        let refused = handle.propose(put("a", "1")).await;
        assert!(matches!(refused, Err(ProposeError::NotProposed { .. })), "{refused:?}");
        let new = cluster.leader().await;
        assert!(cluster.handle(new).status().term > term);
        revision_of(cluster.handle(new).propose(put("a", "2")).await);
    });
}

#[test]
fn the_first_leader_founds_the_cluster_and_every_disk_remembers() {
    simulate(14, async {
        let mut cluster = Cluster::start(3).await;
        for n in 0..3 {
            let identity = eventually("the identity", || cluster.handle(n).cluster()).await;
            assert_eq!((&*identity.cluster, identity.token_key), ("c", [7; 32]));
        }
        SimRuntime::sleep(Duration::from_secs(2)).await;
        cluster.kill(0).await;
        let mut options = cluster.options(0);
        options.expected_cluster = Some("another".into());
        let transport = cluster.network.transport(peer(0).id);
        let wrong = SimMember::start(options, cluster.disks[0].clone(), transport.clone()).await;
        assert!(matches!(wrong.err(), Some(StartError::WrongCluster { .. })));
        let options = cluster.options(1);
        let wrong = SimMember::start(options, cluster.disks[0].clone(), transport).await;
        assert!(matches!(wrong.err(), Some(StartError::WrongNode { .. })));
    });
}

#[test]
fn a_member_that_lost_its_disk_is_refused() {
    simulate(15, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        SimRuntime::sleep(Duration::from_secs(2)).await;
        let wiped = (leader + 1) % 3;
        cluster.kill(wiped).await;
        cluster.disks[wiped] = Arc::default();
        cluster.restart(wiped).await.unwrap();
        let reason = cluster.handle(wiped).fatal().await;
        assert!(reason.contains("has lost its data"), "{reason}");
        revision_of(cluster.handle(leader).propose(put("a", "2")).await);
    });
}

#[test]
fn a_failed_disk_is_fatal() {
    simulate(17, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let handle = cluster.handle((leader + 1) % 3);
        cluster.disks[(leader + 1) % 3].fail();
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        let reason = handle.fatal().await;
        assert!(reason.contains("the disk is gone"), "{reason}");
    });
}

#[test]
fn callers_of_barriers_share_rounds() {
    simulate(18, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let follower = cluster.handle((leader + 1) % 3);
        follower.barrier().await.unwrap();
        SimRuntime::sleep(Duration::from_millis(10)).await;
        let before = cluster.network.frames(Purpose::Control);
        let readers = futures::future::join_all((0..500).map(|_| follower.barrier())).await;
        assert!(readers.iter().all(Result::is_ok));
        let used = cluster.network.frames(Purpose::Control) - before;
        assert!(used < 60, "{used} frames for 500 readers");
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut runtime = SimRuntime::with_seed(seed);
        runtime.record_trace(true);
        let digest = runtime.block_on(async {
            let mut cluster = Cluster::start(3).await;
            let leader = cluster.leader().await;
            let writers = (0..50).map(|i| {
                let handle = cluster.handle(i % 3);
                async move { handle.propose(create(&format!("o{i}"), "x")).await.is_ok() }
            });
            futures::future::join_all(writers).await;
            cluster.kill(leader).await;
            let next = cluster.leader().await;
            let at = cluster.handle(next).barrier().await.unwrap();
            cluster.handle(next).digest(at).unwrap()
        });
        (digest, runtime.take_trace())
    };
    let (first, second) = (run(19), run(19));
    let difference = first.1.iter().zip(&second.1).position(|(a, b)| a != b);
    assert_eq!(difference.map(|at| (&first.1[at], &second.1[at])), None);
    assert_eq!(first.0, second.0);
    assert_ne!(first.1, run(20).1);
}
