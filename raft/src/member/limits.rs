//! The cluster's limits: what the leader's flags say, as an object that all members apply.
//!
//! Owns writing it. A member's own flag limits nothing: only what stands in the state does, so that all decide alike.
//! The leader brings the state in line with its flag; members are to be started with the same one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Runtime;
use crate::disk::Disk;
use crate::fields::Fields;
use crate::key::Key;
use crate::member::core::Core;
use crate::object::Index;
use crate::state::{CLUSTER_RESOURCE, LIMITS, QUOTA_FIELD, State};
use crate::transaction::{Condition, Operation, Put, Transaction};
use crate::transport::Transport;

/// Between two looks at whether this member leads and the limit is what it should be.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Writes the limit of the state for as long as this member lives, whenever it leads.
pub(crate) async fn keep_limits<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    let Some(wanted) = core.options.state_bytes_max else { return };
    loop {
        let state = core.applied.state();
        if core.leader().is_some_and(|leader| leader.local)
            && state.usage().quota() != Some(wanted).filter(|bytes| *bytes > 0)
        {
            let set = core.propose(limits(&state, wanted, (core.options.clock)())).await;
            match set {
                Ok(_) => tracing::info!(bytes = wanted, "the cluster's state is limited (0: it is not)"),
                Err(error) => tracing::debug!(%error, "writing the limits"),
            }
        }
        R::sleep(LOOK_PAUSE).await;
    }
}

/// The transaction that limits the state to `bytes`.
fn limits(state: &State, bytes: u64, now_ms: u64) -> Transaction {
    const HEAD: &str = "{\"metadata\":{\"resourceVersion\":\"";
    let key = Key::from_stored(Arc::from(CLUSTER_RESOURCE), Arc::from(LIMITS));
    let condition = match state.object(&key) {
        Some(found) => Condition::AtRevision(key.clone(), found.revision),
        None => Condition::Absent(key.clone()),
    };
    let json = Bytes::from(format!("{HEAD}\"}},\"name\":\"{LIMITS}\"}}"));
    let index = Index { fields: Fields::new([(QUOTA_FIELD, bytes.to_string())]), ..Index::default() };
    #[expect(clippy::cast_possible_truncation, reason = "the length of a constant of 32 bytes")]
    let put = Put { key, json, revision_at: HEAD.len() as u32, index };
    Transaction { proposed_ms: now_ms, conditions: vec![condition], operations: vec![Operation::Put(put)] }
}
