//! `orch snapshot`: saves the state of a running cluster to a file, looks into such files, and restores them.
//!
//! Owns files of snapshots on an operator's machine: how they are written, verified, encrypted and read. The format of their
//! content is `orch_raft::archive`'s. It puts the cluster's identity beside one, and back. It reaches a cluster as any client does, through [`crate::admin`].
//!
//! Invariant: what has the name of a snapshot was verified to its end and is on the disk.

mod copy;
mod draft;
mod extract;
mod inspect;
mod key_files;
mod link;
mod notes;
mod pacing;
mod progress;
mod restore;
mod save;
mod sealed;
mod sink;
mod source;
mod written;

use std::io::Write;

pub(crate) use self::copy::{Copied, copy_unnamed};
pub(crate) use self::draft::{Existing, discard_draft, drafted};
use self::notes::Notes;
pub(crate) use self::sealed::Recipient;
pub(crate) use self::sink::{Output, Sink, is_stamp, stamp};
pub(crate) use self::written::{Tested, prove};
use crate::cli::SnapshotCommand;

/// Carries out `command`. Objects and results go to `out`, progress and warnings to `notes`.
pub fn run(command: &SnapshotCommand, out: &mut impl Write, notes: &mut impl Write) -> anyhow::Result<()> {
    let mut notes = Notes::new(notes);
    match command {
        SnapshotCommand::Save(arguments) => save::save(arguments, &mut notes),
        SnapshotCommand::Inspect(arguments) => inspect::inspect(arguments, out),
        SnapshotCommand::Extract(arguments) => extract::extract(arguments, out, &mut notes),
        SnapshotCommand::Restore(arguments) => restore::restore(arguments, out),
        SnapshotCommand::NewKey(arguments) => new_key(arguments, out),
    }
}

/// Makes a pair of keys.
fn new_key(arguments: &crate::cli::NewKeyArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let identity = sealed::Identity::generate()?;
    let recipient = identity.recipient();
    let mut draft = draft::Draft::create(&arguments.file, draft::Existing::Refuse)?;
    draft
        .write_all(format!("# public key: {recipient}\n{}\n", identity.secret_text().as_str()).as_bytes())?;
    draft.commit()?;
    Ok(writeln!(out, "{recipient}")?)
}

/// A size for people: `12.3 MiB`.
fn readable(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut tenths, mut unit) = (bytes.saturating_mul(10), "bytes");
    for next in UNITS {
        if tenths < 10 * 1024 {
            break;
        }
        (tenths, unit) = (tenths / 1024, next);
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
