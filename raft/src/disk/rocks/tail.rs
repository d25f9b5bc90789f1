//! Cuts what a power loss tore off the end of the write-ahead log and of the manifest.
//!
//! Owns one repair before the database is opened, and the stamps that make it certain. What was written since the last
//! sync may be on the disk in part: a sector here, a later one there, zeros between. The database reads zeros as a gap to
//! skip, which would replay writes without those before them, and takes half a record for damage, with which it refuses
//! to open. So the log is read first, and ends before its first unfinished record; later files are emptied.
//!
//! Nothing durable may go that way: a flipped bit in a synced record has to stop the start. A record counts as unfinished
//! only where a sector of it is still empty (space of a log is never used twice, so that a sector that was not written
//! reads as zeros) and where nothing behind it proves that it was synced: every write ends with a stamp, its number and
//! the newest number known to be durable.
//!
//! Invariant: every write that goes into the log is stamped, in the order of the numbers. Invariant: what is read here is
//! synced before anything is built on it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use rocksdb::WriteBatch;

use super::OpenError;

/// The log is written in blocks; a record that does not fit is split.
const BLOCK_BYTES: usize = 32 << 10;
/// Checksum, length and type before each piece of a record.
const HEAD_BYTES: usize = 7;
/// What a disk writes in one piece.
const SECTOR_BYTES: usize = 512;
/// A stamp in a batch: the tag of data that is for the log only, its length, two numbers.
const STAMP_BYTES: usize = 18;
const STAMP_HEAD: [u8; 2] = [3, 16];

/// Bytes that one change of the manifest takes at most: it is synced before the next one begins.
const MANIFEST_WRITE_BYTES_MAX: u64 = 32 << 10;

/// Numbers of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The number of the write.
    pub(super) number: u64,
    /// The newest number that was durable when it was written.
    pub(super) durable: u64,
}

impl Stamp {
    /// Ends a batch with this stamp.
    pub(super) fn put(self, batch: &mut WriteBatch) {
        let mut numbers = [0; 16];
        numbers[..8].copy_from_slice(&self.number.to_le_bytes());
        numbers[8..].copy_from_slice(&self.durable.to_le_bytes());
        batch.put_log_data(numbers);
    }

    fn read(end: &[u8]) -> Option<Stamp> {
        let stamp: &[u8; STAMP_BYTES] = end.last_chunk()?;
        let number = |at: usize| stamp[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        (stamp[..2] == STAMP_HEAD).then_some(Stamp { number: number(2)?, durable: number(10)? })
    }
}

/// Cuts the log of the database in `path`, and returns the number of its last write.
pub(super) fn cut(path: &Path) -> Result<u64, OpenError> {
    let logs = logs(path).map_err(|error| OpenError::io(path, "list", &error))?;
    let read = |error: io::Error| OpenError::io(path, "read the write-ahead log", &error);
    let mut last = 0;
    for (place, log) in logs.iter().enumerate() {
        let mut found = examine(log, last).map_err(read)?;
        let Some(broken) = found.broken else {
            last = found.last;
            continue;
        };
        for later in &logs[place + 1..] {
            let later = examine(later, u64::MAX).map_err(read)?;
            found.next = found.next.or(later.next);
            found.durable = found.durable.max(later.durable);
        }
        match found.verdict(broken) {
            Verdict::Obsolete => last = found.last_of_file,
            // The database finds it as well, and says what it found.
            Verdict::Damaged if !broken.is_unfinished => return Ok(found.last),
            Verdict::Damaged => {
                let reason = format!("{}: what was durable at {} is lost", log.display(), broken.start);
                return Err(OpenError::Unreadable { path: path.to_owned(), reason });
            }
            Verdict::Unfinished => {
                tracing::info!(log = %log.display(), end = broken.start, "cutting what a power loss left unfinished");
                truncate(log, broken.start).map_err(read)?;
                logs[place + 1..].iter().try_for_each(|log| truncate(log, 0)).map_err(read)?;
                return Ok(found.last);
            }
        }
    }
    Ok(last)
}

/// Cuts a change of the manifest that a power loss left unfinished. The manifest (which tables there are) has the form of a
/// log and no stamps, but every change of it is synced before anything depends on it or the next one begins.
pub(super) fn cut_manifest(path: &Path) -> Result<(), OpenError> {
    let read = |error: io::Error| OpenError::io(path, "read the manifest", &error);
    let current = match fs::read_to_string(path.join("CURRENT")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        current => current.map_err(read)?,
    };
    // The database says what is wrong with other names.
    if !current.starts_with("MANIFEST-") {
        return Ok(());
    }
    let manifest = path.join(current.trim_end());
    let Ok(file) = File::open(&manifest) else { return Ok(()) };
    let size = file.metadata().map_err(read)?.len();
    let mut records = Records::new(file);
    loop {
        match records.next().map_err(read)? {
            Step::End => return Ok(()),
            Step::Record { .. } => {}
            Step::Broken(broken) => {
                if broken.is_unfinished && size - broken.start.min(size) <= MANIFEST_WRITE_BYTES_MAX {
                    tracing::info!(
                        end = broken.start,
                        "cutting a change of the manifest that was not finished"
                    );
                    truncate(&manifest, broken.start).map_err(read)?;
                }
                return Ok(());
            }
        }
    }
}

fn truncate(log: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(log)?;
    file.set_len(size)?;
    file.sync_all()
}

/// The files of the log, oldest first.
fn logs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|extension| extension == "log"))
        {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// A record that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Broken {
    // Where it begins.
    start: u64,
    // Part of it was never written.
    is_unfinished: bool,
    // It is whole, and others are missing before it, at the end of the file before.
    is_between_files: bool,
}

