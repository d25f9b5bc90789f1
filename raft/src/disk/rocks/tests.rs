//! A disk in a directory of its own, through restarts, crashes, torn tails, flipped bits and failures.

mod committed;
mod history;
mod sealing;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;

use super::*;
use crate::disk::{StateWrite, StateWritten};

/// A disk in a temporary directory.
struct Bench {
    root: TempDir,
    disk: Option<RocksDisk>,
}

type Told = Receiver<Result<(), DiskError>>;

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let disk = Some(RocksDisk::open(root.path()).unwrap());
        Bench { root, disk }
    }

    fn disk(&self) -> &RocksDisk {
        self.disk.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.disk = None;
        self.disk = Some(RocksDisk::open(self.root.path()).unwrap());
    }

    /// Appends entries of `from..to` and waits until they are durable.
    fn append(&self, from: u64, to: u64) {
        self.append_unsynced(from, to, b"first").recv().unwrap().unwrap();
    }

    fn append_unsynced(&self, from: u64, to: u64, word: &[u8]) -> Told {
        let (sender, told) = channel();
        let records = (from..to).map(|index| entry(index, word)).collect();
        self.disk().append(records, Box::new(move |result| drop(sender.send(result)))).unwrap();
        told
    }

    fn indexes(&self) -> Vec<u64> {
        let Some((first, _)) = self.disk().log_bounds().unwrap() else { return Vec::new() };
        self.disk().read_log(first, u64::MAX, usize::MAX).unwrap().iter().map(|entry| entry.index).collect()
    }

    /// Writes a batch to the current state and waits until it is visible.
    fn write_state(&self, writes: Vec<StateWrite>, mark: &'static [u8]) {
        let generation = self.disk().generation().unwrap();
        let mark = Some(Bytes::from_static(mark));
        let batch = StateBatch { generation, writes, mark, ..StateBatch::default() };
        assert_eq!(take(self.disk(), batch), Ok(StateWritten::Written));
    }

    fn state(&self) -> Vec<(String, String, Bytes)> {
        read_state(self.disk()).unwrap()
    }

    /// The disk as a crash leaves it: a copy of the directory, the newest write-ahead log cut to `wal_bytes`.
    fn crashed(&self, wal_bytes: u64) -> (TempDir, Result<RocksDisk, OpenError>) {
        let copy = tempfile::tempdir().unwrap();
        copy_files(self.root.path(), copy.path());
        let wal = newest_wal(copy.path());
        OpenOptions::new().write(true).open(wal).unwrap().set_len(wal_bytes).unwrap();
        let disk = RocksDisk::open(copy.path());
        (copy, disk)
    }

    fn wal_bytes(&self) -> u64 {
        fs::metadata(newest_wal(self.root.path())).unwrap().len()
    }
}

/// Writes a batch and waits for its result.
fn take(disk: &RocksDisk, batch: StateBatch) -> Result<StateWritten, DiskError> {
    let (sender, told) = channel();
    disk.write_state(batch, Box::new(move |result| drop(sender.send(result))));
    told.recv().unwrap()
}

/// Makes a received state the current one and waits for it.
fn commit(install: Box<dyn Install>, mark: &'static [u8]) -> Generation {
    let (sender, told) = channel();
    install.commit(Bytes::from_static(mark), Box::new(move |result| drop(sender.send(result))));
    told.recv().unwrap().unwrap()
}

fn entry(index: u64, word: &[u8]) -> LogRecord {
    LogRecord { index, bytes: Bytes::from([word, b"-", index.to_string().as_bytes()].concat()) }
}

fn put(resource: &str, path: &str, record: &'static [u8]) -> StateWrite {
    StateWrite { resource: resource.into(), path: path.into(), record: Some(Bytes::from_static(record)) }
}

fn delete(resource: &str, path: &str) -> StateWrite {
    StateWrite { resource: resource.into(), path: path.into(), record: None }
}

fn read_state(disk: &RocksDisk) -> Result<Vec<(String, String, Bytes)>, DiskError> {
    let mut found = Vec::new();
    disk.read_state(&mut |resource, path, record| found.push((resource.into(), path.into(), record)))?;
    Ok(found)
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn newest_wal(path: &Path) -> PathBuf {
    files(path, "log").pop().unwrap()
}

fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    found.sort();
    found
}

