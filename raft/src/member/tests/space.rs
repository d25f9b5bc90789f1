//! A member whose disk runs full makes all members refuse writes that grow the state, and no others.

use super::*;

fn delete(name: &str) -> Transaction {
    let condition = Condition::Exists(key(name));
    Transaction {
        proposed_ms: 1,
        conditions: vec![condition],
        operations: vec![Operation::Delete(key(name))],
    }
}

async fn cluster_with_room() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.history = HistoryOptions { entries_max: 20, bytes_max: 4096, ..HistoryOptions::default() };
    cluster.log = LogOptions { snapshot_every: 400, keep: 480, bytes_max: 1 << 20 };
    cluster.disks.iter().for_each(|disk| disk.leave(10 * RESERVE_BYTES));
    cluster.start_and_found().await;
    cluster.leader().await;
    cluster
}

/// Waits until every member refuses growth, or, with `false`, none does.
async fn short(cluster: &Cluster, is_short: bool) {
    eventually("everybody knows of the room on disks", || {
        cluster.handles().iter().all(|handle| handle.is_short_of_space() == is_short).then_some(())
    })
    .await;
}

#[test]
fn a_full_disk_stops_growth_everywhere_and_nobody_from_making_room() {
    simulate(31, async {
        let cluster = cluster_with_room().await;
        for i in 0..4 {
            revision_of(cluster.handle(0).propose(create(&format!("a{i}"), "value")).await);
        }
        let victim = (cluster.leader().await + 1) % 3;
        cluster.disks[victim].leave(RESERVE_BYTES - 1);
        short(&cluster, true).await;
        let before = cluster.handle(victim).status().last_log;
        for (n, handle) in cluster.handles().into_iter().enumerate() {
            let refused = handle.propose(create("b", "value")).await.unwrap_err();
            assert_eq!(refused, ProposeError::NoSpace { members: peer(victim).name.to_string() });
            let grows = handle.propose(put("a0", "a longer value")).await;
            assert!(matches!(grows, Err(ProposeError::NoSpace { .. })), "{grows:?}");
            revision_of(handle.propose(put("a0", "other")).await);
            revision_of(handle.propose(delete(&format!("a{}", n + 1))).await);
            assert_eq!(handle.status().space.short, [peer(victim).id].into());
        }
        let appended = cluster.handle(cluster.leader().await).status().last_log - before;
        assert_eq!(appended, 6, "what is refused takes no room in the log");
        assert!(cluster.disks[victim].reclaimed() > 0);

        cluster.disks[victim].leave(10 * RESERVE_BYTES);
        short(&cluster, false).await;
        revision_of(cluster.handle(victim).propose(create("b", "value")).await);
    });
}

#[test]
fn a_dead_member_does_not_keep_growth_out_for_ever() {
    simulate(32, async {
        let mut cluster = cluster_with_room().await;
        let victim = (cluster.leader().await + 1) % 3;
        cluster.disks[victim].leave(0);
        short(&cluster, true).await;
        cluster.kill(victim).await;
        short(&cluster, false).await;
        let leader = cluster.leader().await;
        revision_of(cluster.handle(leader).propose(create("b", "value")).await);
    });
}

#[test]
fn a_tight_disk_gives_up_history_and_log_and_refuses_nothing() {
    simulate(33, async {
        let cluster = cluster_with_room().await;
        for i in 0..300 {
            revision_of(cluster.handle(0).propose(put("busy", &format!("{i:05}"))).await);
        }
        let history = |n: usize| cluster.disks[n].history().unwrap().len();
        let log =
            |n: usize| cluster.disks[n].log_bounds().unwrap().map_or(0, |(first, last)| last - first + 1);
        assert!((0..3).all(|n| history(n) > 0 && log(n) > 300), "no history to give up");
        cluster.disks[0].leave(RESERVE_BYTES + 1);
        eventually("history and log leave the disk", || (history(0) == 0 && log(0) < 60).then_some(())).await;
        assert_eq!(cluster.handle(0).status().space.pressure, Pressure::Tight);
        assert!(history(1) > 0 && log(1) > 300, "the others have room");
        revision_of(cluster.handle(0).propose(create("b", "value")).await);
    });
}
