//! The `scheduler` program against real nodes: the recorded cases, two schedulers that lose one another and a node, and the
//! scheduler beside a node for development.

mod beside_dev;
mod recorded;
mod takeover;

use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use serde_json::{Value, json};

/// Flags of a node on which pods have no account, and nodes no taint until a kubelet reports.
fn plain_flags() -> Vec<String> {
    let loops = [
        "resourcequota-controller",
        "disruption-controller",
        "serviceaccount-controller",
        "root-ca-certificate-publisher-controller",
        "clusterrole-aggregation-controller",
    ];
    vec![
        format!("--controllers=*,-{}", loops.join(",-")),
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
    ]
}

/// Creates `object` at `path`.
async fn create(client: &Client, path: &str, object: &Value) -> Value {
    let answer = client.post(path, object).await.unwrap();
    answer.success().unwrap_or_else(|error| panic!("{path} {object}: {error:#}"))
}

/// A node as a kubelet would report it.
fn node(name: &str, cpu: &str, pods: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": pods}},
    })
}

/// Asks again until `look` finds something.
async fn until<T>(patience: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < patience, "not within {patience:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
