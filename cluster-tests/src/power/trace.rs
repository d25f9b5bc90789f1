//! The records that `shim.c` writes: every change of the directory and every line of standard output, in one order.

use anyhow::{Context, Result, bail};

/// Number of a file in a trace: one for each inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The file was created under this name.
    Create(FileId, String),
    /// The file of this name was opened for the first time. The empty name is the directory.
    Bind(FileId, String),
    /// Bytes were written at an offset.
    Write(FileId, u64, Vec<u8>),
    /// The file got this size.
    Truncate(FileId, u64),
    /// The file was extended at least to the end of this range.
    Allocate(FileId, u64, u64),
    /// A sync began; the number tells syncs apart.
    SyncBegin(FileId, u64),
    /// That sync was reported as done.
    SyncEnd(FileId, u64),
    /// A name changed.
    Rename(String, String),
    /// A file got another name.
    Link(String, String),
    /// A name was removed.
    Unlink(String),
    /// Bytes of standard output.
    Fact(Vec<u8>),
    /// A call that the shim does not model.
    Unknown(String),
}

/// Size of a record's head: kind, file, two numbers, length, as `struct head` of `shim.c`.
const HEAD_BYTES: usize = 1 + 4 + 8 + 8 + 4;

/// Reads a whole trace.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).context("a record is cut")?;
        let number = |at: usize| -> Result<u64> { Ok(u64::from_le_bytes(head[at..at + 8].try_into()?)) };
        let file = FileId(u32::from_le_bytes(head[1..5].try_into()?));
        let length = usize::try_from(u32::from_le_bytes(head[21..25].try_into()?))?;
        let (body, rest) = rest.split_at_checked(length).context("the body of a record is cut")?;
        records.push(record(head[0], file, (number(5)?, number(13)?), body)?);
        bytes = rest;
    }
    Ok(records)
}

fn record(kind: u8, file: FileId, (a, b): (u64, u64), body: &[u8]) -> Result<Record> {
    let text = || String::from_utf8(body.to_vec());
    let pair = || -> Result<(String, String)> {
        let text = text()?;
        let (from, to) = text.split_once('\0').context("two names")?;
        Ok((from.to_owned(), to.to_owned()))
    };
    Ok(match kind {
        1 => Record::Create(file, text()?),
        2 => Record::Bind(file, text()?),
        3 => Record::Write(file, a, body.to_vec()),
        4 => Record::Truncate(file, a),
        5 => Record::Allocate(file, a, b),
        6 => Record::SyncBegin(file, a),
        7 => Record::SyncEnd(file, a),
        8 => pair().map(|(from, to)| Record::Rename(from, to))?,
        9 => pair().map(|(from, to)| Record::Link(from, to))?,
        10 => Record::Unlink(text()?),
        11 => Record::Fact(body.to_vec()),
        12 => Record::Unknown(text()?),
        other => bail!("a record of the unknown kind {other}"),
    })
}
