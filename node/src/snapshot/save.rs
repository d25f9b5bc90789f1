//! `orch snapshot save`: from a member's stream to a verified file.
//!
//! Owns the request and the passing on of its answer, through a bounded channel, to the thread of [`super::copy`]. After any
//! failure there is no file.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::copy::copy;
use super::draft::Existing;
use super::inspect::total;
use super::readable;
use super::sealed::Recipient;
use super::sink::{Output, Sink};
use crate::admin::{Access, download};
use crate::cli::SaveArgs;

/// The member's path.
const PATH: &str = "/orch/v1/snapshot";

/// Pieces that were received and not verified yet, each of some kilobytes.
const PIECES_MAX: usize = 64;

/// Longest wait for the next piece of a stream. A member sends one in well under a second where the client reads; this is also
/// more than a change of the route to it takes.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Saves a snapshot.
pub(super) fn save(arguments: &SaveArgs, notes: &mut impl Write) -> anyhow::Result<()> {
    let recipients = recipients(arguments)?;
    let access = Access::of(&arguments.access)?;
    // Before a member is asked: for a folder that cannot be written to, no member has to send its state.
    let existing = if arguments.replace { Existing::Replace } else { Existing::Refuse };
    let output = Output::named(arguments.file.as_deref(), existing)?;
    let name = output.name();
    if recipients.is_empty() {
        writeln!(
            notes,
            "warning: {name} will show every secret of the cluster to whoever reads it; encrypt it with --encrypt-to"
        )?;
    }
    let sink = Sink::new(output, &recipients)?;
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let path = if arguments.held { format!("{PATH}?point=held") } else { PATH.to_owned() };
    let limit = arguments.rate_limit;
    let (server, header, bytes) = runtime.block_on(async {
        let (server, response) = download(&access, &path).await?;
        let (sender, receiver) = channel(PIECES_MAX);
        let copying = tokio::task::spawn_blocking(move || copy(receiver, sink, limit));
        feed(response.into_body(), sender).await;
        let copied = copying.await.context("the thread that verifies the snapshot ended early")?;
        let (header, bytes) = copied.with_context(|| format!("the snapshot from {server} was not saved"))?;
        anyhow::Ok((server, header, bytes))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let (revision, objects) = (header.revision, total(&header).objects);
    let size = readable(bytes);
    writeln!(
        notes,
        "saved {name}: revision {revision}, {objects} objects, {size} from {server} in {seconds:.1} s, verified"
    )?;
    Ok(())
}

fn recipients(arguments: &SaveArgs) -> anyhow::Result<Vec<Recipient>> {
    // Without the text: it may be the private key, given by mistake.
    let parse = |(place, key): (usize, &String)| {
        Recipient::parse(key).with_context(|| format!("--encrypt-to, key {}", place + 1))
    };
    arguments.encrypt_to.iter().enumerate().map(parse).collect()
}

/// Passes the body of a response on. Its failure is passed on, too; it ends when the other side has.
async fn feed(mut body: Incoming, sender: Sender<io::Result<Bytes>>) {
    loop {
        let piece = match timeout(IDLE_MAX, body.frame()).await {
            Ok(None) => return,
            Err(_) => {
                let reason = format!("nothing came for {} s", IDLE_MAX.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, reason))
            }
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Ok(data),
                // Trailers: the format has its own end.
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
        };
        let is_last = piece.is_err();
        if sender.send(piece).await.is_err() || is_last {
            return;
        }
    }
}
