//! The disk keeps its promises, and only those.

use std::sync::atomic::{AtomicU64, Ordering};

use openraft_rt::AsyncRuntime;
use orch_raft::disk::{Disk, LogRecord, OnDurable, StateBatch, StateWrite, StateWritten};

use super::*;
use crate::sim::runtime::NodeRuntime;

fn record(index: u64) -> LogRecord {
    LogRecord { index, bytes: Bytes::from(format!("entry {index}")) }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn object(path: &str, record: Option<&'static str>) -> StateWrite {
    StateWrite { resource: "things".into(), path: path.into(), record: record.map(bytes) }
}

/// A callback that counts, and its count.
fn counted() -> (OnDurable, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let inner = count.clone();
    (Box::new(move |result| _ = result.map(|()| inner.fetch_add(1, Ordering::Relaxed))), count)
}

fn ignored() -> OnDurable {
    Box::new(|_| ())
}

/// Writes one batch to the current state and waits for it.
async fn write_state(handle: &DiskHandle, writes: Vec<StateWrite>, mark: &'static str) -> StateWritten {
    let generation = handle.generation().unwrap();
    let batch = StateBatch { generation, writes, mark: Some(bytes(mark)), ..StateBatch::default() };
    let (done, written) = tokio::sync::oneshot::channel();
    handle.write_state(batch, Box::new(move |result| drop(done.send(result))));
    written.await.unwrap().unwrap()
}

async fn settle() {
    NodeRuntime::sleep(Duration::from_millis(50)).await;
}

fn in_simulation<F: Future<Output = ()>>(seed: u64, body: impl FnOnce(SimDisk) -> F) {
    let disk = SimDisk::new(Dice::new(seed, "disk"));
    NodeRuntime::with_seed(seed).block_on(body(disk));
}

#[test]
fn synced_entries_survive_and_unsynced_ones_leave_a_prefix() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut kept = 0;
        in_simulation(seed, |disk| {
            let kept = &mut kept;
            async move {
                let handle = disk.open();
                let (told, count) = counted();
                handle.append(vec![record(1), record(2)], told).unwrap();
                settle().await;
                assert_eq!(count.load(Ordering::Relaxed), 1);
                let (told, count) = counted();
                handle.append(vec![record(3), record(4)], told).unwrap();
                handle.append(vec![record(5)], ignored()).unwrap();
                assert_eq!(handle.log_bounds().unwrap(), Some((1, 5)), "readable at once");
                disk.crash();
                settle().await;
                assert_eq!(count.load(Ordering::Relaxed), 0, "never told");
                let log = disk.open().read_log(1, 100, usize::MAX).unwrap();
                *kept = log.len();
                assert_eq!(log, (1..=*kept as u64).map(record).collect::<Vec<_>>());
                assert!(*kept >= 2);
            }
        });
        lengths.insert(kept);
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5], "every tear happens");
}

#[test]
fn a_handle_from_before_the_crash_is_void() {
    in_simulation(3, |disk| async move {
        let handle = disk.open();
        disk.crash();
        assert!(handle.append(vec![record(1)], ignored()).is_err());
        assert!(handle.meta(MetaKey::Vote).is_err());
        assert_eq!(disk.open().log_bounds().unwrap(), None);
    });
}

#[test]
fn writes_of_a_killed_process_are_durable_once_the_disk_is_opened_again() {
    in_simulation(3, |disk| async move {
        disk.open().append((1..=5).map(record).collect(), ignored()).unwrap();
        disk.close();
        let found = disk.open().read_log(1, 100, usize::MAX).unwrap();
        assert_eq!(found.len(), 5, "the machine went on");
        disk.crash();
        assert_eq!(disk.open().read_log(1, 100, usize::MAX).unwrap(), found);
    });
}

#[test]
fn a_sync_serves_all_that_wait_for_it() {
    in_simulation(4, |disk| async move {
        let handle = disk.open();
        let (told, count) = counted();
        handle.append(vec![record(1)], ignored()).unwrap();
        handle.save_meta(MetaKey::Vote, bytes("v"), Some(told)).unwrap();
        handle.append(vec![record(2)], ignored()).unwrap();
        settle().await;
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(disk.syncs() <= 2, "{}", disk.syncs());
        disk.crash();
        assert_eq!(disk.open().meta(MetaKey::Vote).unwrap(), Some(bytes("v")));
    });
}

#[test]
fn state_and_mark_live_and_die_together() {
    for seed in 0..20 {
        in_simulation(seed, |disk| async move {
            let handle = disk.open();
            write_state(&handle, vec![object("a", Some("1")), object("b", Some("1"))], "m1").await;
            write_state(&handle, vec![object("a", None), object("c", Some("2"))], "m2").await;
            disk.crash();
            let handle = disk.open();
            let mut paths = String::new();
            handle.read_state(&mut |_, path, _| paths.push_str(path)).unwrap();
            let mark = handle.meta(MetaKey::StateMark).unwrap();
            let expected = match mark.as_deref() {
                None => "",
                Some(b"m1") => "ab",
                _ => "bc",
            };
            assert_eq!(paths, expected);
        });
    }
}

