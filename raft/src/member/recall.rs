//! What this member knows of another one's disk, told with every request by which it wants a promise.
//!
//! A member that comes back cannot ask everybody who may need its vote: members that were added after its disk was copied
//! are strangers to it. So whoever asks for a vote or sends entries says what it knows of the receiver, and the receiver
//! compares that with its disk before it answers (see returning).
//!
//! A member that has forgotten all the others cannot ask who they are. What is told is hashed with the key of the cluster's
//! state, which no stranger has: so it can tell them from somebody that only has a certificate.
//!
//! Owns putting together what is known, and the proof of it. It decides nothing.

use std::sync::Arc;

use orch_proto::store as wire;
use sha2::{Digest as _, Sha256};

use crate::disk::Disk;
use crate::member::codec::log_id_to_wire;
use crate::member::identity::{ClusterIdentity, registered};
use crate::member::machine::Applied;
use crate::member::promises::Promises;
use crate::state::State;
use crate::transport::NodeId;

/// Sets these hashes apart from other uses of the key.
const DOMAIN: &[u8] = b"orch recall 1";

/// Says what is known of a member.
pub(crate) type Recollection = Arc<dyn Fn(u64) -> wire::Recall + Send + Sync>;

/// Tells what `applied` and `promises` know of a member at the time of the question.
pub(crate) fn recollection<D: Disk>(
    own: NodeId,
    applied: Arc<Applied<D>>,
    promises: Promises,
) -> Recollection {
    Arc::new(move |node| recall(own, &applied.state(), &promises, node))
}

/// What `state` and `promises` of the member `own` have of the member `node`.
pub(crate) fn recall(own: NodeId, state: &State, promises: &Promises, node: u64) -> wire::Recall {
    let promised = promises.of(node);
    let promised =
        wire::Promise { term: promised.term, log_id: promised.log_id.as_ref().map(log_id_to_wire) };
    let known = registered(state, NodeId(node));
    let (starts, incarnation) = known.as_ref().map_or((0, 0), |known| (known.starts, known.incarnation));
    let directory = known.map(|known| known.directory).unwrap_or_default();
    let mut recall =
        wire::Recall { directory, starts, incarnation, promised: Some(promised), proof: bytes::Bytes::new() };
    recall.proof = proof(state, own, NodeId(node), &recall).unwrap_or_default();
    recall
}

/// Whether `from` has a state of the cluster that `state` is of: it proves so with what it says to `own`.
pub(crate) fn is_proved(state: &State, from: NodeId, own: NodeId, recall: &wire::Recall) -> bool {
    proof(state, from, own, recall).is_some_and(|proof| proof == recall.proof)
}

/// What somebody can say only who has the cluster's key: the hash of what `from` tells `to`. `None` before there is a key.
fn proof(state: &State, from: NodeId, to: NodeId, recall: &wire::Recall) -> Option<bytes::Bytes> {
    let key = ClusterIdentity::read(state)?.token_key;
    let promised = recall.promised.unwrap_or_default();
    let end = promised.log_id.unwrap_or_default();
    let mut said = Sha256::new_with_prefix(DOMAIN);
    for number in [from.0, to.0, recall.starts, recall.incarnation, promised.term, end.term, end.index] {
        said.update(number.to_be_bytes());
    }
    said.update(recall.directory.as_bytes());
    // Hashed before the key comes in: what is said has no fixed length.
    let proof = Sha256::new_with_prefix(key).chain_update(said.finalize()).finalize();
    Some(bytes::Bytes::copy_from_slice(&proof))
}
