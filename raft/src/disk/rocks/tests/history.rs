//! Blocks of history on the disk, and bursts of batches.

use super::*;
use crate::disk::HistoryBlock;

/// The number of write stalls that RocksDB counted in the column family `name`: writers stopped or slowed down.
fn stalls(disk: &RocksDisk, name: &str) -> u64 {
    let db = &disk.core.db;
    let stats =
        db.property_value_cf(&family(db, name).unwrap(), "rocksdb.cf-write-stall-stats").unwrap().unwrap();
    let totals = stats.split(", ").filter_map(|count| count.trim().strip_prefix("total-")?.split_once(": "));
    let counts: Vec<u64> = totals.map(|(_, count)| count.parse().unwrap()).collect();
    assert_eq!(counts.len(), 2, "{stats}");
    counts.iter().sum()
}

#[test]
fn a_burst_of_steps_holds_no_writer_up() {
    let bench = Bench::new();
    let disk = bench.disk();
    let generation = disk.generation().unwrap();
    let (sender, told) = channel();
    let mut seed = 1u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_le_bytes()
    };
    for step in 0..24 {
        let record = Bytes::from((0..2 << 17).flat_map(|_| noise()).collect::<Vec<u8>>());
        let writes = vec![StateWrite {
            resource: "pods".into(),
            path: format!("{step}").into(),
            record: Some(record),
        }];
        let sender = sender.clone();
        let mark = Some(Bytes::from_static(b"m1"));
        let batch = StateBatch { generation, writes, mark, ..StateBatch::default() };
        disk.write_state(batch, Box::new(move |result| sender.send(result).unwrap()));
    }
    for _ in 0..24 {
        assert_eq!(told.recv().unwrap(), Ok(StateWritten::Written));
    }
    let name = disk.core.generations.read().family();
    assert_eq!(stalls(disk, &name), 0);
}

fn block(resource: &str, after: u64, through: u64, record: &'static [u8]) -> HistoryBlock {
    HistoryBlock { resource: resource.into(), after, through, record: Bytes::from_static(record) }
}

#[test]
fn tables_of_nothing_but_history_that_is_gone_are_deleted() {
    let bench = Bench::new();
    let disk = bench.disk();
    let (core, generation) = (&disk.core, disk.generation().unwrap());
    let take = |history, forgotten| {
        let batch = StateBatch { generation, history, forgotten, ..StateBatch::default() };
        assert_eq!(take(disk, batch), Ok(StateWritten::Written));
    };
    let objects = || family(&core.db, &core.generations.read().family()).unwrap();
    let mut seed = 1u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_le_bytes()
    };
    // Each record is larger than a table: the first table holds the list of blocks, too.
    for through in 7..=9 {
        let record = (0..(9 << 20) / 8).flat_map(|_| noise()).collect::<Vec<u8>>().into();
        take(vec![HistoryBlock { record, ..block("pods", through - 1, through, b"") }], Vec::new());
        core.db.flush_cf(&objects()).unwrap();
    }
    core.db.compact_range_cf(&objects(), None::<&[u8]>, None::<&[u8]>);
    let gone = (7..=9).map(|through| ("pods".into(), through));
    take(vec![block("pods", 9, 12, b"kept")], gone.collect());
    let bytes = || core.db.live_files().unwrap().iter().map(|table| table.size).sum::<usize>();
    assert!(bytes() > 24 << 20);
    core.drop_gone_history().unwrap();
    assert!(bytes() < 20 << 20, "{} left", bytes());
    assert!(disk.read_history(generation, "pods", 7).unwrap().is_none());
    assert_eq!(disk.read_history(generation, "pods", 12).unwrap().unwrap(), "kept");
}

#[test]
fn blocks_of_history_lie_beside_the_objects_and_go_with_their_generation() {
    let mut bench = Bench::new();
    bench.write_state(vec![put("pods", "a/x", b"1")], b"m1");
    let generation = bench.disk().generation().unwrap();
    let history =
        vec![block("pods", 0, 7, b"first"), block("pods", 7, 9, b"second"), block("pod", 1, 8, b"other")];
    let batch = StateBatch { generation, history, ..StateBatch::default() };
    assert_eq!(take(bench.disk(), batch), Ok(StateWritten::Written));
    bench.reopen();
    assert_eq!(bench.state().len(), 1, "a block is no object");
    let disk = bench.disk();
    let spans = disk.history().unwrap();
    let named: Vec<_> = spans.iter().map(|one| (&*one.resource, one.after, one.through, one.bytes)).collect();
    assert_eq!(named, [("pod", 1, 8, 5), ("pods", 0, 7, 5), ("pods", 7, 9, 6)]);
    assert_eq!(disk.read_history(generation, "pods", 9).unwrap(), Some(Bytes::from_static(b"second")));
    assert_eq!(disk.read_history(generation, "pods", 8).unwrap(), None);
    let forgotten = vec![("pods".into(), 7)];
    let batch = StateBatch { generation, forgotten, ..StateBatch::default() };
    assert_eq!(take(disk, batch), Ok(StateWritten::Written));
    assert_eq!(disk.read_history(generation, "pods", 7).unwrap(), None);
    assert_eq!(disk.history().unwrap().len(), 2);
    let next = commit(disk.begin_install().unwrap(), b"m2");
    assert!(disk.history().unwrap().is_empty(), "an installed state has no history");
    assert_eq!(disk.read_history(generation, "pods", 9).unwrap(), None);
    assert_eq!(disk.read_history(next, "pods", 9).unwrap(), None);
}

#[test]
fn damage_in_the_list_of_history_costs_that_block_alone() {
    let mut bench = Bench::new();
    let generation = bench.disk().generation().unwrap();
    let history =
        vec![block("pods", 0, 7, b"first"), block("pods", 7, 9, b"second"), block("roles", 1, 8, b"other")];
    let batch = StateBatch { generation, history, ..StateBatch::default() };
    assert_eq!(take(bench.disk(), batch), Ok(StateWritten::Written));
    let db = &bench.disk().core.db;
    let name = bench.disk().core.generations.read().family();
    let objects = family(db, &name).unwrap();
    db.put_cf(&objects, b"\xff\xff\x00pods\0\0\0\0\0\0\0\0\x07", b"????????????????????").unwrap();
    db.put_cf(&objects, b"\xff\xff\x01roles\0\0\0\0\0\0\0\0\x08", b"????other").unwrap();
    drop(objects);
    bench.reopen();
    let spans = bench.disk().history().unwrap();
    let named: Vec<_> = spans.iter().map(|one| (&*one.resource, one.after, one.through)).collect();
    assert_eq!(named, [("pods", 7, 7), ("pods", 7, 9), ("roles", 1, 8)]);
    assert!(bench.disk().read_history(generation, "roles", 8).unwrap_err().reason.contains("checksum"));
    assert!(bench.disk().read_history(generation, "pods", 9).unwrap().is_some());
}