/// Flips one bit of the first place where `needle` stands in a file of the directory.
fn flip_bit_of(path: &Path, extension: &str, needle: &[u8]) {
    for file in files(path, extension) {
        let mut bytes = fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            bytes[at] ^= 1;
            return fs::write(&file, bytes).unwrap();
        }
    }
    panic!("{} is in no .{extension} file", needle.escape_ascii());
}

#[test]
fn entries_are_readable_at_once_and_after_a_restart() {
    let mut bench = Bench::new();
    assert_eq!(bench.disk().log_bounds().unwrap(), None);
    let told = bench.append_unsynced(5, 9, b"first");
    assert_eq!(bench.indexes(), [5, 6, 7, 8]);
    told.recv().unwrap().unwrap();
    bench.reopen();
    assert_eq!(bench.disk().log_bounds().unwrap(), Some((5, 8)));
    assert_eq!(bench.disk().read_log(6, 8, usize::MAX).unwrap(), [entry(6, b"first"), entry(7, b"first")]);
    let error = bench.disk().read_log(4, 8, usize::MAX).unwrap_err();
    assert!(error.reason.contains("entry 4 is no longer there: the log starts with 5"), "{error}");
}

#[test]
fn reads_stop_at_the_byte_bound_but_never_before_one_entry() {
    let bench = Bench::new();
    bench.append(1, 10);
    let read = |bytes_max| bench.disk().read_log(2, 10, bytes_max).unwrap().len();
    assert_eq!((read(0), read(7), read(14), read(15), read(1000)), (1, 1, 2, 2, 8));
}

#[test]
fn a_crash_loses_only_what_was_not_synced() {
    let bench = Bench::new();
    bench.append(1, 4);
    bench.disk().save_meta(MetaKey::Committed, Bytes::from_static(b"3"), None).unwrap();
    bench.append(4, 5);
    let synced = bench.wal_bytes();
    let _told = bench.append_unsynced(5, 8, b"first");
    bench.disk().save_meta(MetaKey::Committed, Bytes::from_static(b"7"), None).unwrap();
    let _told = bench.append_unsynced(8, 9, b"first");
    let (_copy, disk) = bench.crashed(synced);
    let disk = disk.unwrap();
    assert_eq!(disk.log_bounds().unwrap(), Some((1, 4)));
    assert_eq!(disk.meta(MetaKey::Committed).unwrap().unwrap(), "3");
}

#[test]
fn a_torn_tail_is_cut_wherever_it_tore() {
    let bench = Bench::new();
    bench.append(1, 4);
    let synced = bench.wal_bytes();
    bench.append(4, 6);
    let whole = bench.wal_bytes();
    for torn_at in synced..whole {
        let (_copy, disk) = bench.crashed(torn_at);
        assert_eq!(disk.unwrap().log_bounds().unwrap(), Some((1, 3)), "cut at {torn_at}");
    }
}

#[test]
fn a_flipped_bit_in_the_write_ahead_log_refuses_to_start() {
    let mut bench = Bench::new();
    bench.append(1, 4);
    bench.append(4, 6);
    let copy = tempfile::tempdir().unwrap();
    copy_files(bench.root.path(), copy.path());
    bench.disk = None;
    flip_bit_of(copy.path(), "log", b"first-2");
    assert!(matches!(RocksDisk::open(copy.path()), Err(OpenError::Unreadable { .. })));
}

/// The disk after a power loss: a copy of the directory, in which the range `empty` of the newest write-ahead log was
/// never written.
fn with_empty_part(bench: &Bench, empty: std::ops::Range<u64>) -> (TempDir, Result<RocksDisk, OpenError>) {
    let copy = tempfile::tempdir().unwrap();
    copy_files(bench.root.path(), copy.path());
    let wal = newest_wal(copy.path());
    let mut bytes = fs::read(&wal).unwrap();
    bytes[usize::try_from(empty.start).unwrap()..usize::try_from(empty.end).unwrap()].fill(0);
    fs::write(&wal, bytes).unwrap();
    let disk = RocksDisk::open(copy.path());
    (copy, disk)
}

