//! Initial states of clusters that several scenarios share.
//!
//! Owns the way into such a state: an older copy of a disk beside a member that lags, a majority on older disks, a
//! removed member whose address answers with lies. Claims and later events are in the scenarios.

use orch_proto::store as wire;

use super::impostors::Liar;
use super::*;
use crate::Runtime;

/// Waits until every running member knows its cluster and has registered its disk.
pub(super) async fn known_everywhere(cluster: &Cluster) {
    for handle in cluster.handles() {
        handle.wait_cluster().await.unwrap();
    }
}

/// Waits until all running members have applied the same revision, so that none lacks a registration.
pub(super) async fn converge(cluster: &Cluster) {
    eventually("everybody has applied everything", || {
        let applied: Vec<_> = cluster.handles().iter().map(|handle| handle.status().applied).collect();
        applied.iter().all(|at| *at == applied[0]).then_some(())
    })
    .await;
}

/// A copy of the disk of member `n` as it is now.
pub(super) fn copy(cluster: &Cluster, n: usize) -> Arc<MemoryDisk> {
    Arc::new(cluster.disks[n].copy())
}

/// The reason why member `n` stopped itself within `time`; `None` if it still runs.
pub(super) async fn ended(cluster: &Cluster, n: usize, time: Duration) -> Option<String> {
    SimRuntime::timeout(time, cluster.handle(n).fatal()).await.ok()
}

/// Writes the objects `{prefix}0` to `{prefix}{count - 1}` through member `n`.
pub(super) async fn write_many(cluster: &Cluster, n: usize, prefix: &str, count: usize) {
    for i in 0..count {
        revision_of(cluster.handle(n).propose(put(&format!("{prefix}{i}"), "1")).await);
    }
}

/// Starts a new member, and makes it a voter through `leader`.
pub(super) async fn join_as_voter(cluster: &mut Cluster, leader: usize) -> usize {
    let joined = cluster.join().await;
    cluster.handle(leader).add_learner(&peer(joined)).await.unwrap();
    cluster.handle(leader).promote(peer(joined).id).await.unwrap();
    joined
}

/// A cluster, not started, with short logs: a member that lags needs a snapshot.
pub(super) fn with_small_logs(size: usize) -> Cluster {
    let mut cluster = Cluster::new(size);
    cluster.log = LogOptions { snapshot_every: 50, keep: 30, ..LogOptions::default() };
    cluster.history = HistoryOptions { entries_max: 20, ..HistoryOptions::default() };
    cluster
}

/// Three stopped members that have acknowledged the write `acknowledged`, which only `gone` still has.
pub(super) struct OlderCopy {
    pub(super) cluster: Cluster,
    /// Stopped before the write.
    pub(super) late: usize,
    /// Has the write; stopped.
    pub(super) gone: usize,
    /// Had the write. Its disk was replaced by the copy from before its last start.
    pub(super) rolled_back: usize,
}

/// Brings three members into the state of [`OlderCopy`]. All of them know the last start of the member that is rolled
/// back. The copy's log is as long as the late member's: the log written since that start is missing.
pub(super) async fn older_copy_and_late_member() -> OlderCopy {
    let mut cluster = Cluster::start(3).await;
    cluster.leader().await;
    known_everywhere(&cluster).await;
    let (late, gone, rolled_back) = (0, 1, 2);
    let older = copy(&cluster, rolled_back);
    cluster.kill(rolled_back).await;
    cluster.restart(rolled_back).await.unwrap();
    known_everywhere(&cluster).await;
    converge(&cluster).await;
    cluster.kill(late).await;
    let leader = cluster.leader_among(&[gone, rolled_back]).await;
    revision_of(cluster.handle(leader).propose(put("acknowledged", "1")).await);
    cluster.kill(gone).await;
    cluster.kill(rolled_back).await;
    cluster.disks[rolled_back] = older;
    OlderCopy { cluster, late, gone, rolled_back }
}

