//! The committed log id waits for the next write, for the end, or is lost in a crash.

use super::*;

#[test]
fn the_committed_log_id_goes_to_the_disk_with_the_next_write_or_at_the_end() {
    let mut bench = Bench::new();
    bench.append(1, 3);
    let before = bench.wal_bytes();
    let save = |bench: &Bench, value: &'static [u8]| {
        bench.disk().save_meta(MetaKey::Committed, Bytes::from_static(value), None).unwrap();
    };
    let committed = |disk: &RocksDisk| disk.meta(MetaKey::Committed).unwrap();
    save(&bench, b"1");
    save(&bench, b"2");
    assert_eq!(committed(bench.disk()).unwrap(), "2", "readable at once");
    assert_eq!(bench.wal_bytes(), before, "nothing was written for it alone");
    let (_copy, disk) = bench.crashed(before);
    assert_eq!(committed(&disk.unwrap()), None, "a crash loses it");
    bench.append(3, 4);
    let (_copy, disk) = bench.crashed(bench.wal_bytes());
    assert_eq!(committed(&disk.unwrap()).unwrap(), "2", "the next write took it along");
    save(&bench, b"3");
    bench.reopen();
    assert_eq!(committed(bench.disk()).unwrap(), "3", "the end wrote it");
}

#[test]
fn a_state_batch_takes_the_committed_log_id_along() {
    let bench = Bench::new();
    bench.append(1, 3);
    bench.disk().save_meta(MetaKey::Committed, Bytes::from_static(b"2"), None).unwrap();
    bench.write_state(Vec::new(), b"m2");
    let (_copy, disk) = bench.crashed(bench.wal_bytes());
    let disk = disk.unwrap();
    assert_eq!(disk.meta(MetaKey::Committed).unwrap().unwrap(), "2");
    assert_eq!(disk.meta(MetaKey::StateMark).unwrap().unwrap(), "m2");
}

#[test]
fn a_vote_without_a_callback_is_written_at_once() {
    let bench = Bench::new();
    bench.disk().save_meta(MetaKey::Vote, Bytes::from_static(b"v"), None).unwrap();
    let (_copy, disk) = bench.crashed(bench.wal_bytes());
    assert_eq!(disk.unwrap().meta(MetaKey::Vote).unwrap().unwrap(), "v");
}
