//! The target of a snapshot: a file or standard output, encrypted or not.
//!
//! Owns the end of the writing, with the last chunk of the encryption. The name of the file is given by [`Written`].

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use time::OffsetDateTime;
use time::macros::format_description;

use super::draft::{Beginning, Draft, DraftError, Existing, discard_draft, drafted};
use super::sealed::{Recipient, Sealer};
use super::written::Written;

/// The beginning and the end of the name of a snapshot that is named after the time.
const UNNAMED: &str = "orch-";
const SUFFIX: &str = ".snapshot";

/// Where a snapshot is to go.
pub(super) enum Target {
    Stdout,
    /// A file that an operator named: a later command with the same name resumes it.
    File {
        path: PathBuf,
        existing: Existing,
    },
    /// A file that an operator named, to be encrypted: only the process that began an encryption can continue it.
    Sealed {
        path: PathBuf,
        existing: Existing,
    },
    /// A file named after the time, which no later command has.
    Unnamed(PathBuf),
}

impl Target {
    /// The target called `file`, for a snapshot that is encrypted to `recipients` if there are any: `-` is standard output, and without
    /// a name it is a file named after the time.
    pub(super) fn named(
        file: Option<&Path>,
        existing: Existing,
        recipients: &[Recipient],
    ) -> anyhow::Result<Target> {
        Ok(match file {
            Some(path) if path == Path::new("-") => {
                if io::stdout().is_terminal() {
                    bail!("a snapshot is no text for a terminal: redirect standard output, or name a file");
                }
                Target::Stdout
            }
            Some(path) if recipients.is_empty() => Target::File { path: path.to_owned(), existing },
            Some(path) => Target::Sealed { path: path.to_owned(), existing },
            None => Target::Unnamed(format!("{UNNAMED}{}{SUFFIX}", stamp()?).into()),
        })
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::File { path, .. } | Target::Sealed { path, .. } | Target::Unnamed(path) => {
                path.display().to_string()
            }
        }
    }

    /// Opens it, with what an earlier process left of a file that was named.
    pub(super) fn open(&self) -> Result<Output, DraftError> {
        Ok(match self {
            Target::Stdout => Output::Stdout,
            Target::File { path, existing } => Output::File(Draft::take_up(path, *existing)?),
            // Not over `NAME.part`, which may be another's file: what an encryption left looks like any encrypted file.
            Target::Sealed { path, existing } => Output::File(Draft::create(path, *existing)?),
            Target::Unnamed(path) => Output::File(Draft::create(path, Existing::Refuse)?),
        })
    }
}

/// Removes what killed saves without a name left in `folder`, since no later one has their names. Returns the files. One that
/// another process is writing stays; so does what is left of a save with a name, whatever that is: its file is another one
/// (`NAME.part`).
pub(super) fn discard_unnamed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut discarded = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(target) = name.to_str().and_then(drafted).filter(|target| is_unnamed(target)) else {
            continue;
        };
        if discard_draft(&folder.join(target)) {
            discarded.push(folder.join(name));
        }
    }
    Ok(discarded)
}

/// Whether `name` is that of a snapshot that is named after the time.
fn is_unnamed(name: &str) -> bool {
    let stamp = name.strip_prefix(UNNAMED).and_then(|rest| rest.strip_suffix(SUFFIX));
    stamp.is_some_and(is_stamp)
}

/// Whether `text` has the form of [`stamp`].
pub(crate) fn is_stamp(text: &str) -> bool {
    let form = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 16 && text.bytes().enumerate().all(form)
}

/// Where a snapshot goes.
pub(crate) enum Output {
    File(Draft),
    Stdout,
}

impl Output {
    /// A file at `path`.
    pub(crate) fn file(path: &Path, existing: Existing) -> anyhow::Result<Output> {
        Ok(Output::File(Draft::create(path, existing)?))
    }

    /// Leaves the first `length` bytes of it, which are returned to be read.
    pub(super) fn continue_after(&self, length: u64) -> Result<Option<Beginning>, DraftError> {
        let Output::File(draft) = self else { return Ok(None) };
        draft.cut(length)?;
        draft.beginning(length).map(Some)
    }

    /// Leaves it for the next process, where that can continue it. Returns the file.
    pub(super) fn leave(self) -> Option<PathBuf> {
        match self {
            Output::File(draft) => draft.leave(),
            Output::Stdout => None,
        }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Output::File(draft) => draft.target().display().to_string(),
            Output::Stdout => "standard output".to_owned(),
        }
    }
}

