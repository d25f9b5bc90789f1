//! Evicts the victims of a preemption.
//!
//! Owns the order: first the condition with the reason, then the deletion, of exactly the pod that was chosen. A victim that is
//! gone, or replaced by another pod of its name, counts as evicted.

use std::sync::Arc;

use crate::api::core::v1::Pod;
use crate::client::{Client, DeleteOptions, Error, PatchType, Reason};
use crate::wall_time::WallTime;

use super::pod_status::eviction_patch;

/// What became of a victim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Evicted {
    /// Its deletion is under way, by this eviction.
    Deleted {
        /// Its resourceVersion before that.
        version: String,
    },
    /// It was being deleted already.
    Ending,
    /// It was gone already.
    Gone,
}

/// Evicts the pod called `name` with `uid`.
///
/// # Errors
/// Where the server refuses or cannot be reached; the preemption is then tried again with the pod's next plan.
pub(super) async fn evict(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
    scheduler: &Arc<str>,
) -> Result<Evicted, Error> {
    let victim = match client.get::<Pod>(namespace, name).await {
        Ok(victim) => victim,
        Err(error) if error.is(Reason::NotFound) => return Ok(Evicted::Gone),
        Err(error) => return Err(error),
    };
    let metadata = victim.metadata.clone().unwrap_or_default();
    if metadata.uid != uid {
        return Ok(Evicted::Gone);
    }
    if metadata.deletion_timestamp.is_some() {
        return Ok(Evicted::Ending);
    }
    if let Some(mut patch) = eviction_patch(&victim, scheduler, WallTime::now()) {
        // Another pod of this name is not marked.
        patch["metadata"] = serde_json::json!({ "uid": uid });
        let patched = client.patch::<Pod>(namespace, name, "status", PatchType::Strategic, &patch).await;
        match patched {
            Ok(_) => {}
            Err(error) if error.is(Reason::NotFound) || error.is(Reason::Conflict) => {
                return Ok(Evicted::Gone);
            }
            Err(error) => return Err(error),
        }
    }
    let options = DeleteOptions { uid: uid.to_owned(), grace_period_seconds: None };
    match client.delete::<Pod>(namespace, name, &options).await {
        Ok(()) => Ok(Evicted::Deleted { version: metadata.resource_version }),
        Err(error) if error.is(Reason::NotFound) || error.is(Reason::Conflict) => Ok(Evicted::Gone),
        Err(error) => Err(error),
    }
}