/// What a file of the log holds.
#[derive(Debug, Default)]
struct Examined {
    // The number of the last write before what is broken.
    last: u64,
    // The number of the last write in the file.
    last_of_file: u64,
    // The number of the first write behind what is broken, and the newest that a stamp there calls durable.
    next: Option<u64>,
    durable: u64,
    broken: Option<Broken>,
}

/// What to do about a broken record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It was never durable.
    Unfinished,
    /// It was, or may have been.
    Damaged,
    /// Writes between two files are in tables; their file was deleted before the older one.
    Obsolete,
}

impl Examined {
    fn verdict(&self, broken: Broken) -> Verdict {
        // The first missing write; where nothing is known before it, the last one, which is durable later.
        let missing = if self.last > 0 {
            self.last.saturating_add(1)
        } else {
            self.next.map_or(1, |next| next.saturating_sub(1).max(1))
        };
        match self.durable >= missing {
            true if broken.is_between_files => Verdict::Obsolete,
            true => Verdict::Damaged,
            false if broken.is_unfinished => Verdict::Unfinished,
            false => Verdict::Damaged,
        }
    }
}

/// Reads a file of the log behind the write number `before` (0 when unknown), and makes what it reads durable.
fn examine(log: &Path, before: u64) -> io::Result<Examined> {
    let file = File::open(log)?;
    file.sync_all()?;
    let mut records = Records::new(file);
    let mut found = Examined { last: before, last_of_file: before, ..Examined::default() };
    let mut is_first = true;
    loop {
        match records.next()? {
            Step::End => return Ok(found),
            Step::Record { start, stamp } => {
                let Some(stamp) = stamp else { continue };
                if is_first
                    && before != 0
                    && found.broken.is_none()
                    && stamp.number > before.saturating_add(1)
                {
                    found.broken = Some(Broken { start, is_unfinished: true, is_between_files: true });
                }
                is_first = false;
                found.last_of_file = stamp.number;
                if found.broken.is_some() || before == u64::MAX {
                    found.next.get_or_insert(stamp.number);
                    found.durable = found.durable.max(stamp.durable);
                } else {
                    found.last = stamp.number;
                }
            }
            Step::Broken(broken) => drop(found.broken.get_or_insert(broken)),
        }
    }
}

/// One record, or why there is none.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Record { start: u64, stamp: Option<Stamp> },
    // Reading goes on with the next block.
    Broken(Broken),
    End,
}

/// Reads records of the log from the start of a file.
struct Records<R> {
    reader: R,
    block: Vec<u8>,
    block_start: u64,
    // Where in the block the next piece begins.
    at: usize,
    // Where the record began whose pieces are being read, and its last bytes.
    begun: Option<u64>,
    end: Vec<u8>,
}

/// What a piece is of its record.
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

impl<R: Read> Records<R> {
    fn new(reader: R) -> Records<R> {
        Records { reader, block: Vec::new(), block_start: 0, at: 0, begun: None, end: Vec::new() }
    }

