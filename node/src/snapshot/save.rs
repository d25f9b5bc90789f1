//! `orch snapshot save`: from a member's stream to a verified file.
//!
//! Owns the order: the target is opened before a member is asked; what an earlier process left of the same file is resumed
//! where a member can, and is discarded, with a word, where none can; a stream that is lost begins anew a few times. The stream itself is
//! [`super::link`]'s, and its verification [`super::copy`]'s.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use orch_raft::archive::{Header, KeyBundle, write_keys};
use tokio::sync::mpsc::channel;

use super::copy::copy_rest;
use super::draft::Existing;
use super::inspect::total;
use super::link::{Begun, Ending, Link, receive_bytes};
use super::notes::Notes;
use super::sealed::Recipient;
use super::sink::{Output, Sink, Target, discard_unnamed};
use super::{key_files, readable};
use crate::admin::Access;
use crate::cli::SaveArgs;

/// Pieces that were received and not verified yet, each of some kilobytes.
const PIECES_MAX: usize = 64;

/// Streams that are begun before the save fails: each of them was lost with its member, and those of a rolling restart are three.
const STREAMS_MAX: u32 = 4;

/// Saves a snapshot.
pub(super) fn save(arguments: &SaveArgs, notes: &mut Notes<impl Write>) -> anyhow::Result<()> {
    let recipients = recipients(arguments)?;
    let access = Access::of(&arguments.access)?;
    let keys = key_files::collect(&arguments.keys, &recipients, &access)?;
    let existing = if arguments.replace { Existing::Replace } else { Existing::Refuse };
    let target = Target::named(arguments.file.as_deref(), existing, &recipients)?;
    let name = target.name();
    if recipients.is_empty() {
        notes.tell(format_args!(
            "warning: {name} will show every secret of the cluster to whoever reads it; encrypt it with --encrypt-to"
        ));
    }
    if arguments.file.is_none() {
        for part in discard_unnamed(Path::new(".")).context("cannot look for what interrupted saves left")? {
            notes.tell(format_args!("removed {}; only a save with a name is resumed", part.display()));
        }
    }
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let saving =
        Saving { arguments, access: &access, recipients: &recipients, keys: keys.as_ref(), target: &target };
    let Saved { server, header, bytes } = runtime.block_on(saving.save(notes))?;
    let seconds = began.elapsed().as_secs_f64();
    let (revision, objects) = (header.revision, total(&header).objects);
    let size = readable(bytes);
    let with_keys = if keys.is_some() { ", with the cluster's identity" } else { "" };
    notes.tell(format_args!(
        "saved {name}: revision {revision}, {objects} objects, {size} from {server} in {seconds:.1} s, verified{with_keys}"
    ));
    Ok(())
}

fn recipients(arguments: &SaveArgs) -> anyhow::Result<Vec<Recipient>> {
    // Without the text: it may be the private key, given by mistake.
    let parse = |(place, key): (usize, &String)| {
        Recipient::parse(key).with_context(|| format!("--encrypt-to, key {}", place + 1))
    };
    arguments.encrypt_to.iter().enumerate().map(parse).collect()
}

/// The source and the destination of a snapshot that is being saved.
struct Saving<'a> {
    arguments: &'a SaveArgs,
    access: &'a Access,
    recipients: &'a [Recipient],
    keys: Option<&'a KeyBundle>,
    target: &'a Target,
}

/// A snapshot that has its name.
struct Saved {
    /// The member that sent it, or its end.
    server: String,
    header: Header,
    /// Bytes of the stream.
    bytes: u64,
}

