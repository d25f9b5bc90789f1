//! The recall: what this member knows of a peer's disk, sent with every request that asks the peer for a promise.
//!
//! A member that comes back cannot ask every member that may need its vote: members that were added after its disk was
//! copied are strangers to it. So each vote or append request carries what its sender knows of the receiver's disk, and the
//! receiver compares that with its disk before it answers (see returning).
//!
//! A disk from before all other members joined does not name them. So the recall carries a hash made with the key in the
//! cluster's state, which no stranger has. The receiver can tell its cluster from a machine that only has a certificate.
//!
//! Owns how a recall and its proof are made. Decides nothing.

use std::sync::Arc;

use orch_proto::store as wire;
use sha2::{Digest as _, Sha256};

use crate::disk::Disk;
use crate::member::codec::log_id_to_wire;
use crate::member::identity::{ClusterIdentity, registered};
use crate::member::machine::Applied;
use crate::member::old_disk::promises::Promises;
use crate::state::State;
use crate::transport::NodeId;

/// Sets these hashes apart from other uses of the key.
const DOMAIN: &[u8] = b"orch recall 1";

/// Makes the recall for the member with the given id.
pub(crate) type Recollection = Arc<dyn Fn(u64) -> wire::Recall + Send + Sync>;

/// A function that makes the recalls that `own` sends, from `applied` and `promises` at the time of each call.
pub(crate) fn recollection<D: Disk>(
    own: NodeId,
    applied: Arc<Applied<D>>,
    promises: Promises,
) -> Recollection {
    Arc::new(move |node| recall(own, &applied.state(), &promises, node))
}

/// The recall that `own`, whose state and promises are given, sends to `node`.
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

/// Whether the proof in `recall`, which `from` sent to `own`, was made with the key of the cluster of `state`.
pub(crate) fn is_proved(state: &State, from: NodeId, own: NodeId, recall: &wire::Recall) -> bool {
    proof(state, from, own, recall).is_some_and(|proof| proof == recall.proof)
}

/// The proof that only a holder of the cluster's key can make: a hash of the recall that `from` sends to `to`. `None` while
/// the state has no key.
fn proof(state: &State, from: NodeId, to: NodeId, recall: &wire::Recall) -> Option<bytes::Bytes> {
    let key = ClusterIdentity::read(state)?.token_key;
    let promised = recall.promised.unwrap_or_default();
    let end = promised.log_id.unwrap_or_default();
    let mut said = Sha256::new_with_prefix(DOMAIN);
    for number in [from.0, to.0, recall.starts, recall.incarnation, promised.term, end.term, end.index] {
        said.update(number.to_be_bytes());
    }
    said.update(recall.directory.as_bytes());
    // The recall has no fixed length, so it is hashed by itself before the key is added.
    let proof = Sha256::new_with_prefix(key).chain_update(said.finalize()).finalize();
    Some(bytes::Bytes::copy_from_slice(&proof))
}
