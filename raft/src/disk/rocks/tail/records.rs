//! A reader of RocksDB's write-ahead log format that goes on past broken records.
//!
//! Owns the format of the log: blocks, pieces of records (RocksDB: fragments) with checksums, and the stamp at the end
//! of each write. It returns a record, a broken record or the end; its caller, `tail`, decides what to cut. No input
//! can panic.

use std::io::{self, Read};

use rocksdb::WriteBatch;

/// Bytes of a block; a record that does not fit is split into pieces.
const BLOCK_BYTES: usize = 32 << 10;
/// Bytes of the header before each piece of a record: checksum, length and type.
const HEAD_BYTES: usize = 7;
/// Bytes of a sector: a power loss leaves each of them old or new, never mixed.
const SECTOR_BYTES: usize = 512;
/// Bytes of a stamp in a batch: the tag of log data (`PutLogData`), its length, two numbers.
const STAMP_BYTES: usize = 18;
pub(super) const STAMP_HEAD: [u8; 2] = [3, 16];

/// The end of every write: its number, and the newest durable one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::disk::rocks) struct Stamp {
    /// The number of the write.
    pub(in crate::disk::rocks) number: u64,
    /// The newest number that was durable before the write.
    pub(in crate::disk::rocks) durable: u64,
}

impl Stamp {
    /// Appends this stamp to a batch.
    pub(in crate::disk::rocks) fn put(self, batch: &mut WriteBatch) {
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

/// A record that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    // Offset in the file at which it begins.
    pub(super) start: u64,
    // A part of it was never written.
    pub(super) is_unfinished: bool,
    // It is whole, but records are missing before it, at the end of the previous file.
    pub(super) is_between_files: bool,
}

/// The outcome of reading the next record. `stamp` is `None` if the record does not end with one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Record { start: u64, stamp: Option<Stamp> },
    // Reading goes on with the next block.
    Broken(Broken),
    End,
}

/// Reads records of the log from the start of a file.
pub(super) struct Records<R> {
    reader: R,
    block: Vec<u8>,
    block_start: u64,
    // Offset in the block of the next piece.
    at: usize,
    // Offset of the record whose pieces are being read, and its last bytes.
    begun: Option<u64>,
    end: Vec<u8>,
}

/// The types of a piece: a record is written whole, or as a first piece, middle ones and a last one.
pub(super) const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

impl<R: Read> Records<R> {
    pub(super) fn new(reader: R) -> Records<R> {
        Records { reader, block: Vec::new(), block_start: 0, at: 0, begun: None, end: Vec::new() }
    }

    pub(super) fn next(&mut self) -> io::Result<Step> {
        loop {
            if self.block.len() - self.at < HEAD_BYTES {
                // The end of a whole block, if shorter than a header, is filled with zeros.
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
            // The file ends here.
            self.block_start += bytes(self.at);
            (self.at, self.block) = (0, Vec::new());
        }
    }

    /// Reads the next block, or the part of it that exists; `false` at the end of the file.
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
    // `usize` has at most 64 bits.
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A sector that ends with this many zeros counts as unwritten. A record of more than a megabyte is written in several
/// steps, so a sector at the boundary of two may hold only the bytes of the first.
const EMPTY_BYTES: usize = 32;

/// Whether any sector of the piece at `at`, `size` bytes long, is unwritten in the piece's part of it. Blocks begin at
/// sector boundaries.
fn lacks_a_sector(block: &[u8], at: usize, size: usize) -> bool {
    let sectors = at / SECTOR_BYTES..(at + size).div_ceil(SECTOR_BYTES);
    sectors.into_iter().any(|sector| {
        let share = &block[(sector * SECTOR_BYTES).max(at)..((sector + 1) * SECTOR_BYTES).min(at + size)];
        share[share.len().saturating_sub(EMPTY_BYTES)..].iter().all(|byte| *byte == 0)
    })
}

/// Whether the checksum in the header of a piece matches: CRC-32C over type and body, masked.
fn checksum_matches(piece: &[u8]) -> bool {
    let sum = !piece[6..].iter().fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        (sum >> 8) ^ CHECKSUMS[usize::from(low ^ byte)]
    });
    let masked = sum.rotate_right(15).wrapping_add(0xa282_ead8);
    masked.to_le_bytes() == piece[..4]
}

pub(super) const CHECKSUMS: [u32; 256] = {
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