#[test]
fn a_half_received_state_leaves_the_old_one() {
    in_simulation(5, |disk| async move {
        let handle = disk.open();
        write_state(&handle, vec![object("old", Some("1"))], "m1").await;
        let mut install = handle.begin_install().unwrap();
        install.put(vec![object("new", Some("2"))]).unwrap();
        drop(install);
        let mut install = handle.begin_install().unwrap();
        install.put(vec![object("newer", Some("3"))]).unwrap();
        let (done, installed) = tokio::sync::oneshot::channel();
        let before = handle.generation().unwrap();
        let stale = StateBatch {
            generation: before,
            writes: vec![object("old", Some("9"))],
            ..StateBatch::default()
        };
        install.commit(bytes("m3"), Box::new(move |result| drop(done.send(result))));
        assert!(installed.await.unwrap().unwrap() > before);
        let (done, written) = tokio::sync::oneshot::channel();
        handle.write_state(stale, Box::new(move |result| drop(done.send(result))));
        assert_eq!(written.await.unwrap(), Ok(StateWritten::Superseded));
        disk.crash();
        let mut paths = Vec::new();
        disk.open().read_state(&mut |_, path, _| paths.push(path.to_owned())).unwrap();
        assert_eq!(paths, ["newer"], "durable when commit returns");
    });
}

#[test]
fn purge_and_truncation_keep_their_order() {
    in_simulation(6, |disk| async move {
        let handle = disk.open();
        handle.append((1..=9).map(record).collect(), ignored()).unwrap();
        handle.purge_through(3, bytes("p3")).unwrap();
        handle.truncate_after(Some(6)).unwrap();
        handle.append(vec![record(7)], ignored()).unwrap();
        settle().await;
        disk.crash();
        let handle = disk.open();
        assert_eq!(handle.log_bounds().unwrap(), Some((4, 7)));
        assert_eq!(handle.meta(MetaKey::Purged).unwrap(), Some(bytes("p3")));
        let few = handle.read_log(4, 8, 1).unwrap();
        assert_eq!(few.len(), 1, "never before one entry");
        assert!(handle.read_log(3, 8, 1).unwrap_err().reason.contains("the log starts with 4"));
        handle.truncate_after(None).unwrap();
        assert_eq!(handle.log_bounds().unwrap(), None);
    });
}

#[test]
fn a_failing_sync_tells_everyone_and_keeps_nothing() {
    in_simulation(7, |disk| async move {
        disk.behave(|manner| manner.sync_fails = true);
        let failed = Arc::new(AtomicU64::new(0));
        let inner = failed.clone();
        let told: OnDurable =
            Box::new(move |result| _ = result.map_err(|_| inner.fetch_add(1, Ordering::Relaxed)));
        disk.open().append(vec![record(1)], told).unwrap();
        settle().await;
        assert_eq!(failed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn the_planted_lie_about_votes_may_lose_the_vote() {
    let lost = (0..20).filter(|seed| {
        let mut kept = None;
        in_simulation(*seed, |disk| {
            let kept = &mut kept;
            async move {
                disk.behave(|manner| manner.lies_about_vote = true);
                let (told, count) = counted();
                disk.open().save_meta(MetaKey::Vote, bytes("v"), Some(told)).unwrap();
                assert_eq!(count.load(Ordering::Relaxed), 1, "told at once");
                settle().await;
                disk.crash();
                *kept = disk.open().meta(MetaKey::Vote).unwrap();
            }
        });
        kept.is_none()
    });
    assert!(lost.count() > 3);
}

#[test]
fn a_refused_write_changes_nothing_and_is_remembered_until_the_process_ends() {
    in_simulation(8, |disk| async move {
        let handle = disk.open();
        disk.behave(|manner| manner.write_fails = Some("full"));
        assert!(handle.append(vec![record(1)], ignored()).is_err());
        let (done, installed) = tokio::sync::oneshot::channel();
        let install = handle.begin_install().unwrap();
        install.commit(bytes("m2"), Box::new(move |result| drop(done.send(result))));
        assert!(installed.await.unwrap().is_err());
        assert_eq!(handle.log_bounds().unwrap(), None, "reads go on");
        disk.behave(|manner| manner.write_fails = None);
        assert!(disk.has_failed() && disk.fails());
        disk.close();
        assert!(!disk.has_failed() && !disk.fails());
    });
}

#[test]
fn a_sync_that_hangs_completes_when_it_no_longer_does() {
    in_simulation(9, |disk| async move {
        disk.behave(|manner| manner.sync_hangs = true);
        let (told, count) = counted();
        let handle = disk.open();
        handle.append(vec![record(1)], told).unwrap();
        NodeRuntime::sleep(Duration::from_secs(60)).await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
        disk.behave(|manner| manner.sync_hangs = false);
        settle().await;
        assert_eq!(count.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn rotten_records_cannot_be_read_until_they_are_restored() {
    in_simulation(10, |disk| async move {
        let handle = disk.open();
        handle.append(vec![record(1)], ignored()).unwrap();
        disk.rot(&Dice::new(1, "rot"));
        assert!(handle.read_log(2, 9, usize::MAX).is_ok(), "the rest can be read");
        assert!(handle.read_log(1, 2, usize::MAX).is_err());
        disk.restore();
        assert_eq!(handle.read_log(1, 2, usize::MAX).unwrap(), [record(1)]);
    });
}

#[test]
fn a_killed_process_loses_the_committed_log_id_that_waits_for_a_write() {
    let disk = SimDisk::new(Dice::new(1, "disk"));
    let handle = disk.open();
    let committed = |value: &'static str| handle.save_meta(MetaKey::Committed, bytes(value), None).unwrap();
    committed("1");
    handle.truncate_after(None).unwrap();
    committed("2");
    committed("3");
    assert_eq!(disk.meta(MetaKey::Committed), Some(bytes("3")), "readable at once");
    disk.close();
    assert_eq!(disk.meta(MetaKey::Committed), Some(bytes("1")));
}
