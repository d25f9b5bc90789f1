//! A file that is rotated when it reaches its size.
//!
//! Owns the names, `audit-2026-01-02T15-04-05.000.log` beside `audit.log` with the time of the rotation in UTC, and how
//! long rotated files are kept. Compressing and removing them is the work of a thread of its own, so that writing waits
//! for neither. Files are for their owner alone.
//!
//! Invariant: one write is never divided between two files.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Mode of the files.
const OWNER_ONLY: u32 = 0o600;

/// The time in the name of a rotated file.
const STAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]-[minute]-[second].[subsecond digits:3]");

/// End of the name of a compressed file, and of one that is being compressed.
const COMPRESSED: &str = ".gz";
const UNFINISHED: &str = ".gz.tmp";

/// Names that are tried for a rotated file: two rotations in one millisecond need two.
const NAMES_MAX: u32 = 1000;

/// When a file is rotated, and what becomes of rotated files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationOptions {
    /// Bytes at which the file is rotated.
    pub bytes_max: u64,
    /// How long rotated files are kept; zero for ever.
    pub age_max: Duration,
    /// Rotated files that are kept; 0 for all.
    pub backups_max: usize,
    /// Rotated files are compressed.
    pub compresses: bool,
}

/// An open file with its rotation.
pub(super) struct RotatedFile {
    path: PathBuf,
    options: RotationOptions,
    file: File,
    bytes: u64,
    /// Wakes the thread that looks after rotated files. One wake-up waits at most: it looks at all files.
    tidy: SyncSender<()>,
}

impl RotatedFile {
    /// Opens the file at `path`, at its end.
    ///
    /// # Errors
    /// It cannot be opened, or the system starts no thread.
    pub(super) fn open(path: &Path, options: RotationOptions) -> io::Result<RotatedFile> {
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        let (tidy, woken) = sync_channel(1);
        let of = path.to_owned();
        std::thread::Builder::new().name("audit-files".to_owned()).spawn(move || {
            while woken.recv().is_ok() {
                if let Err(error) = look_after(&of, options, OffsetDateTime::now_utc()) {
                    tracing::warn!(path = %of.display(), %error, "rotated audit logs are not looked after");
                }
            }
        })?;
        let opened = RotatedFile { path: path.to_owned(), options, file, bytes, tidy };
        opened.wake_tidy();
        Ok(opened)
    }

    /// Gives the file its name in the past, and opens a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let to = free_name(&self.path, OffsetDateTime::now_utc())?;
        match fs::rename(&self.path, to) {
            // Somebody else has moved or removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = open(&self.path)?;
        self.bytes = 0;
        self.wake_tidy();
        Ok(())
    }

    fn wake_tidy(&self) {
        match self.tidy.try_send(()) {
            // It will look at this file, too.
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                tracing::warn!("no thread looks after rotated audit logs");
            }
        }
    }
}

