//! What a process draws once: a cluster's identity to be, and its own incarnation. The wall clock for the store.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use orch_proto::Brand;
use orch_raft::member::{Clock, ClusterSeed};
use rand::{Rng, TryRngCore};

use super::error::RunError;

/// The identity this member gives to a cluster it founds.
pub(super) fn seed(brand: &Brand) -> Result<ClusterSeed, RunError> {
    let mut token_key = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut token_key).map_err(|error| RunError::System {
        action: "read random bytes",
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(ClusterSeed { cluster: uuid::Uuid::new_v4().to_string().into(), brand: brand.name.into(), token_key })
}

/// A number no earlier start of this process had.
pub(super) fn incarnation() -> u64 {
    rand::rng().random()
}

/// Milliseconds since 1970.
pub(super) fn clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
