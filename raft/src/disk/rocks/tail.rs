//! Cuts the torn end, left by a power loss, off the write-ahead log and the manifest.
//!
//! Owns one repair before the database is opened, and the stamps that prove it safe. Writes since the last sync may be
//! on the disk in part: some sectors written, zeros between them. RocksDB skips zeros, and so would replay writes
//! without those before them; a partial record it takes for damage and refuses to open. So this module reads the
//! write-ahead log first, cuts it before its first unfinished record, and empties later files.
//!
//! No durable record may be cut: a flipped bit in a synced record has to stop the start. A record counts as unfinished
//! only if a sector of it is still empty (space of a log file is never reused, so an unwritten sector reads as zeros)
//! and if no later stamp proves that it was synced: every write ends with a stamp, its number and the newest number
//! known to be durable.
//!
//! Invariant: every write that goes into the write-ahead log is stamped, in the order of the numbers, but for the first
//! write of a new database, which names its first generation.
//! Invariant: a log file is synced before its contents are used here.

mod records;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub(super) use self::records::Stamp;
use self::records::{Broken, Records, Step};
use super::OpenError;

/// Most bytes of one change of the manifest. Each is synced before the next begins, so a torn end is no longer.
const MANIFEST_WRITE_BYTES_MAX: u64 = 32 << 10;

/// Cuts the write-ahead log of the database in `path`, and returns the number of its last write.
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
        match found.cause(broken) {
            BreakCause::Obsolete => last = found.last_of_file,
            // Left to RocksDB, which finds the damage as well and reports it.
            BreakCause::Damaged if !broken.is_unfinished => return Ok(found.last),
            BreakCause::Damaged => {
                let reason = format!("{}: what was durable at {} is lost", log.display(), broken.start);
                return Err(OpenError::Unreadable { path: path.to_owned(), reason });
            }
            BreakCause::Unfinished => {
                tracing::info!(log = %log.display(), end = broken.start, "cutting what a power loss left unfinished");
                truncate(log, broken.start).map_err(read)?;
                logs[place + 1..].iter().try_for_each(|log| truncate(log, 0)).map_err(read)?;
                return Ok(found.last);
            }
        }
    }
    Ok(last)
}

/// Cuts a change of the manifest that a power loss left unfinished. The manifest (the list of tables) has the format of
/// the write-ahead log without stamps, but each change is synced before anything depends on it and before the next
/// begins.
pub(super) fn cut_manifest(path: &Path) -> Result<(), OpenError> {
    let read = |error: io::Error| OpenError::io(path, "read the manifest", &error);
    let current = match fs::read_to_string(path.join("CURRENT")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        current => current.map_err(read)?,
    };
    // RocksDB reports any other name.
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

/// The files of the write-ahead log, oldest first.
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

/// The result of reading one log file.
#[derive(Debug, Default)]
struct Examined {
    // The number of the last write before the broken record.
    last: u64,
    // The number of the last write in the file.
    last_of_file: u64,
    // The number of the first write behind the broken record, and the newest that a stamp there calls durable.
    next: Option<u64>,
    durable: u64,
    broken: Option<Broken>,
}

/// The cause of a broken record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakCause {
    /// It was never durable.
    Unfinished,
    /// It was durable, or may have been.
    Damaged,
    /// The writes missing between two files are in tables; their file was deleted before the older one.
    Obsolete,
}

impl Examined {
    fn cause(&self, broken: Broken) -> BreakCause {
        // The first missing write. If no write before it is known: the last missing one, which becomes durable later.
        let missing = if self.last > 0 {
            self.last.saturating_add(1)
        } else {
            self.next.map_or(1, |next| next.saturating_sub(1).max(1))
        };
        match self.durable >= missing {
            true if broken.is_between_files => BreakCause::Obsolete,
            true => BreakCause::Damaged,
            false if broken.is_unfinished => BreakCause::Unfinished,
            false => BreakCause::Damaged,
        }
    }
}

/// Reads the log file that follows the write number `before` (0 when unknown, `u64::MAX` behind a broken record), and
/// syncs it.
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

#[cfg(test)]
mod tests;
