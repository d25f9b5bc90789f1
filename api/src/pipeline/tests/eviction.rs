//! Evictions and the budgets that allow them.

use orch_raft::Store;

use super::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets";

fn eviction(name: &str, options: Value) -> Value {
    let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    if !options.is_null() {
        eviction["deleteOptions"] = options;
    }
    eviction
}

impl Server {
    /// Stores a pod on a node with a condition `Ready`.
    async fn run_pod(&self, name: &str, ready: &str) {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"a": "b"});
        pod["spec"]["nodeName"] = json!("n");
        self.create(PODS, pod).await;
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        self.merge(&format!("{PODS}/{name}/status"), status).await.object();
    }

    /// Stores a budget for these pods.
    async fn budget(&self, name: &str, status: Value) {
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
        self.create(BUDGETS, json!({"metadata": {"name": name}, "spec": spec})).await;
        self.merge(&format!("{BUDGETS}/{name}/status"), json!({"status": status})).await.object();
    }

    /// A running pod with a budget that lets one go.
    pub(super) async fn evictable(&self, name: &str) {
        self.run_pod(name, "True").await;
        self.budget("b", status(1, 3, 2)).await;
    }

    async fn evict(&self, name: &str, options: Value) -> Reply {
        self.post(&format!("{PODS}/{name}/eviction"), eviction(name, options)).await
    }
}

fn status(allowed: i64, healthy: i64, desired: i64) -> Value {
    json!({
        "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": 3,
        "observedGeneration": 1
    })
}

#[tokio::test]
async fn an_eviction_takes_one_off_the_budget_with_the_pod() {
    let server = Server::new().await;
    server.run_pod("p", "True").await;
    server.run_pod("q", "True").await;
    server.budget("b", status(1, 3, 2)).await;
    let tried = server.post(&format!("{PODS}/p/eviction?dryRun=All"), eviction("p", json!(null))).await;
    assert_eq!(tried.code, 201);
    let budget = || async { server.get(&format!("{BUDGETS}/b")).await.object() };
    assert_eq!(budget().await["status"]["disruptionsAllowed"], 1);
    let reply = server.evict("p", json!(null)).await;
    assert_eq!((reply.code, &reply.json["status"]), (201, &json!("Success")));
    let (pod, spent) = (server.get(&format!("{PODS}/p")).await.object(), budget().await);
    assert_eq!(pod["metadata"]["resourceVersion"], spent["metadata"]["resourceVersion"], "one transaction");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(pod["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["p"].is_string());
    let refused = server.evict("q", json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(refused.refusal(), (429, "Cannot evict pod as it would violate the pod's disruption budget."));
    assert_eq!(
        refused.causes(),
        ["DisruptionBudget : The disruption budget b does not allow evicting pods currently"]
    );
    assert!(refused.json["details"]["retryAfterSeconds"].is_null());
    for (version, code) in [("policy/v1", 201), ("policy/v1beta1", 201), ("policy/v2", 400)] {
        let mut again = eviction("p", json!(null));
        again["apiVersion"] = json!(version);
        let reply = server.post(&format!("{PODS}/p/eviction"), again).await;
        assert_eq!(reply.code, code, "a pod that is being deleted needs no budget: {version}");
    }
    assert_eq!(budget().await["metadata"]["resourceVersion"], spent["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_member_that_lags_behind_a_budget_obeys_it() {
    let server = Server::new().await;
    server.run_pod("p", "True").await;
    let before = server.pipeline.store.below.state();
    server.budget("b", status(0, 1, 1)).await;
    *server.pipeline.store.lag.behind.lock() = Some(before);
    assert_eq!(server.evict("p", json!(null)).await.code, 429);
}

#[tokio::test]
async fn a_budget_judges_pods_that_run_alone() {
    let server = Server::new().await;
    server.budget("b", status(0, 0, 1)).await;
    server.create(PODS, pod("pending")).await;
    assert_eq!(server.evict("pending", json!(null)).await.code, 201);
    server.run_pod("sick", "False").await;
    let needs = "DisruptionBudget : The disruption budget b needs 1 healthy pods and has 0 currently";
    assert_eq!(server.evict("sick", json!(null)).await.causes(), [needs]);
    server
        .merge(&format!("{BUDGETS}/b"), json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}))
        .await
        .object();
    assert_eq!(server.evict("sick", json!(null)).await.code, 201);
    server.run_pod("well", "True").await;
    let refused = server.evict("well", json!(null)).await;
    assert_eq!(
        refused.causes(),
        ["DisruptionBudget : The disruption budget b is still being processed by the server."]
    );
    assert_eq!(refused.json["details"]["retryAfterSeconds"], 10);
    server.budget("c", status(1, 3, 2)).await;
    let two = server.evict("well", json!(null)).await;
    assert_eq!(two.refusal().0, 500);
    assert!(two.json["reason"].is_null());
    server.merge(&format!("{PODS}/well"), json!({"metadata": {"labels": {"a": "c"}}})).await.object();
    assert_eq!(server.evict("well", json!(null)).await.code, 201, "no budget selects it");
}

#[tokio::test]
async fn an_eviction_fits_its_pod() {
    let server = Server::new().await;
    server.run_pod("p", "True").await;
    let uid = server.get(&format!("{PODS}/p")).await.object()["metadata"]["uid"].clone();
    let other = server.post(&format!("{PODS}/p/eviction"), eviction("q", json!(null))).await;
    assert_eq!(other.refusal(), (400, "name in URL does not match name in Eviction object"));
    assert_eq!(server.evict("none", json!(null)).await.refusal(), (404, "pods \"none\" not found"));
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let reply = server.evict("p", json!({"preconditions": preconditions})).await;
        assert_eq!(reply.code, 409, "{}", reply.json);
    }
    let reply = server.evict("p", json!({"preconditions": {"uid": uid}, "gracePeriodSeconds": 0})).await;
    assert_eq!(reply.code, 201, "{}", reply.json);
    assert_eq!(server.get(&format!("{PODS}/p")).await.code, 404);
}