impl Write for RotatedFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.write_all(lines).map(|()| lines.len())
    }

    fn write_all(&mut self, lines: &[u8]) -> io::Result<()> {
        let bytes = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(bytes) > self.options.bytes_max {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        // After a failure some of them may be there.
        self.bytes = self.bytes.saturating_add(bytes);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(OWNER_ONLY).open(path)
}

/// The name of `path` before the time of a rotation, and behind it: `audit-` and `.log`.
fn around_stamp(path: &Path) -> (String, String) {
    let stem = path.file_stem().map(OsString::from).unwrap_or_default();
    let behind = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    (format!("{}-", stem.to_string_lossy()), behind)
}

/// A name that no file has, for the file at `path` rotated at `now`.
fn free_name(path: &Path, now: OffsetDateTime) -> io::Result<PathBuf> {
    let (before, behind) = around_stamp(path);
    for later in 0..NAMES_MAX {
        let stamp =
            (now + Duration::from_millis(u64::from(later))).format(STAMP).map_err(io::Error::other)?;
        let name = path.with_file_name(format!("{before}{stamp}{behind}"));
        let compressed = path.with_file_name(format!("{before}{stamp}{behind}{COMPRESSED}"));
        if !name.try_exists()? && !compressed.try_exists()? {
            return Ok(name);
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free for a rotated audit log"))
}

/// A rotated file.
struct Backup {
    path: PathBuf,
    at: PrimitiveDateTime,
    is_compressed: bool,
}

/// Removes rotated files of `path` that are too old or too many, and compresses the others.
fn look_after(path: &Path, options: RotationOptions, now: OffsetDateTime) -> io::Result<()> {
    let mut backups = backups(path)?;
    backups.sort_by_key(|backup| std::cmp::Reverse(backup.at));
    let oldest = (options.age_max > Duration::ZERO).then(|| now - options.age_max);
    for (place, backup) in backups.into_iter().enumerate() {
        let is_beyond = options.backups_max > 0 && place >= options.backups_max;
        if is_beyond || oldest.is_some_and(|oldest| backup.at.assume_utc() < oldest) {
            fs::remove_file(&backup.path)?;
        } else if options.compresses && !backup.is_compressed {
            compress(&backup.path)?;
        }
    }
    Ok(())
}

/// The rotated files of `path`. Removes those whose compression was broken off.
fn backups(path: &Path) -> io::Result<Vec<Backup>> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let (before, behind) = around_stamp(path);
    let mut backups = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(&before) else { continue };
        let is_unfinished = rest.ends_with(UNFINISHED);
        let plain = rest.strip_suffix(UNFINISHED).or_else(|| rest.strip_suffix(COMPRESSED)).unwrap_or(rest);
        let stamp = plain.strip_suffix(&behind).and_then(|stamp| PrimitiveDateTime::parse(stamp, STAMP).ok());
        let Some(at) = stamp else { continue };
        if is_unfinished {
            fs::remove_file(entry.path())?;
        } else {
            backups.push(Backup { path: entry.path(), at, is_compressed: plain.len() < rest.len() });
        }
    }
    Ok(backups)
}

/// Replaces a file by its compressed form. The file stays until that is complete.
fn compress(path: &Path) -> io::Result<()> {
    let with_end = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let (unfinished, finished) = (with_end(UNFINISHED), with_end(COMPRESSED));
    let mut from = File::open(path)?;
    let to = OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(&unfinished)?;
    let mut encoder = GzEncoder::new(to, Compression::default());
    io::copy(&mut from, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(&unfinished, finished)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use time::macros::datetime;

    use super::*;

    fn options() -> RotationOptions {
        RotationOptions { bytes_max: 10, age_max: Duration::ZERO, backups_max: 0, compresses: false }
    }

    /// Names and contents of the files in `directory`, in the order of their names.
    fn files(directory: &Path) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let mut text = String::new();
                match path.extension().is_some_and(|end| end == "gz") {
                    true => GzDecoder::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap(),
                    false => File::open(&path).unwrap().read_to_string(&mut text).unwrap(),
                };
                (path.file_name().unwrap().to_string_lossy().into_owned(), text)
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_full_file_is_put_aside_and_no_line_is_lost_or_divided() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(&path, "old\n").unwrap();
        let mut file = RotatedFile::open(&path, options()).unwrap();
        for line in ["first\n", "second\n", "longer than a file\n", "x\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        let found = files(directory.path());
        let contents: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(contents, ["old\nfirst\n", "second\n", "longer than a file\n", "x\n"]);
        assert_eq!(found[3].0, "audit.log");
        for (name, _) in &found[..3] {
            assert!(name.starts_with("audit-2") && name.ends_with(".log"), "{name}");
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, OWNER_ONLY, "a new file");
    }

    #[test]
    fn rotated_files_are_compressed_and_removed_as_the_options_say() {
        let now = datetime!(2026-01-10 00:00 UTC);
        let at = |day: u8, end: &str| format!("audit-2026-01-{day:02}T00-00-00.000.log{end}");
        let day = Duration::from_secs(24 * 60 * 60);
        let cases = [
            (options(), vec![at(1, ""), at(5, ".gz"), at(8, "")]),
            (RotationOptions { backups_max: 1, ..options() }, vec![at(8, "")]),
            (RotationOptions { age_max: 6 * day, ..options() }, vec![at(5, ".gz"), at(8, "")]),
            (
                RotationOptions { compresses: true, ..options() },
                vec![at(1, ".gz"), at(5, ".gz"), at(8, ".gz")],
            ),
        ];
        for (options, expected) in cases {
            let directory = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &[u8]| fs::write(directory.path().join(name), text).unwrap();
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(b"text\n").unwrap();
            write(&at(1, ""), b"text\n");
            write(&at(5, ".gz"), &encoder.finish().unwrap());
            write(&at(8, ""), b"text\n");
            write(&at(9, ".gz.tmp"), b"broken off");
            write("audit.log", b"text\n");
            write("audit-other.log", b"text\n");
            look_after(&directory.path().join("audit.log"), options, now).unwrap();
            let found = files(directory.path());
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            let mut all: Vec<&str> = expected.iter().map(String::as_str).collect();
            all.extend(["audit-other.log", "audit.log"]);
            assert_eq!(names, all, "{options:?}");
            assert!(found.iter().all(|(_, text)| text == "text\n"), "{options:?}");
        }
    }
}