/// The current time in the name of a file: `20261129T101500Z`.
pub(crate) fn stamp() -> anyhow::Result<String> {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    Ok(OffsetDateTime::now_utc().format(form)?)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(draft) => draft.write(bytes),
            Output::Stdout => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(draft) => draft.flush(),
            Output::Stdout => io::stdout().flush(),
        }
    }
}

/// An output, and the encryption before it.
pub(crate) enum Sink {
    Plain(Output),
    Sealed(Box<Sealer<Output>>),
}

impl Sink {
    /// `output`, encrypted to `recipients` if there are any.
    pub(crate) fn new(output: Output, recipients: &[Recipient]) -> anyhow::Result<Sink> {
        match recipients {
            [] => Ok(Sink::Plain(output)),
            recipients => {
                let name = output.name();
                let sealer = Sealer::begin(output, recipients);
                Ok(Sink::Sealed(Box::new(sealer.with_context(|| format!("cannot write {name}"))?)))
            }
        }
    }

    /// Writes what is left. A file has no name yet.
    pub(super) fn end(self) -> anyhow::Result<Written> {
        let name = self.output().name();
        let written = match self {
            Sink::Plain(mut output) => output.flush().map(|()| Written::new(output, None)),
            Sink::Sealed(sealer) => sealer.finish().map(|(output, key)| Written::new(output, Some(key))),
        };
        written.with_context(|| format!("cannot write {name}"))
    }

    /// Leaves what was written for the next process, where that can continue it. Returns the file. Only this process can
    /// continue an encryption.
    pub(super) fn leave(self) -> Option<PathBuf> {
        match self {
            Sink::Plain(output) => output.leave(),
            Sink::Sealed(_) => None,
        }
    }

    fn output(&self) -> &Output {
        match self {
            Sink::Plain(output) => output,
            Sink::Sealed(sealer) => sealer.output(),
        }
    }

    /// The error of a write that failed with `source`.
    pub(super) fn failed(&self, source: io::Error) -> anyhow::Error {
        match self.output() {
            Output::File(draft) => draft.failed(source).into(),
            Output::Stdout => DraftError::Write { path: "standard output".into(), source }.into(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(output) => output.write(bytes),
            Sink::Sealed(sealer) => sealer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(output) => output.flush(),
            Sink::Sealed(sealer) => sealer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sealed::Identity;
    use super::*;

    #[test]
    fn an_encrypted_save_touches_no_part_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, part) = (folder.path().join("monday"), folder.path().join("monday.part"));
        let other = "age-encryption.org/v1\n-> X25519 another's file";
        std::fs::write(&part, other).unwrap();
        let recipients = [Identity::generate().unwrap().recipient()];
        let open = |recipients: &[Recipient]| {
            Target::named(Some(&path), Existing::Refuse, recipients).unwrap().open().unwrap()
        };
        let output = open(&recipients);
        output.continue_after(0).unwrap();
        let mut sink = Sink::new(output, &recipients).unwrap();
        sink.write_all(b"a snapshot").unwrap();
        drop(sink.end().unwrap());
        assert_eq!(std::fs::read_to_string(&part).unwrap(), other);
        let Output::File(draft) = open(&[]) else { panic!("a file was named") };
        assert!(!draft.is_of_a_snapshot().unwrap(), "a save in clear refuses it, too");
        assert_eq!(draft.leave(), Some(part));
    }

    #[test]
    fn files_of_killed_saves_without_a_name_are_discarded_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let left = [
            "monday.part",
            "orch-20261129T101500Z.snapshot",
            // Of saves with names, which the same commands resume.
            "orch-monday.snapshot.part",
            "orch-20261129T101500Z.snapshot.part",
            ".orch-monday.snapshot.partial",
            // Of a scheduled backup.
            ".a-1f2e3d4c-20261129T101500Z.snapshot.partial",
            ".orch-20261129T101500X.snapshot.partial",
        ];
        for name in left.iter().chain(&[".orch-20261129T101500Z.snapshot.partial"]) {
            std::fs::write(at(name), "x").unwrap();
        }
        let busy = Target::Unnamed(at("orch-20261130T101500Z.snapshot")).open().unwrap();
        assert_eq!(discard_unnamed(folder.path()).unwrap(), [at(".orch-20261129T101500Z.snapshot.partial")]);
        assert!(at(".orch-20261130T101500Z.snapshot.partial").exists(), "another process is writing it");
        assert!(left.iter().all(|name| at(name).exists()));
        assert_eq!(busy.leave(), None, "nothing that no command resumes is left");
        assert!(!at(".orch-20261130T101500Z.snapshot.partial").exists());
    }
}
