//! Values that wait for the next write: through a write, an end, a crash and a newer value.

use super::*;

#[test]
fn a_value_without_a_callback_goes_to_the_disk_with_the_next_write_or_at_the_end() {
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
fn a_value_that_waits_never_comes_behind_a_newer_one_of_its_key() {
    let mut bench = Bench::new();
    bench.disk().save_meta(MetaKey::Vote, Bytes::from_static(b"old"), None).unwrap();
    let (sender, told) = channel();
    let report: OnDurable = Box::new(move |result| sender.send(result).unwrap());
    bench.disk().save_meta(MetaKey::Vote, Bytes::from_static(b"new"), Some(report)).unwrap();
    told.recv().unwrap().unwrap();
    assert_eq!(bench.disk().meta(MetaKey::Vote).unwrap().unwrap(), "new");
    bench.reopen();
    assert_eq!(bench.disk().meta(MetaKey::Vote).unwrap().unwrap(), "new");
}
