//! Transfers of snapshots that break and resume, under writes.

use prost::Message;

use super::casts::with_small_logs;
use super::*;
use crate::transport::Purpose;

/// Objects of the state, and bytes of each: together six frames of a snapshot.
const OBJECTS: usize = 60;
const OBJECT_BYTES: usize = 100_000;

/// Lower bound of the bytes of a snapshot.
const STATE_BYTES: u64 = (OBJECTS * OBJECT_BYTES) as u64;

/// Upper bound of the bytes of a frame.
const FRAME_BYTES: u64 = 1_200_000;

/// A cluster with one stopped member that needs a snapshot, since the others' logs were cut past its end. Returns that
/// member.
async fn with_one_left_behind() -> (Cluster, usize) {
    let mut cluster = with_small_logs(3);
    cluster.start_and_found().await;
    let behind = (cluster.leader().await + 1) % 3;
    cluster.kill(behind).await;
    let leader = cluster.leader().await;
    for i in 0..OBJECTS {
        let large = put(&format!("large{i}"), &"x".repeat(OBJECT_BYTES));
        revision_of(cluster.handle(leader).propose(large).await);
    }
    for i in 0..500 {
        revision_of(cluster.handle(leader).propose(put("busy", &i.to_string())).await);
    }
    SimRuntime::sleep(Duration::from_secs(3)).await;
    let (first, _) = crate::disk::Disk::log_bounds(&*cluster.disks[leader]).unwrap().unwrap();
    assert!(first > OBJECTS as u64, "the log still holds everything");
    (cluster, behind)
}

/// Starts the member that is behind, and writes until it has applied all earlier writes; checks that it has the
/// leader's state.
async fn catch_up(cluster: &mut Cluster, behind: usize) {
    let leader = cluster.leader().await;
    let wanted = cluster.handle(leader).status().applied;
    cluster.restart(behind).await.unwrap();
    let mut written = 0;
    while cluster.handle(behind).status().applied < wanted {
        revision_of(cluster.handle(leader).propose(put("busy", &format!("again {written}"))).await);
        written += 1;
        assert!(written < 100_000, "it never catches up");
    }
    let at = cluster.handle(behind).barrier().await.unwrap();
    let at = at.max(cluster.handle(behind).status().oldest);
    assert_eq!(cluster.handle(behind).digest(at).unwrap(), cluster.handle(leader).digest(at).unwrap());
}

#[test]
fn a_snapshot_whose_stream_breaks_goes_on_where_it_stopped() {
    simulate(41, async {
        let (mut cluster, behind) = with_one_left_behind().await;
        // The head and three frames of objects, then two more, then the rest.
        cluster.network.break_after(Purpose::Snapshot, [4, 3]);
        catch_up(&mut cluster, behind).await;
        assert_eq!(cluster.network.streams(Purpose::Snapshot), 3);
        let sent = cluster.network.bytes(Purpose::Snapshot);
        // The frame that breaks a stream was sent, but not delivered.
        assert!((STATE_BYTES..STATE_BYTES + 3 * FRAME_BYTES).contains(&sent), "{sent} bytes were sent");
        // The installed state is on the disk.
        cluster.kill(behind).await;
        catch_up(&mut cluster, behind).await;
        assert_eq!(cluster.network.streams(Purpose::Snapshot), 3);
    });
}

#[test]
fn a_snapshot_of_which_only_the_end_was_lost_is_not_sent_again() {
    simulate(44, async {
        let (mut cluster, behind) = with_one_left_behind().await;
        // The head and all six frames of objects.
        cluster.network.break_after(Purpose::Snapshot, [7]);
        catch_up(&mut cluster, behind).await;
        assert_eq!(cluster.network.streams(Purpose::Snapshot), 2);
        let sent = cluster.network.bytes(Purpose::Snapshot);
        assert!((STATE_BYTES..STATE_BYTES + FRAME_BYTES).contains(&sent), "{sent} bytes were sent");
    });
}