/// A cluster of three that grew from its only founder, member 0, and holds the object `a`. Also a copy of the founder's
/// disk from before the others joined.
pub(super) async fn grown_from_one() -> (Cluster, Arc<MemoryDisk>) {
    let mut cluster = Cluster::start(1).await;
    cluster.handle(0).wait_cluster().await.unwrap();
    cluster.kill(0).await;
    let alone = copy(&cluster, 0);
    cluster.restart(0).await.unwrap();
    cluster.leader().await;
    for _ in 0..2 {
        let joined = join_as_voter(&mut cluster, 0).await;
        cluster.handle(joined).wait_cluster().await.unwrap();
    }
    revision_of(cluster.handle(0).propose(put("a", "1")).await);
    (cluster, alone)
}

/// Makes a majority of three members lose the objects `a0` to `a{lost - 1}`, which one member keeps, and write `b0` to
/// `b{written - 1}` instead. Returns the member that keeps them, which is stopped.
pub(super) async fn majority_loses(cluster: &mut Cluster, lost: usize, written: usize) -> usize {
    let leader = cluster.leader().await;
    known_everywhere(cluster).await;
    let (right, late) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.kill(late).await;
    let older = copy(cluster, leader);
    write_many(cluster, leader, "a", lost).await;
    let end = cluster.handle(leader).state().applied();
    assert!(cluster.handle(right).wait_applied(end, Duration::from_secs(60)).await);
    for n in [leader, right] {
        cluster.kill(n).await;
    }
    cluster.disks[leader] = older;
    cluster.restart(leader).await.unwrap();
    cluster.restart(late).await.unwrap();
    let now = cluster.leader_among(&[leader, late]).await;
    write_many(cluster, now, "b", written).await;
    right
}

/// Role of the removed member before its removal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seat {
    Voter,
    Learner,
}

/// Members of a cluster of three founders from which a fourth member was removed; its address is answered by a
/// [`Liar`].
pub(super) struct Roles {
    pub(super) leader: usize,
    pub(super) follower: usize,
    /// Stopped before the removal.
    pub(super) away: usize,
    /// Removed, and served by a [`Liar`].
    pub(super) liar: usize,
}

/// A cluster of three in the state that [`put_liar`] leaves.
pub(super) async fn with_liar(lie: wire::IdentityResponse, seat: Seat) -> (Cluster, Roles) {
    let mut cluster = Cluster::new(3);
    let roles = put_liar(&mut cluster, lie, seat).await;
    (cluster, roles)
}

/// Starts `cluster`, of three founders, adds a fourth member with the role `seat`, and removes it while a founder is
/// stopped. The removed member's address answers with `lie`; the cluster holds the object `acknowledged`.
pub(super) async fn put_liar(cluster: &mut Cluster, lie: wire::IdentityResponse, seat: Seat) -> Roles {
    cluster.start_and_found().await;
    known_everywhere(cluster).await;
    let away = 2;
    let leader = cluster.leader().await;
    let liar = cluster.join().await;
    cluster.handle(leader).add_learner(&peer(liar)).await.unwrap();
    known_everywhere(cluster).await;
    let rest = match seat {
        Seat::Voter => {
            cluster.handle(leader).promote(peer(liar).id).await.unwrap();
            vec![0, 1, liar]
        }
        Seat::Learner => vec![0, 1],
    };
    converge(cluster).await;
    cluster.kill(away).await;
    let mut leader = cluster.leader_among(&rest).await;
    if leader == liar {
        cluster.handle(liar).transfer_leader(peer(0).id).await.unwrap();
        leader = eventually("the lead", || cluster.handle(0).is_leader().then_some(0)).await;
    }
    cluster.handle(leader).remove(peer(liar).id).await.unwrap();
    revision_of(cluster.handle(leader).propose(put("acknowledged", "1")).await);
    cluster.kill(liar).await;
    cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
    Roles { leader, follower: 1 - leader, away, liar }
}
