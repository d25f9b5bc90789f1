//! Namespaces and objects that the works need: created before, removed after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use serde_json::json;
use tokio::runtime::Builder;

use super::driver::{Load, drive};
use super::target::Target;
use super::work::{Kind, Script};
use crate::client::{Client, Response};

/// Clients that fill a namespace.
const FILLING_CLIENTS: u32 = 64;

/// Requests under way in [`each`].
const MAKERS: usize = 32;

/// Filling a namespace with the largest number of objects at the slowest rate seen stays well under this.
const FILLING_TIME_MAX: Duration = Duration::from_secs(1800);

/// Creates the namespace `name`, unless it exists.
pub(super) fn make_namespace(target: &Target, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let answer = ask(target, async |client| client.post("/api/v1/namespaces", &body).await)?;
    if answer.status != 409 {
        answer.success().with_context(|| format!("cannot make the namespace {name}"))?;
    }
    Ok(())
}

/// Lets every authenticated user read and write the config maps of `namespace`.
pub(super) fn open_to_all(target: &Target, namespace: &str) -> Result<()> {
    let groups = ask(target, async |client| client.get("/apis").await)?.success()?;
    let groups = groups["groups"].as_array().context("no groups are served")?;
    let mut names = groups.iter().filter_map(|group| group["name"].as_str());
    let rbac = names.rfind(|name| name.starts_with("rbac.")).context("no roles are served")?;
    let body = json!({
        "apiVersion": format!("{rbac}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": "everybody"},
        "subjects": [{"kind": "Group", "apiGroup": rbac, "name": "system:authenticated"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": rbac, "name": "cluster-admin"},
    });
    let path = format!("/apis/{rbac}/v1/namespaces/{namespace}/rolebindings");
    let answer = ask(target, async |client| client.post(&path, &body).await)?;
    if answer.status != 409 {
        answer.success().with_context(|| format!("cannot open the namespace {namespace}"))?;
    }
    Ok(())
}

/// Creates `objects` config maps in `namespace`, named from `o-0` on.
pub(super) fn fill(load: &Load, namespace: &str, payload: &Arc<str>, objects: u32) -> Result<()> {
    let numbers = Arc::new(AtomicU64::new(0));
    let filling = Load {
        clients: FILLING_CLIENTS.min(objects),
        duration: FILLING_TIME_MAX,
        count: Some(u64::from(objects)),
        pids: Vec::new(),
        stages: false,
        ..load.clone()
    };
    let kind = Kind::Create(numbers);
    let outcome = drive(&filling, |client| Script::new(kind.clone(), namespace, payload, client))?;
    if outcome.tally.operations != u64::from(objects) {
        let (made, errors) = (outcome.tally.operations, outcome.tally.errors);
        bail!("only {made} of {objects} objects could be made in {namespace}: {errors:?}");
    }
    Ok(())
}

/// The `resourceVersion` of the config maps of `namespace` now, to start watches from.
pub(super) fn version(target: &Target, namespace: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?limit=1");
    let list = ask(target, async |client| client.get(&path).await)?.success()?;
    let version = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    Ok(version.to_owned())
}

/// Removes the config maps of `namespace` and the namespace.
pub(super) fn remove(target: &Target, namespace: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}");
    let objects = format!("{path}/configmaps");
    ask(target, async |client| client.delete(&objects).await)?.success()?;
    ask(target, async |client| client.delete(&path).await)?.success()?;
    Ok(())
}

/// Calls `make` for each number under `count`, several at once.
pub(super) async fn each(count: u32, make: impl AsyncFn(u32) -> Result<()>) -> Result<()> {
    let number = AtomicU32::new(0);
    let makers = (0..MAKERS).map(async |_| {
        loop {
            let next = number.fetch_add(1, Ordering::Relaxed);
            if next >= count {
                return anyhow::Ok(());
            }
            make(next).await?;
        }
    });
    try_join_all(makers).await?;
    Ok(())
}

/// Sends one request that is not measured.
pub(super) fn ask(
    target: &Target,
    request: impl AsyncFnOnce(Client) -> Result<Response>,
) -> Result<Response> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(target.endpoint.clone(), target.access.clone());
    runtime.block_on(request(client.with_timeout(super::OPERATION_TIMEOUT)))
}
