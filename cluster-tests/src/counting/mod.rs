//! Writers that count, and watchers that check that every acknowledged number arrives: the load of the programs that end members
//! of a cluster again and again.
//!
//! Owns the size of the cluster that they work on, and the namespace of what they write. `writers` records the acknowledged
//! numbers, `followers` the events seen; it starts and ends no member.

mod followers;
mod writers;

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

pub(crate) use followers::{Followers, collection, numbered};
pub(crate) use writers::{Doors, Writers, name};

use crate::client::Client;

/// Members of the cluster.
pub(crate) const MEMBERS: usize = 3;

/// The namespace of the written objects.
const NAMESPACE: &str = "counting";

/// Polling interval of conditions: the resolution of what is measured.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Makes the namespace of the written objects.
pub(crate) async fn make_namespace(client: &Client) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client.post("/api/v1/namespaces", &body).await?.success()?;
    Ok(())
}