#[test]
fn a_record_that_lacks_a_sector_was_never_durable() {
    let bench = Bench::new();
    bench.append(1, 4);
    let synced = bench.wal_bytes();
    let _told = bench.append_unsynced(4, 8, &[b'x'; 3000]);
    let first_sector = synced.div_ceil(512) * 512;
    for sector in [first_sector, first_sector + 5 * 512] {
        let (_copy, disk) = with_empty_part(&bench, sector..sector + 512);
        assert_eq!(disk.unwrap().log_bounds().unwrap(), Some((1, 3)), "sector at {sector}");
    }
    let (_copy, disk) = with_empty_part(&bench, synced..first_sector);
    assert_eq!(disk.unwrap().log_bounds().unwrap(), Some((1, 3)));
}

#[test]
fn nothing_behind_an_unwritten_part_is_replayed() {
    // Where the machine pauses between the two appends, the first one is durable, and the stamp of the second says so: another try.
    let opened = (0..10).find_map(|_| {
        let bench = Bench::new();
        bench.append(1, 4);
        let synced = bench.wal_bytes();
        let _first = bench.append_unsynced(4, 8, &[b'x'; 30_000]);
        let _second = bench.append_unsynced(8, 9, b"second");
        // A whole block of the log, which RocksDB alone would skip.
        let (copy, disk) = with_empty_part(&bench, synced..64 << 10);
        disk.ok().map(|disk| (copy, disk))
    });
    let (_copy, disk) = opened.expect("one of ten starts finds what was durable");
    assert_eq!(disk.log_bounds().unwrap(), Some((1, 3)));
    assert_eq!(disk.read_log(1, 9, usize::MAX).unwrap().len(), 3);
}

#[test]
fn a_durable_record_that_lacks_a_sector_refuses_to_start() {
    let bench = Bench::new();
    bench.append(1, 4);
    let before = bench.wal_bytes();
    bench.append_unsynced(4, 8, &[b'x'; 30_000]).recv().unwrap().unwrap();
    // The stamp of this append says that the record before it is durable.
    bench.append(8, 9);
    let sector = before.div_ceil(512) * 512;
    let (_copy, disk) = with_empty_part(&bench, sector..sector + 512);
    let error = disk.unwrap_err().to_string();
    assert!(error.contains("what was durable"), "{error}");
}

/// A disk whose tables hold three entries and an object, one bit of `needle` flipped.
fn with_flipped_table_bit(needle: &[u8]) -> (TempDir, Result<RocksDisk, OpenError>) {
    let mut bench = Bench::new();
    bench.append(1, 4);
    bench.write_state(vec![put("pods", "a/b", b"an object")], b"3");
    // Opening flushes the replayed writes to tables.
    bench.reopen();
    bench.disk = None;
    flip_bit_of(bench.root.path(), "sst", needle);
    let disk = RocksDisk::open(bench.root.path());
    (bench.root, disk)
}

#[test]
fn a_flipped_bit_in_a_state_table_is_never_served() {
    let (_root, disk) = with_flipped_table_bit(b"an object");
    assert_eq!(read_state(&disk.unwrap()).unwrap_err().operation, "read state");
}

#[test]
fn a_flipped_bit_in_a_log_table_is_never_served() {
    let (_root, disk) = with_flipped_table_bit(b"first-1");
    // The damaged block holds the first key, which opening looks for.
    assert!(matches!(disk, Err(OpenError::Unreadable { .. })));
}

#[test]
fn a_record_whose_own_checksum_is_wrong_is_never_served() {
    let bench = Bench::new();
    bench.append(1, 4);
    let db = &bench.disk().core.db;
    db.put_cf(&family(db, CF_LOG).unwrap(), record::log_key(2), b"????first-2").unwrap();
    db.put_cf(&family(db, CF_META).unwrap(), record::meta_key(MetaKey::Vote), b"????vote").unwrap();
    assert!(bench.disk().read_log(1, 4, usize::MAX).unwrap_err().reason.contains("checksum"));
    assert!(bench.disk().meta(MetaKey::Vote).unwrap_err().reason.contains("checksum"));
}

#[test]
fn a_hole_in_the_log_is_damage() {
    let bench = Bench::new();
    bench.append(1, 6);
    let db = &bench.disk().core.db;
    db.delete_cf(&family(db, CF_LOG).unwrap(), record::log_key(3)).unwrap();
    let error = bench.disk().read_log(2, 6, usize::MAX).unwrap_err();
    assert!(error.reason.contains("entry 3 is missing"), "{error}");
    assert_eq!(bench.disk().read_log(4, 6, usize::MAX).unwrap().len(), 2);
}

