//! Tests of the repair: torn ends are cut from a log or a manifest, damage is left for RocksDB to refuse.

use super::records::{CHECKSUMS, STAMP_HEAD, WHOLE};
use super::*;

/// A record as RocksDB writes it: a batch that ends with a stamp.
fn record(number: u64, durable: u64) -> Vec<u8> {
    let stamp = [&STAMP_HEAD[..], &number.to_le_bytes(), &durable.to_le_bytes()].concat();
    let body = [vec![b'x'; 600], stamp].concat();
    let length = u16::try_from(body.len()).unwrap();
    let piece = [&[0; 4][..], &length.to_le_bytes(), &[WHOLE], &body].concat();
    let sum = !piece[6..]
        .iter()
        .fold(u32::MAX, |sum, byte| (sum >> 8) ^ CHECKSUMS[usize::from(sum.to_le_bytes()[0] ^ byte)]);
    [&sum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()[..], &piece[4..]].concat()
}

/// The sizes of two files of a log after [`cut`], and its outcome.
fn cut_logs(first: &[Vec<u8>], second: &[Vec<u8>]) -> (Result<u64, OpenError>, [usize; 2]) {
    let root = tempfile::tempdir().unwrap();
    let paths = ["000009.log", "000010.log"].map(|name| root.path().join(name));
    fs::write(&paths[0], first.concat()).unwrap();
    fs::write(&paths[1], second.concat()).unwrap();
    let outcome = cut(root.path());
    (outcome, paths.map(|path| fs::read(path).unwrap().len()))
}

#[test]
fn whole_logs_stay_as_they_are() {
    let (last, sizes) = cut_logs(&[record(7, 5), record(8, 7)], &[record(9, 7)]);
    assert_eq!((last.unwrap(), sizes), (9, [2 * record(7, 5).len(), record(9, 7).len()]));
}

#[test]
fn a_later_file_goes_with_the_missing_end_of_the_one_before() {
    let half = record(8, 6)[..300].to_vec();
    let (last, sizes) = cut_logs(&[record(7, 5), half], &[record(9, 6)]);
    assert_eq!((last.unwrap(), sizes), (7, [record(7, 5).len(), 0]));
    // The end is missing at a record boundary: only the stamps' numbers show it.
    let (last, sizes) = cut_logs(&[record(7, 5)], &[record(9, 6), record(10, 6)]);
    assert_eq!((last.unwrap(), sizes), (7, [record(7, 5).len(), 0]));
}

#[test]
fn a_gap_between_files_that_was_durable_is_in_tables() {
    let (last, sizes) = cut_logs(&[record(7, 5)], &[record(9, 8), record(10, 8)]);
    assert_eq!((last.unwrap(), sizes), (10, [record(7, 5).len(), 2 * record(9, 8).len()]));
}

#[test]
fn records_that_a_later_stamp_calls_durable_are_not_cut() {
    let half = [&record(8, 6)[..300], &[0; 400]].concat();
    let (refused, sizes) = cut_logs(&[record(7, 5), half], &[record(9, 8)]);
    assert!(matches!(refused, Err(OpenError::Unreadable { .. })));
    assert!(sizes[1] > 0);
}

#[test]
fn a_flipped_bit_is_not_an_unwritten_sector() {
    let mut flipped = record(8, 6);
    flipped[100] ^= 1;
    let (last, sizes) = cut_logs(&[record(7, 5), flipped.clone()], &[]);
    assert_eq!((last.unwrap(), sizes), (7, [record(7, 5).len() + flipped.len(), 0]));
}

#[test]
fn an_unfinished_change_of_the_manifest_is_cut() {
    let root = tempfile::tempdir().unwrap();
    let manifest = root.path().join("MANIFEST-000005");
    fs::write(root.path().join("CURRENT"), "MANIFEST-000005\n").unwrap();
    let mut torn = record(2, 0);
    torn[5..400].fill(0);
    let whole = record(1, 0);
    for (end, expected) in [(torn.clone(), whole.len()), (record(2, 0), 2 * whole.len())] {
        fs::write(&manifest, [&whole[..], &end].concat()).unwrap();
        cut_manifest(root.path()).unwrap();
        assert_eq!(fs::read(&manifest).unwrap().len(), expected);
    }
    // Too many bytes follow for one change: RocksDB refuses to open.
    let much = [vec![whole.clone(), torn], vec![whole; 60]].concat().concat();
    fs::write(&manifest, &much).unwrap();
    cut_manifest(root.path()).unwrap();
    assert_eq!(fs::read(&manifest).unwrap().len(), much.len());
}

#[test]
fn pieces_of_a_split_record_make_one() {
    let root = tempfile::tempdir().unwrap();
    let disk = crate::disk::rocks::RocksDisk::open(root.path()).unwrap();
    let large = crate::disk::LogRecord { index: 1, bytes: vec![b'x'; 100_000].into() };
    crate::disk::Disk::append(&disk, vec![large], Box::new(|_| {})).unwrap();
    let path = logs(root.path()).unwrap().pop().unwrap();
    let found = examine(&path, 0).unwrap();
    assert_eq!((found.last, found.broken), (1, None));
}

#[test]
fn logs_take_anything() {
    use proptest::collection::vec;
    use proptest::prelude::*;
    let log: Vec<u8> = (1..120).flat_map(|number| record(number, number / 2)).collect();
    let edits = vec((any::<prop::sample::Index>(), vec(any::<u8>(), 0..4), 0..900_usize), 0..6);
    let config = ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(edits in edits)| {
        let mut log = log.clone();
        for (at, bytes, removed) in edits {
            let at = at.index(log.len() + 1);
            log.splice(at..(at + removed).min(log.len()), bytes);
        }
        let mut records = Records::new(&log[..]);
        let (mut numbers, mut steps) = (Vec::new(), 0);
        loop {
            match records.next().unwrap() {
                Step::End => break,
                Step::Record { stamp, .. } => numbers.extend(stamp.map(|stamp| stamp.number)),
                Step::Broken(broken) => prop_assert!(broken.start <= bytes_of(&log)),
            }
            steps += 1;
            prop_assert!(steps <= log.len() + 1);
        }
        prop_assert!(numbers.is_sorted());
    });
}

fn bytes_of(log: &[u8]) -> u64 {
    u64::try_from(log.len()).unwrap()
}
