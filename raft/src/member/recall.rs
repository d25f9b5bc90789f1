//! What this member knows of another one's disk, told with every request by which it wants a promise.
//!
//! A member that comes back cannot ask everybody who may need its vote: members that were added after its disk was copied
//! are strangers to it. So whoever asks for a vote or sends entries says what it knows of the receiver, and the receiver
//! compares that with its disk before it answers (see returning).
//!
//! Owns putting together what is known. It decides nothing.

use std::sync::Arc;

use orch_proto::store as wire;

use crate::disk::Disk;
use crate::member::codec::log_id_to_wire;
use crate::member::identity::registered;
use crate::member::machine::Applied;
use crate::member::promises::Promises;
use crate::state::State;
use crate::transport::NodeId;

/// Says what is known of a member.
pub(crate) type Recollection = Arc<dyn Fn(u64) -> wire::Recall + Send + Sync>;

/// Tells what `applied` and `promises` know of a member at the time of the question.
pub(crate) fn recollection<D: Disk>(applied: Arc<Applied<D>>, promises: Promises) -> Recollection {
    Arc::new(move |node| recall(&applied.state(), &promises, node))
}

/// What `state` and `promises` have of the member `node`.
pub(crate) fn recall(state: &State, promises: &Promises, node: u64) -> wire::Recall {
    let promised = promises.of(node);
    let promised =
        wire::Promise { term: promised.term, log_id: promised.log_id.as_ref().map(log_id_to_wire) };
    let known = registered(state, NodeId(node));
    let (starts, incarnation) = known.as_ref().map_or((0, 0), |known| (known.starts, known.incarnation));
    let directory = known.map(|known| known.directory).unwrap_or_default();
    wire::Recall { directory, starts, incarnation, promised: Some(promised) }
}