#[test]
fn an_append_that_does_not_follow_is_refused_and_told() {
    let bench = Bench::new();
    bench.append(1, 4);
    for indexes in [vec![3], vec![5], vec![4, 6], vec![4, 4]] {
        let (sender, told) = channel();
        let records = indexes.iter().map(|index| entry(*index, b"x")).collect();
        let refused = bench.disk().append(records, Box::new(move |result| sender.send(result).unwrap()));
        assert_eq!(refused.clone().unwrap_err().operation, "append", "{indexes:?}");
        assert_eq!(told.recv().unwrap(), refused);
    }
    bench.append(4, 5);
}

#[test]
fn callbacks_come_in_the_order_of_the_writes() {
    let bench = Bench::new();
    let (sender, told) = channel();
    for number in 0..200_u64 {
        let sender = sender.clone();
        let report: OnDurable = Box::new(move |result| sender.send((number, result)).unwrap());
        if number % 2 == 0 {
            bench.disk().append(vec![entry(number / 2, b"x")], report).unwrap();
        } else {
            bench.disk().save_meta(MetaKey::Vote, Bytes::from(number.to_string()), Some(report)).unwrap();
        }
    }
    let order: Vec<u64> =
        told.iter().take(200).map(|(number, result)| result.map(|()| number).unwrap()).collect();
    assert_eq!(order, (0..200).collect::<Vec<_>>());
}

#[test]
fn truncated_entries_are_replaced_by_what_is_appended() {
    let mut bench = Bench::new();
    bench.append(1, 8);
    bench.disk().truncate_after(Some(4)).unwrap();
    assert_eq!(bench.disk().log_bounds().unwrap(), Some((1, 4)));
    bench.append_unsynced(5, 7, b"second").recv().unwrap().unwrap();
    bench.reopen();
    let expected = [entry(4, b"first"), entry(5, b"second"), entry(6, b"second")];
    assert_eq!(bench.disk().read_log(4, 100, usize::MAX).unwrap(), expected);
    bench.disk().truncate_after(Some(100)).unwrap();
    assert_eq!(bench.disk().log_bounds().unwrap(), Some((1, 6)));
    bench.disk().truncate_after(None).unwrap();
    bench.reopen();
    assert_eq!(bench.disk().log_bounds().unwrap(), None);
}

#[test]
fn a_crash_between_truncation_and_append_keeps_the_order() {
    let bench = Bench::new();
    bench.append(1, 8);
    let before = bench.wal_bytes();
    bench.disk().truncate_after(Some(4)).unwrap();
    let truncated = bench.wal_bytes();
    let _told = bench.append_unsynced(5, 6, b"second");
    let bounds = |wal_bytes| bench.crashed(wal_bytes).1.unwrap().log_bounds().unwrap();
    assert_eq!(bounds(before), Some((1, 7)));
    assert_eq!(bounds(truncated), Some((1, 4)));
    assert_eq!(bounds(bench.wal_bytes()), Some((1, 5)));
}

#[test]
fn purged_entries_stay_forgotten_after_a_restart() {
    let mut bench = Bench::new();
    bench.append(1, 10);
    bench.disk().purge_through(4, Bytes::from_static(b"mark 4")).unwrap();
    assert_eq!(bench.indexes(), [5, 6, 7, 8, 9]);
    bench.reopen();
    assert_eq!(bench.disk().log_bounds().unwrap(), Some((5, 9)));
    assert_eq!(bench.disk().meta(MetaKey::Purged).unwrap().unwrap(), "mark 4");
    bench.disk().truncate_after(None).unwrap();
    bench.append(5, 6);
}

#[test]
fn a_purge_past_the_end_leaves_an_empty_log_that_goes_on_behind_it() {
    let mut bench = Bench::new();
    bench.append(1, 4);
    bench.disk().purge_through(100, Bytes::from_static(b"mark")).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.disk().log_bounds().unwrap(), None);
        assert_eq!(bench.indexes(), [0_u64; 0]);
        bench.reopen();
    }
    assert!(bench.disk().append(vec![entry(100, b"x")], Box::new(|_| {})).is_err());
    bench.append(101, 103);
    bench.reopen();
    assert_eq!(bench.disk().log_bounds().unwrap(), Some((101, 102)));
}

