//! The stream of a snapshot, for clients and for scheduled backups.
//!
//! Owns the state that a snapshot is made of, its header, and the thread that writes it in pieces at a lower priority than requests. A
//! reader that is slow stops the thread; a state that is withdrawn meanwhile, and a reader that leaves, end it.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use orch_raft::archive::{Header, MemberEntry, write_state};
use orch_raft::{ClusterIdentity, Store};
use rustix::process::setpriority_process;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::store::Handle;
use super::resumable::{Root, Streaming};

/// Bytes of a piece of the body: several TLS records, and a small part of the room that answers have.
const PIECE_BYTES: usize = 128 << 10;

/// Pieces made and not sent yet. A client that reads slowly holds half a megabyte.
const PIECES_MAX: usize = 4;

/// Nice value of the threads: requests get three times its share of a busy processor.
const NICENESS: i32 = 5;

/// The point in time that a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Point {
    /// A quorum was asked: the cluster has given out no later revision before.
    Newest,
    /// The member may have been left behind for any time, so that the snapshot has no time (docs/decisions/0039).
    Held,
}

/// Starts the thread that writes the state of `root` as pieces of a snapshot, but for the first `from` bytes. The last piece is an
/// error where the snapshot is not whole. `streaming` is told how it ends; what it holds is free then.
pub(in crate::run) fn stream(
    handle: Handle,
    root: Arc<Root>,
    from: u64,
    streaming: Option<Streaming>,
) -> io::Result<Receiver<io::Result<Bytes>>> {
    let (sender, receiver) = channel(PIECES_MAX);
    std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
        yield_to_requests();
        let revision = root.state.applied().0;
        let revocations = root.revocations;
        let pieces =
            Pieces { sender: sender.clone(), piece: BytesMut::new(), to_skip: from, handle, revocations };
        match write_state(pieces, &root.origin, &root.state).and_then(Pieces::end) {
            Ok(()) => {
                tracing::info!(revision, "a snapshot was sent");
                if let Some(streaming) = streaming {
                    streaming.end();
                }
            }
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                tracing::info!(revision, "the reader of a snapshot left before its end");
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                tracing::info!(revision, %error, "a reader asked for bytes that a snapshot has not");
                // The state is kept: the one who has its beginning may ask for the right byte.
                let _ = sender.blocking_send(Err(error));
            }
            Err(error) => {
                tracing::warn!(revision, %error, "a snapshot was not sent to its end");
                // Its state may not be sent again.
                if let Some(streaming) = streaming {
                    streaming.withdraw();
                }
                // An error instead of a plain end, so that the stream is not taken for whole. The reader may be gone.
                let _ = sender.blocking_send(Err(error));
            }
        }
    })?;
    Ok(receiver)
}

/// Gives the thread the priority of snapshots.
pub(in crate::run) fn yield_to_requests() {
    if let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a snapshot is made at the priority of requests");
    }
}

/// The state of now, and the header of its snapshot.
pub(in crate::run) fn root(handle: &Handle, cluster: &ClusterIdentity, point: Point) -> Root {
    // The count is read before the state: a state that is withdrawn in between is not sent to its end.
    let revocations = handle.revocations();
    let origin = origin(handle, cluster, point);
    Root { origin, state: handle.state(), revocations }
}

/// The header of a snapshot of now, without the contents.
fn origin(handle: &Handle, cluster: &ClusterIdentity, point: Point) -> Header {
    let status = handle.status();
    let member = |member: &orch_raft::member::MemberStatus| MemberEntry {
        name: member.peer.name.to_string(),
        address: member.peer.address.to_string(),
        voter: member.voter,
    };
    Header {
        cluster: cluster.cluster.clone(),
        brand: cluster.brand.clone(),
        time_ms: match point {
            Point::Newest => super::super::identity::clock()(),
            Point::Held => 0,
        },
        feature_level: status.feature_level,
        program: orch_proto::version::program(),
        member: status.node.name.to_string(),
        members: status.members.iter().map(member).collect(),
        ..Header::default()
    }
}

/// Passes written bytes on to the body in pieces, and waits while the client does not read.
struct Pieces {
    sender: Sender<io::Result<Bytes>>,
    piece: BytesMut,
    /// Bytes that the reader has already.
    to_skip: u64,
    handle: Handle,
    revocations: u64,
}

impl Pieces {
    /// Ends the stream, whose last piece was sent.
    ///
    /// # Errors
    /// It has fewer bytes than were to be skipped.
    fn end(self) -> io::Result<()> {
        match self.to_skip {
            0 => Ok(()),
            over => {
                let reason = format!("the stream ends {over} bytes before the one that is asked for");
                Err(io::Error::new(ErrorKind::InvalidInput, reason))
            }
        }
    }

    /// Requires that the state was not withdrawn, and that the reader is still there, also while nothing is sent to it.
    fn check(&self) -> io::Result<()> {
        if self.handle.revocations() != self.revocations {
            return Err(io::Error::other("the state of this member was withdrawn meanwhile; ask again"));
        }
        if self.sender.is_closed() { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.to_skip > 0 {
            let skipped = usize::try_from(self.to_skip).unwrap_or(usize::MAX).min(bytes.len());
            self.to_skip -= u64::try_from(skipped).unwrap_or(self.to_skip);
            return self.check().map(|()| skipped);
        }
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        let piece = self.piece.split().freeze();
        match piece.is_empty() {
            true => Ok(()),
            false => self.sender.blocking_send(Ok(piece)).map_err(|_| ErrorKind::BrokenPipe.into()),
        }
    }
}
