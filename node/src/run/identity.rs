//! Random values drawn once per process, the seed of a cluster's identity and the incarnation, and the store's wall
//! clock.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use orch_proto::Brand;
use orch_raft::member::{Clock, ClusterSeed};
use rand::{Rng, TryRngCore};

use super::error::RunError;

/// The identity of a cluster that this member founds.
pub(crate) fn seed(brand: &Brand) -> Result<ClusterSeed, RunError> {
    let mut token_key = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut token_key).map_err(|error| RunError::System {
        action: "read random bytes",
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(ClusterSeed { cluster: uuid::Uuid::new_v4().to_string().into(), brand: brand.name.into(), token_key })
}

/// A random 64-bit number that distinguishes this start from earlier ones.
pub(crate) fn incarnation() -> u64 {
    rand::rng().random()
}

/// A wall clock in milliseconds since the Unix epoch.
pub(crate) fn clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
