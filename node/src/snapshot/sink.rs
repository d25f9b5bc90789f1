//! Where a snapshot goes: a file or standard output, encrypted or not.
//!
//! Owns the end of the writing, with the last chunk of the encryption. The name of the file is given by [`Written`].

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use time::OffsetDateTime;
use time::macros::format_description;

use super::draft::{Draft, DraftError, Existing};
use super::sealed::{Recipient, Sealer};
use super::written::Written;

/// Where a snapshot goes.
pub(crate) enum Output {
    File(Draft),
    Stdout,
}

impl Output {
    /// The output called `file`: `-` is standard output, and without a name it is a file named after the time.
    pub(super) fn named(file: Option<&Path>, existing: Existing) -> anyhow::Result<Output> {
        match file {
            Some(path) if path == Path::new("-") => {
                if io::stdout().is_terminal() {
                    bail!("a snapshot is no text for a terminal: redirect standard output, or name a file");
                }
                Ok(Output::Stdout)
            }
            Some(path) => Output::file(path, existing),
            None => Output::file(Path::new(&format!("orch-{}.snapshot", stamp()?)), existing),
        }
    }

    /// A file at `path`.
    pub(crate) fn file(path: &Path, existing: Existing) -> anyhow::Result<Output> {
        Ok(Output::File(Draft::create(path, existing)?))
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
