//! The cluster's limits: an object in the state, written by the leader from its flags.
//!
//! Owns writing that object. Only the limit in the state counts, never a member's own flag, so that all members decide
//! alike. The leader writes its own flag into the state, so all members should be started with the same value.

use std::sync::Arc;
use std::time::Duration;

use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::LEVEL_STATE_QUOTA;
use crate::member::core::Core;
use crate::member::identity::{cluster_key, cluster_put};
use crate::state::{LIMITS, QUOTA_FIELD, State};
use crate::store::ProposeError;
use crate::transaction::{Condition, Operation, Outcome, Transaction};
use crate::transport::Transport;

/// Between two checks of whether this member leads and the limit in the state equals its flag.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// While this member leads, writes its `state_bytes_max` into the state where that differs. Runs until the member ends.
pub(crate) async fn keep_limits<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    let Some(wanted) = core.options.state_bytes_max else { return };
    loop {
        let state = core.applied.state();
        if core.feature.level.agreed() >= LEVEL_STATE_QUOTA
            && core.leader().is_some_and(|leader| leader.local)
            && state.usage().quota() != Some(wanted).filter(|bytes| *bytes > 0)
        {
            match core.propose(limits(&state, wanted, (core.options.clock)())).await {
                Ok(Outcome::Applied { .. }) => match wanted {
                    0 => tracing::info!("the limit of the cluster's state is lifted"),
                    bytes => tracing::info!(bytes, "the cluster's state is limited"),
                },
                // Another leader wrote the limit meanwhile: the next round compares again.
                Ok(_) => {}
                Err(
                    error @ (ProposeError::NotProposed { .. }
                    | ProposeError::Unknown { .. }
                    | ProposeError::NoSpace { .. }),
                ) => {
                    tracing::debug!(%error, "writing the limits");
                }
                Err(error @ (ProposeError::TooLarge { .. } | ProposeError::Refused { .. })) => {
                    return core.fatal.report(error);
                }
            }
        }
        R::sleep(LOOK_PAUSE).await;
    }
}

/// The transaction that limits the state to `bytes`.
fn limits(state: &State, bytes: u64, now_ms: u64) -> Transaction {
    let key = cluster_key(LIMITS);
    let condition = match state.object(&key) {
        Some(found) => Condition::AtRevision(key, found.revision),
        None => Condition::Absent(key),
    };
    let put = cluster_put(LIMITS, &[(QUOTA_FIELD, &bytes.to_string())]);
    Transaction { proposed_ms: now_ms, conditions: vec![condition], operations: vec![Operation::Put(put)] }
}
