//! Pods with tens of thousands of references each, for the graph by which the Node authorizer decides.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::stage::{Stage, TENANT};

/// Pods, and references of each: half a megabyte of JSON, which owners of fields make 1.4 MB in the store.
const PODS: usize = 174;
const REFERENCES: usize = 25_000;
/// Pods that are written at once.
const WRITERS: usize = 2;
/// Node of the pods.
const NODE: &str = "attacked";
/// Longest wait of the kubelet.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A cluster that holds such pods and has just started.
pub(super) async fn prepare() -> Result<Stage> {
    let stage = Stage::start(Vec::new()).await?;
    stage.make("/api/v1/nodes", json!({"metadata": {"name": NODE}})).await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let tenant = stage.tenant.with_timeout(WAIT_MAX);
        writers.spawn(async move {
            for number in (writer..PODS).step_by(WRITERS) {
                let path = format!("/api/v1/namespaces/{TENANT}/pods");
                tenant.post(&path, &pod(number)).await?.success()?;
            }
            anyhow::Ok(())
        });
    }
    writers.join_all().await.into_iter().collect::<Result<Vec<()>>>().context("the pods are not accepted")?;
    stage.restart().await
}

fn pod(number: usize) -> Value {
    let first = number * REFERENCES;
    let names: Vec<_> = (first..first + REFERENCES).map(|at| json!({"name": format!("{at:x}")})).collect();
    json!({
        "metadata": {"name": format!("p{number}")},
        "spec": {"nodeName": NODE, "imagePullSecrets": names, "containers": [{"name": "c", "image": "i"}]},
    })
}

/// A kubelet asks for a secret of one of the pods.
pub(super) async fn attack(stage: &Stage) -> Result<String> {
    let user = format!("system:node:{NODE}");
    let headers = [("impersonate-user", user.as_str()), ("impersonate-group", "system:nodes")];
    let admin = stage.admin.with_timeout(WAIT_MAX);
    let began = Instant::now();
    let ask = async |name: &str| {
        let path = format!("/api/v1/namespaces/{TENANT}/secrets/{name}");
        admin.send(Method::GET, &path, &headers, Bytes::new()).await.map(|answer| answer.status)
    };
    let first = ask(&format!("{:x}", PODS * REFERENCES - 1)).await?;
    let first_took = began.elapsed();
    let second = ask("nobody-names-it").await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    Ok(format!("a kubelet's first answer {first} after {first_took:.1?}, of another secret {second}"))
}
