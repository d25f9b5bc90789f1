//! Joining: a member is founded with its cluster, or enrolled by its members, and then made known to them.
//!
//!     founding  ---+
//!                  +--> enrolment: may this disk take part? ---> registering: the cluster's state names this start
//!     members   ---+
//!
//! Owns what a member knows before it has a log: its identity, the voters that it was told of, the names of its peers. Only the
//! files of this folder change that; others ask.

pub(crate) mod enrolment;
pub(crate) mod founding;
mod registering;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orch_proto::store as wire;
use parking_lot::Mutex;

use crate::transport::{NodeId, Peer};

/// The knowledge of a member before it has a log. `I`: instants of its clock.
pub(crate) struct Joining<I> {
    /// The identity on this disk: member, data directory, cluster, founding.
    identity: Mutex<wire::Identity>,
    /// Held while the identity is written to the disk.
    identifying: tokio::sync::Mutex<()>,
    /// Enrolment has let this member take part: it votes and replicates.
    enrolled: AtomicBool,
    /// Held while a founding is decided.
    deciding: tokio::sync::Mutex<()>,
    /// While this member waits to be founded or added: the last sender of a request that shows a running cluster, and when
    /// (see `note_speaker`).
    spoken_to_by: Mutex<Option<(NodeId, I)>>,
    /// The voters named in enrolment or in the founding: the peers that this member knows before it has any log.
    introduced: Mutex<Vec<Peer>>,
    /// Names in the certificates of peers that are no members, by id; for messages to operators.
    names_heard: Mutex<BTreeMap<NodeId, Arc<str>>>,
}

impl<I> Joining<I> {
    /// A member with `identity` on its disk. `enrolled`: its disk has been part of a cluster.
    pub(crate) fn new(identity: wire::Identity, enrolled: bool) -> Self {
        Joining {
            identity: Mutex::new(identity),
            identifying: tokio::sync::Mutex::default(),
            enrolled: AtomicBool::new(enrolled),
            deciding: tokio::sync::Mutex::default(),
            spoken_to_by: Mutex::default(),
            introduced: Mutex::default(),
            names_heard: Mutex::default(),
        }
    }

    /// Whether this member takes part.
    pub(crate) fn is_enrolled(&self) -> bool {
        self.enrolled.load(Ordering::Acquire)
    }

    /// Lets this member take part from now on.
    fn enrol(&self) {
        self.enrolled.store(true, Ordering::Release);
    }

    /// The voters that this member was told of.
    pub(crate) fn introduced(&self) -> Vec<Peer> {
        self.introduced.lock().clone()
    }

    /// Whether this member was told that `peer` is a voter.
    pub(crate) fn is_introduced(&self, peer: NodeId) -> bool {
        self.introduced.lock().iter().any(|known| known.id == peer)
    }

    /// Whether this member was told of no voter and of no founding.
    pub(crate) fn knows_of_no_cluster(&self) -> bool {
        self.introduced.lock().is_empty() && self.identity.lock().founding.is_none()
    }

    /// Whether the data directory of this disk is `directory`.
    pub(crate) fn is_of_directory(&self, directory: &str) -> bool {
        self.identity.lock().directory == directory
    }
}