    fn next(&mut self) -> io::Result<Step> {
        loop {
            if self.block.len() - self.at < HEAD_BYTES {
                // Less than a head at the end of a whole block is filled with zeros.
                let rest = if self.block.len() == BLOCK_BYTES { 0 } else { self.block.len() - self.at };
                let start = self.begun.unwrap_or(self.block_start + bytes(self.at));
                if rest > 0 || !self.read_block()? {
                    if rest == 0 && self.begun.is_none() {
                        return Ok(Step::End);
                    }
                    self.give_up_block();
                    return Ok(Step::Broken(Broken { start, is_unfinished: true, is_between_files: false }));
                }
                continue;
            }
            let piece = &self.block[self.at..];
            let (start, length) =
                (self.block_start + bytes(self.at), usize::from(u16::from_le_bytes([piece[4], piece[5]])));
            let size = (HEAD_BYTES + length).min(piece.len());
            let is_whole = HEAD_BYTES + length <= piece.len() && checksum_matches(&piece[..size]);
            let kind = piece[6];
            let begun = self.begun;
            if is_whole && matches!((kind, begun), (MIDDLE | LAST, None)) {
                self.at += size;
                return Ok(Step::Broken(Broken { start, is_unfinished: false, is_between_files: false }));
            }
            if !is_whole || (matches!(kind, WHOLE | FIRST) && begun.is_some()) {
                let is_cut = !is_whole && self.block.len() < BLOCK_BYTES && HEAD_BYTES + length > piece.len();
                let is_unfinished = is_cut || (!is_whole && lacks_a_sector(&self.block, self.at, size));
                self.give_up_block();
                let start = begun.unwrap_or(start);
                return Ok(Step::Broken(Broken { start, is_unfinished, is_between_files: false }));
            }
            if begun.is_none() {
                self.end.clear();
            }
            self.end.extend_from_slice(&piece[HEAD_BYTES..][length.saturating_sub(STAMP_BYTES)..length]);
            self.at += size;
            if matches!(kind, FIRST | MIDDLE) {
                self.begun = Some(begun.unwrap_or(start));
                continue;
            }
            self.begun = None;
            return Ok(Step::Record { start: begun.unwrap_or(start), stamp: Stamp::read(&self.end) });
        }
    }

    fn give_up_block(&mut self) {
        self.at = self.block.len();
        self.begun = None;
        if self.block.len() < BLOCK_BYTES {
            // The file ends here: nothing is left over.
            self.block_start += bytes(self.at);
            (self.at, self.block) = (0, Vec::new());
        }
    }

    /// Reads the next block, as much of it as there is; `false` at the end of the file.
    fn read_block(&mut self) -> io::Result<bool> {
        self.block_start += bytes(self.block.len());
        self.block.clear();
        self.at = 0;
        let limit = bytes(BLOCK_BYTES);
        self.reader.by_ref().take(limit).read_to_end(&mut self.block)?;
        Ok(!self.block.is_empty())
    }
}

fn bytes(count: usize) -> u64 {
    // No machine that runs this has addresses of more than 64 bits.
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Zeros at the end of a sector that mean that it was not filled. A record of more than a megabyte is written in several
/// steps, so that the sector between two of them may have seen only the first.
const EMPTY_BYTES: usize = 32;

/// Whether a sector's share of this piece is still empty. Blocks begin at sectors.
fn lacks_a_sector(block: &[u8], at: usize, size: usize) -> bool {
    let sectors = at / SECTOR_BYTES..(at + size).div_ceil(SECTOR_BYTES);
    sectors.into_iter().any(|sector| {
        let share = &block[(sector * SECTOR_BYTES).max(at)..((sector + 1) * SECTOR_BYTES).min(at + size)];
        share[share.len().saturating_sub(EMPTY_BYTES)..].iter().all(|byte| *byte == 0)
    })
}

/// Whether the checksum in the head of a piece is right: CRC-32C over type and body, masked.
fn checksum_matches(piece: &[u8]) -> bool {
    let sum = !piece[6..].iter().fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        (sum >> 8) ^ CHECKSUMS[usize::from(low ^ byte)]
    });
    let masked = sum.rotate_right(15).wrapping_add(0xa282_ead8);
    masked.to_le_bytes() == piece[..4]
}

const CHECKSUMS: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let (mut sum, mut bit) = (byte, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 * (sum & 1));
            bit += 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the database writes one: a batch that ends with a stamp.
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
        // The end is missing without a trace: only the numbers tell.
        let (last, sizes) = cut_logs(&[record(7, 5)], &[record(9, 6), record(10, 6)]);
        assert_eq!((last.unwrap(), sizes), (7, [record(7, 5).len(), 0]));
    }

    #[test]
    fn a_gap_between_files_that_was_durable_is_in_tables() {
        let (last, sizes) = cut_logs(&[record(7, 5)], &[record(9, 8), record(10, 8)]);
        assert_eq!((last.unwrap(), sizes), (10, [record(7, 5).len(), 2 * record(9, 8).len()]));
    }

    #[test]
    fn what_a_later_stamp_calls_durable_is_not_cut() {
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
        // Too much follows for one change: the database is left to refuse.
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
}