impl Saving<'_> {
    async fn save(&self, notes: &mut Notes<impl Write>) -> anyhow::Result<Saved> {
        for number in 1..=STREAMS_MAX {
            if let Some(saved) = self.stream(number, notes).await? {
                return Ok(saved);
            }
            notes.tell("the snapshot begins anew, of a later revision");
        }
        bail!("{STREAMS_MAX} streams were lost, each with its member: look with `orch cluster status`")
    }

    /// Saves a stream: what is left of an earlier one, at `number` one, or a new one. `None` where it was lost and another
    /// one can be begun.
    async fn stream(&self, number: u32, notes: &mut Notes<impl Write>) -> anyhow::Result<Option<Saved>> {
        // Before a member is asked: for a folder that cannot be written to, no member has to send its state.
        let output = self.target.open()?;
        let linked = match self.begun(number, &output, notes) {
            Ok(begun) => self.link(begun, notes).await,
            Err(error) => Err(error),
        };
        let (mut link, length) = match linked {
            Ok(link) => link,
            Err(error) => {
                // The content that an earlier process left stays, whatever it is.
                if has_content(&output) {
                    output.leave();
                }
                return Err(error);
            }
        };
        let beginning = output.continue_after(length)?;
        let mut sink = Sink::new(output, self.recipients)?;
        if let Some(keys) = self.keys
            && let Err(error) = write_keys(&mut sink, keys, orch_proto::version::program())
        {
            return Err(sink.failed(error));
        }
        let limit = self.arguments.rate_limit;
        let (sender, receiver) = channel(PIECES_MAX);
        let copying = tokio::task::spawn_blocking(move || match beginning {
            Some(beginning) => copy_rest(beginning, receiver, sink, limit),
            None => copy_rest(std::io::empty(), receiver, sink, limit),
        });
        let ending = link.feed(sender, notes).await;
        let copied = copying.await.context("the thread that verifies the snapshot ended early")?;
        match (copied, ending, self.target) {
            (Err(_), Ending::Lost, target) if number < STREAMS_MAX && !matches!(target, Target::Stdout) => {
                Ok(None)
            }
            (copied, _, _) => {
                let server = link.server;
                let failed = || format!("the snapshot from {server} was not saved");
                let (header, bytes) = copied.with_context(failed)?;
                Ok(Some(Saved { server, header, bytes }))
            }
        }
    }

    /// The beginning of a stream in `output`, at `number` one: a later stream is another one. Says what is discarded.
    ///
    /// # Errors
    /// The file cannot be read, or is another than the part of a snapshot.
    fn begun(
        &self,
        number: u32,
        output: &Output,
        notes: &mut Notes<impl Write>,
    ) -> anyhow::Result<Option<Begun>> {
        let (Output::File(draft), Target::File { .. }) = (output, self.target) else { return Ok(None) };
        if !draft.is_of_a_snapshot()? {
            let part = draft.path().display();
            bail!("{part} is there and is no part of a snapshot: move it away, or give another name");
        }
        if number > 1 || draft.length()? == 0 {
            return Ok(None);
        }
        let begun = Begun::of(draft)?;
        if begun.is_none() {
            let name = self.target.name();
            notes.tell(format_args!(
                "what an interrupted save left of {name} is discarded: it is no beginning of a snapshot"
            ));
        }
        Ok(begun)
    }

    /// A stream, and the bytes of it that are there already.
    async fn link(
        &self,
        begun: Option<Begun>,
        notes: &mut Notes<impl Write>,
    ) -> anyhow::Result<(Link<'_>, u64)> {
        let receive_bytes = self.arguments.rate_limit.map(receive_bytes);
        if let Some(begun) = begun {
            let (name, size) = (self.target.name(), readable(begun.bytes));
            match Link::take_up(self.access, receive_bytes, &begun).await {
                Ok(link) => {
                    notes.tell(format_args!("resuming {name} after {size}, from {}", link.server));
                    return Ok((link, begun.bytes));
                }
                Err(error) => notes.tell(format_args!(
                    "what an interrupted save left of {name} ({size}) cannot be resumed, and is discarded: {error}"
                )),
            }
        }
        Ok((Link::begin(self.access, receive_bytes, self.arguments.held).await?, 0))
    }
}

/// Whether an earlier process left something in the file. One whose length cannot be read counts as such.
fn has_content(output: &Output) -> bool {
    match output {
        Output::File(draft) => draft.length().map_or(true, |length| length > 0),
        Output::Stdout => false,
    }
}