/// Installs the state of `from` on the disk of `to` as a power failure right after leaves it: the log and its purge
/// marker are older, here gone.
fn install_and_lose_log(cluster: &Cluster, from: usize, to: usize) {
    let (state, mark) = cluster.handle(from).0.applied.now();
    let mut install = crate::disk::Disk::begin_install(&*cluster.disks[to]).unwrap();
    for (resource, collection) in state.collections() {
        for (path, object) in collection.range_from("") {
            let record = crate::encoding::object_to_wire(object).encode_to_vec();
            let (resource, path) = ((&**resource).into(), (&**path).into());
            let write = crate::disk::StateWrite { resource, path, record: Some(Bytes::from(record)) };
            install.put(vec![write]).unwrap();
        }
    }
    install.commit(mark.encode(), Box::new(|installed| assert!(installed.is_ok())));
    cluster.disks[to].lose_log();
}

#[test]
fn a_disk_whose_log_ends_before_its_state_is_no_older_copy() {
    simulate(45, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let away = (leader + 1) % 3;
        cluster.handle(away).wait_cluster().await.unwrap();
        revision_of(cluster.handle(away).propose(put("a", "1")).await);
        SimRuntime::sleep(Duration::from_secs(1)).await;
        cluster.kill(away).await;
        revision_of(cluster.handle(leader).propose(put("a", "2")).await);
        install_and_lose_log(&cluster, leader, away);
        cluster.restart(away).await.unwrap();
        let at = revision_of(cluster.handle(leader).propose(put("a", "3")).await);
        let caught_up = cluster.handle(away).wait_applied(at, Duration::from_secs(30)).await;
        let reason = futures::FutureExt::now_or_never(cluster.handle(away).fatal());
        assert!(caught_up, "{reason:?}");
        assert_eq!(value(&cluster.handle(away), "a").as_deref(), Some("3"));
    });
}

#[test]
fn a_receiver_that_lost_its_part_gets_the_whole() {
    simulate(42, async {
        let (mut cluster, behind) = with_one_left_behind().await;
        cluster.network.break_after(Purpose::Snapshot, [4]);
        cluster.restart(behind).await.unwrap();
        eventually("the stream breaks", || {
            (cluster.network.bytes(Purpose::Snapshot) > 4_000_000).then_some(())
        })
        .await;
        cluster.kill(behind).await;
        let before = cluster.network.bytes(Purpose::Snapshot);
        catch_up(&mut cluster, behind).await;
        assert!(cluster.network.bytes(Purpose::Snapshot) - before >= STATE_BYTES);
    });
}

#[test]
fn a_part_that_nobody_completes_is_given_up() {
    simulate(43, async {
        let (mut cluster, behind) = with_one_left_behind().await;
        cluster.network.break_after(Purpose::Snapshot, [4]);
        cluster.restart(behind).await.unwrap();
        let kept = |cluster: &Cluster| {
            let handle = cluster.handle(behind);
            handle.0.installing.try_lock().is_ok_and(|partial| partial.is_some())
        };
        eventually("the stream breaks", || kept(&cluster).then_some(())).await;
        let others = (0..3).filter(|n| *n != behind).map(|n| peer(n).id);
        cluster.network.isolate(peer(behind).id, others);
        SimRuntime::sleep(Duration::from_secs(60)).await;
        assert!(!kept(&cluster), "a minute after");
        cluster.network.heal();
        eventually("it catches up", || {
            let applied: Vec<_> = cluster.handles().iter().map(|handle| handle.status().applied).collect();
            applied.iter().all(|at| *at == applied[0]).then_some(())
        })
        .await;
    });
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_taken_when_there_is_room() {
    simulate(88, async {
        let (mut cluster, behind) = with_one_left_behind().await;
        cluster.disks.iter().for_each(|disk| disk.leave(10 * RESERVE_BYTES));
        cluster.disks[behind].leave(RESERVE_BYTES / 4);
        cluster.restart(behind).await.unwrap();
        let handle = cluster.handle(behind);
        let before = handle.status().applied;
        let ended = SimRuntime::timeout(Duration::from_secs(30), handle.fatal()).await;
        assert!(ended.is_err(), "it ends: {ended:?}");
        assert_eq!(handle.status().applied, before, "nothing was installed");
        cluster.kill(behind).await;
        cluster.disks[behind].leave(10 * RESERVE_BYTES);
        eventually("growth is let in again", || {
            cluster.handles().iter().all(|handle| !handle.is_short_of_space()).then_some(())
        })
        .await;
        catch_up(&mut cluster, behind).await;
    });
}
