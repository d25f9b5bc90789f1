//! What a member needs of the network between members, as an interface over frames of bytes.
//!
//! Owns the contract between the consensus adapter and whatever carries its messages: tonic under mutual TLS in a
//! process, a simulated network in a simulation. A transport never looks into a frame, and never delivers one from a
//! peer whose identity it has not checked.

pub mod tonic;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

/// A member, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    /// Sixteen hexadecimal digits, in logs and in errors. Stored names spell out their own form.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// Where a member is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub id: NodeId,
    /// Its configured name, which its certificate carries.
    pub name: Arc<str>,
    /// `HOST:PORT` of its peer port.
    pub address: Arc<str>,
}

/// What a peer is to a member's cluster, as that member knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It belongs to it.
    Member,
    /// It was removed from it, for ever.
    Removed,
    /// It may belong to it by now, or be about to.
    Stranger,
    /// Its id is not the one that follows from its name.
    Impostor,
}

/// What a connection is for: each purpose has its own, so that a snapshot never delays a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Votes, pre-votes, heartbeats, leader transfer, read barriers, membership requests.
    Control,
    /// Log replication.
    Append,
    /// Snapshots.
    Snapshot,
    /// Writes forwarded to the leader.
    Forward,
}

/// Why a frame was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The peer was certainly not reached.
    #[error("cannot reach peer {peer}: {reason}")]
    Unreachable {
        /// Its name.
        peer: Arc<str>,
        /// What the layer below said.
        reason: String,
    },
    /// The peer was certainly not reached, and nothing listens at its address: its process is gone, unless something
    /// between here and there answers in its place.
    #[error("peer {peer} does not listen: {reason}")]
    Refused {
        /// Its name.
        peer: Arc<str>,
        /// What the layer below said.
        reason: String,
    },
    /// The frame may have been delivered.
    #[error("connection to peer {peer} lost: {reason}")]
    Lost {
        /// Its name.
        peer: Arc<str>,
        /// What the layer below said.
        reason: String,
    },
}

/// One end of an ordered, bounded stream of frames. It ends when either side drops.
#[derive(Debug)]
pub struct Duplex {
    /// Frames to the other side.
    pub sender: mpsc::Sender<Bytes>,
    /// Frames from the other side, in the order sent.
    pub receiver: mpsc::Receiver<Bytes>,
}

/// Sends frames to peers. Cheap to clone.
pub trait Transport: Clone + Send + Sync + 'static {
    /// One frame there, one frame back, within `timeout`.
    fn call(
        &self,
        peer: &Peer,
        purpose: Purpose,
        frame: Bytes,
        timeout: Duration,
    ) -> impl Future<Output = Result<Bytes, TransportError>> + Send;

    /// Opens a stream of frames.
    fn open(
        &self,
        peer: &Peer,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Duplex, TransportError>> + Send;
}

/// Receives frames from peers whose identity the transport has checked.
pub trait PeerService: Send + Sync + 'static {
    /// Answers one frame. An error text ends the call with a failure that the peer sees.
    fn call(&self, from: NodeId, purpose: Purpose, frame: Bytes)
    -> BoxFuture<'static, Result<Bytes, String>>;

    /// Serves a stream until either side ends it.
    fn stream(&self, from: NodeId, purpose: Purpose, duplex: Duplex) -> BoxFuture<'static, ()>;
}