#[test]
fn swept_entries_are_gone_from_the_database() {
    let bench = Bench::new();
    bench.append(1, 10_000);
    bench.disk().purge_through(9_000, Bytes::from_static(b"mark")).unwrap();
    let db = &bench.disk().core.db;
    let log = family(db, CF_LOG).unwrap();
    // The sweeper works in the background: wait for its effect, not for a time.
    while db.get_cf(&log, record::log_key(9_000)).unwrap().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(bench.indexes(), (9_001..10_000).collect::<Vec<_>>());
    assert!(db.get_cf(&log, record::log_key(1)).unwrap().is_none());
}

#[test]
fn a_sweep_keeps_the_entry_that_ends_a_table() {
    let bench = Bench::new();
    bench.append(1, 5_001);
    let db = &bench.disk().core.db;
    let log = family(db, CF_LOG).unwrap();
    // One table, below level 0, that ends with entry 5,000.
    db.compact_range_cf(&log, None::<&[u8]>, None::<&[u8]>);
    let tables = db.live_files().unwrap();
    let ends = tables.iter().filter(|table| table.end_key.as_deref() == Some(&record::log_key(5_000)[..]));
    assert!(ends.into_iter().any(|table| table.level > 0), "{tables:?}");
    bench.append(5_001, 5_011);
    bench.disk().purge_through(4_999, Bytes::from_static(b"mark")).unwrap();
    while db.get_cf(&log, record::log_key(4_999)).unwrap().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(bench.indexes(), (5_000..5_011).collect::<Vec<_>>());
}

#[test]
fn state_and_mark_change_in_one_step() {
    let mut bench = Bench::new();
    let first = vec![put("pods", "a/x", b"1"), put("pods", "a/y", b"2"), put("nodes", "n", b"3")];
    bench.write_state(first, b"m1");
    let after_first = bench.wal_bytes();
    let second = vec![put("pods", "a/x", b"4"), delete("pods", "a/y")];
    bench.write_state(second, b"m2");
    let (_copy, disk) = bench.crashed(bench.wal_bytes() - 1);
    let disk = disk.unwrap();
    assert_eq!(disk.meta(MetaKey::StateMark).unwrap().unwrap(), "m1");
    assert_eq!(read_state(&disk).unwrap().len(), 3);
    assert!(after_first < bench.wal_bytes());
    bench.reopen();
    assert_eq!(bench.disk().meta(MetaKey::StateMark).unwrap().unwrap(), "m2");
    let object =
        |resource: &str, path: &str, record| (resource.into(), path.into(), Bytes::from_static(record));
    assert_eq!(bench.state(), [object("pods", "a/x", b"4"), object("nodes", "n", b"3")]);
}

#[test]
fn an_installed_state_replaces_the_old_one() {
    let mut bench = Bench::new();
    bench.write_state(vec![put("pods", "a/x", b"old")], b"m1");
    let mut install = bench.disk().begin_install().unwrap();
    install.put(vec![put("pods", "a/y", b"new")]).unwrap();
    install.put(vec![put("pods", "a/z", b"new")]).unwrap();
    assert_eq!(bench.state().len(), 1);
    commit(install, b"m9");
    for _ in 0..2 {
        let paths: Vec<String> = bench.state().into_iter().map(|(_, path, _)| path).collect();
        assert_eq!(paths, ["a/y", "a/z"]);
        assert_eq!(bench.disk().meta(MetaKey::StateMark).unwrap().unwrap(), "m9");
        bench.reopen();
    }
    bench.write_state(vec![delete("pods", "a/y")], b"m10");
    assert_eq!(bench.state().len(), 1);
    assert_eq!(generations(bench.root.path()).len(), 1);
}

#[test]
fn a_dropped_installation_leaves_the_old_state() {
    let bench = Bench::new();
    bench.write_state(vec![put("pods", "a/x", b"old")], b"m1");
    let mut first = bench.disk().begin_install().unwrap();
    first.put(vec![put("pods", "a/y", b"half")]).unwrap();
    // The next installation may begin before the abandoned one is dropped.
    let second = bench.disk().begin_install().unwrap();
    drop(first);
    assert_eq!(bench.state().len(), 1);
    commit(second, b"m2");
    assert_eq!(bench.state(), []);
    assert_eq!(generations(bench.root.path()).len(), 1);
}

