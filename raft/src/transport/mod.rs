//! The network between members, as an interface over frames of bytes.
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

/// The id of a member. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    /// Sixteen hexadecimal digits, for logs and errors. Stored names format the number themselves.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// Id, name and address of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: NodeId,
    /// Its configured name, which its certificate carries.
    pub name: Arc<str>,
    /// `HOST:PORT` of its peer port.
    pub address: Arc<str>,
}

/// Standing of a peer in the cluster, as far as this member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A member of the cluster.
    Member,
    /// Removed from the cluster, for ever.
    Removed,
    /// Not in the membership that this member knows: it may have joined since, or be about to join.
    Stranger,
    /// Its id does not follow from its name.
    Impostor,
}

/// Purpose of a connection. Each purpose has its own connections, so that a snapshot never delays a heartbeat.
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

/// The failure of a call or a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The peer was certainly not reached.
    #[error("cannot reach peer {peer}: {reason}")]
    Unreachable {
        /// Name of the peer, or its address where the name is not known.
        peer: Arc<str>,
        /// Error text of the layer below.
        reason: String,
    },
    /// The peer was certainly not reached, and nothing listens at its address: its process is gone, unless something
    /// between here and there answers in its place.
    #[error("peer {peer} does not listen: {reason}")]
    Refused {
        /// Name of the peer, or its address where the name is not known.
        peer: Arc<str>,
        /// Error text of the layer below.
        reason: String,
    },
    /// The frame may have been delivered.
    #[error("connection to peer {peer} lost: {reason}")]
    Lost {
        /// Name of the peer, or its address where the name is not known.
        peer: Arc<str>,
        /// Error text of the layer below.
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
    /// Sends one frame and waits at most `timeout` for the answer.
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
