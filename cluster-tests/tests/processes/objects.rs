//! The objects that the process tests write: config maps of one namespace.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use orch_cluster_tests::client::Client;
use serde_json::{Value, json};

/// The namespace that every test makes on its own cluster.
pub(crate) const NAMESPACE: &str = "faults";

/// The collection's path.
pub(crate) const COLLECTION: &str = "/api/v1/namespaces/faults/configmaps";

/// Makes the namespace.
pub(crate) async fn make_namespace(client: &Client) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client.post("/api/v1/namespaces", &body).await?.success()?;
    Ok(())
}

/// A config map called `name` that holds `value`.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

/// The versions of all objects by name, and the list's version. `query` chooses the consistency.
pub(crate) async fn list(client: &Client, query: &str) -> Result<(BTreeMap<String, u64>, u64)> {
    let list = client.get(&format!("{COLLECTION}{query}")).await?.success()?;
    let items = list["items"].as_array().context("a list without items")?;
    let objects = items.iter().map(|item| Ok((name(item)?, version(item)?))).collect::<Result<_>>()?;
    Ok((objects, version(&list)?))
}

/// The object's name.
pub(crate) fn name(object: &Value) -> Result<String> {
    Ok(object["metadata"]["name"].as_str().context("an object without a name")?.to_owned())
}

/// The object's `resourceVersion` as a number, which it is on this server.
pub(crate) fn version(object: &Value) -> Result<u64> {
    Ok(object["metadata"]["resourceVersion"].as_str().context("an object without a version")?.parse()?)
}