#[test]
fn a_crash_while_installing_leaves_the_old_state_and_no_garbage() {
    let bench = Bench::new();
    bench.write_state(vec![put("pods", "a/x", b"old")], b"m1");
    let mut install = bench.disk().begin_install().unwrap();
    install.put(vec![put("pods", "a/y", b"half")]).unwrap();
    let (copy, disk) = bench.crashed(bench.wal_bytes());
    let disk = disk.unwrap();
    assert_eq!(read_state(&disk).unwrap().len(), 1);
    assert_eq!(disk.meta(MetaKey::StateMark).unwrap().unwrap(), "m1");
    drop(disk);
    assert_eq!(generations(copy.path()).len(), 1);
}

#[test]
fn a_step_of_a_state_that_was_replaced_is_dropped() {
    let mut bench = Bench::new();
    bench.write_state(vec![put("pods", "a/x", b"old")], b"m1");
    let before = bench.disk().generation().unwrap();
    let mut install = bench.disk().begin_install().unwrap();
    install.put(vec![put("pods", "a/y", b"new")]).unwrap();
    let after = commit(install, b"m9");
    assert!(after > before);
    let stale = StateBatch {
        generation: before,
        writes: vec![put("pods", "a/x", b"back")],
        mark: Some(Bytes::from_static(b"m2")),
        ..StateBatch::default()
    };
    assert_eq!(take(bench.disk(), stale), Ok(StateWritten::Superseded));
    bench.reopen();
    assert_eq!(bench.state().len(), 1);
    assert_eq!(bench.disk().meta(MetaKey::StateMark).unwrap(), Some(Bytes::from_static(b"m9")));
    assert_eq!(bench.disk().generation().unwrap(), after);
}

fn generations(path: &Path) -> Vec<String> {
    let mut names = Db::list_cf(&rocksdb::Options::default(), path).unwrap();
    names.retain(|name| state::is_generation(name));
    names
}

#[test]
fn nothing_works_after_a_failure() {
    let bench = Bench::new();
    bench.append(1, 3);
    let failure = DiskError { operation: "flush", reason: "input/output error".to_owned() };
    bench.disk().core.fuse.blow(failure.clone());
    let (sender, told) = channel();
    let report: OnDurable = Box::new(move |result| sender.send(result).unwrap());
    let disk = bench.disk();
    assert_eq!(disk.append(vec![entry(3, b"x")], report), Err(failure.clone()));
    assert_eq!(told.recv().unwrap(), Err(failure.clone()));
    let refused = [
        disk.log_bounds().map(drop),
        disk.meta(MetaKey::Vote).map(drop),
        disk.save_meta(MetaKey::Vote, Bytes::new(), None),
        disk.read_log(1, 2, 100).map(drop),
        disk.truncate_after(None),
        disk.purge_through(1, Bytes::new()),
        take(disk, StateBatch::default()).map(drop),
        disk.read_state(&mut |_, _, _| {}),
        disk.begin_install().map(drop),
    ];
    assert!(refused.iter().all(|result| *result == Err(failure.clone())), "{refused:?}");
}

#[test]
fn a_directory_in_use_is_refused() {
    let bench = Bench::new();
    assert!(matches!(RocksDisk::open(bench.root.path()), Err(OpenError::InUse { .. })));
}

#[test]
fn a_directory_that_lost_its_database_is_damaged_not_new() {
    let mut bench = Bench::new();
    bench.append(1, 3);
    bench.disk = None;
    fs::remove_file(bench.root.path().join("CURRENT")).unwrap();
    assert!(matches!(RocksDisk::open(bench.root.path()), Err(OpenError::Unreadable { .. })));
}

#[test]
fn an_interrupted_first_start_is_finished_by_the_next() {
    let mut bench = Bench::new();
    bench.disk = None;
    fs::write(bench.root.path().join("FORMAT"), "orch store 1 being created\n").unwrap();
    bench.disk = Some(RocksDisk::open(bench.root.path()).unwrap());
    bench.append(1, 3);
    bench.reopen();
    assert_eq!(bench.indexes(), [1, 2]);
}
