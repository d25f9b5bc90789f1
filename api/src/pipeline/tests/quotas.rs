//! Writes under quotas: what is charged, refused and given back, alone and at one time.

use futures::future::join_all;
use orch_raft::{Key, Store};

use super::*;
use crate::admission::Chain;

const QUOTAS: &str = "/api/v1/namespaces/ns/resourcequotas";

impl Server {
    /// Creates a quota whose usage is known, as its loop would fill it in for an empty namespace.
    async fn quota(&self, name: &str, spec: Value) {
        let hard = spec["hard"].clone();
        self.create(QUOTAS, json!({"metadata": {"name": name}, "spec": spec})).await;
        let mut used = hard.clone();
        used.as_object_mut().unwrap().values_mut().for_each(|amount| *amount = json!("0"));
        let status = json!({"status": {"hard": hard, "used": used}});
        self.merge(&format!("{QUOTAS}/{name}/status"), status).await.object();
    }

    async fn used(&self, name: &str) -> Value {
        self.get(&format!("{QUOTAS}/{name}")).await.json["status"]["used"].clone()
    }
}

fn asking(name: &str, requests: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

/// Nobody knows whether the loop had stopped counting the pod, so the quota is written as it is, which makes it count again.
#[tokio::test]
async fn an_overdue_pod_that_goes_has_its_quota_counted_again() {
    let server = Server::new().await;
    let version =
        async || server.get(&format!("{QUOTAS}/q")).await.json["metadata"]["resourceVersion"].clone();
    server.quota("q", json!({"hard": {"pods": "2"}})).await;
    for (name, seconds, expected) in [("in-time", 1, "0"), ("overdue", 30, "1")] {
        let mut ending = pod(name);
        ending["spec"]["nodeName"] = json!("n");
        ending["spec"]["terminationGracePeriodSeconds"] = json!(10);
        server.create(PODS, ending).await;
        server.delete(&format!("{PODS}/{name}"), json!(null)).await.object();
        server.advance(seconds);
        let before = version().await;
        server.delete(&format!("{PODS}/{name}"), json!({"gracePeriodSeconds": 0})).await.object();
        assert_eq!(server.get(&format!("{PODS}/{name}")).await.code, 404);
        assert_eq!(server.used("q").await, json!({"pods": expected}), "{name}");
        assert_ne!(version().await, before, "{name}");
    }
}

#[tokio::test]
async fn objects_are_counted_until_the_quota_is_full() {
    let server = Server::new().await;
    server.quota("q", json!({"hard": {"configmaps": "1", "count/deployments.apps": "1"}})).await;
    assert_eq!(server.post(&format!("{MAPS}?dryRun=All"), map("a")).await.code, 201);
    assert_eq!(server.used("q").await, json!({"configmaps": "0", "count/deployments.apps": "0"}));
    server.create(MAPS, map("a")).await;
    for path in [MAPS.to_owned(), format!("{MAPS}?dryRun=All")] {
        assert_eq!(
            server.post(&path, map("b")).await.refusal(),
            (
                403,
                "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, \
                 limited: configmaps=1"
            )
        );
    }
    server.create(DEPLOYMENTS, deployment("d")).await;
    assert_eq!(
        server.post(DEPLOYMENTS, deployment("e")).await.refusal(),
        (
            403,
            "deployments.apps \"e\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: \
             count/deployments.apps=1, limited: count/deployments.apps=1"
        )
    );
    let scaled = server.merge(&format!("{DEPLOYMENTS}/d"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled.code, 200);
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "free"}})).await;
    assert_eq!(server.used("q").await, json!({"configmaps": "1", "count/deployments.apps": "1"}));
}

#[tokio::test]
async fn an_entry_of_the_log_has_the_object_and_every_charge() {
    let server = Server::new().await;
    server.quota("a", json!({"hard": {"pods": "5"}})).await;
    server.quota("b", json!({"hard": {"pods": "5", "requests.cpu": "2"}})).await;
    server.quota("c", json!({"hard": {"pods": "5"}, "scopes": ["BestEffort"]})).await;
    let created = server.create(PODS, asking("p", json!({"cpu": "500m"}))).await;
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    let state = server.pipeline.store.state();
    let revision_of = |name: &str| {
        state.object(&Key::new(&"resourcequotas".into(), "ns", name).unwrap()).unwrap().revision.0.to_string()
    };
    assert_eq!((&*revision_of("a"), &*revision_of("b")), (version, version));
    assert_ne!(revision_of("c"), version, "the pod is not in its scope");
    assert_eq!(server.used("a").await, json!({"pods": "1"}));
    assert_eq!(server.used("b").await, json!({"pods": "1", "requests.cpu": "500m"}));
    let refused = server.post(PODS, asking("r", json!({"cpu": "1600m"}))).await;
    assert_eq!(
        refused.refusal(),
        (
            403,
            "pods \"r\" is forbidden: exceeded quota: b, requested: requests.cpu=1600m, used: requests.cpu=500m, \
             limited: requests.cpu=2"
        )
    );
    assert_eq!(server.used("a").await, json!({"pods": "1"}), "all quotas are charged or none");
}

#[tokio::test]
async fn a_quota_that_cannot_measure_a_pod_refuses_it() {
    let server = Server::new().await;
    server.quota("q", json!({"hard": {"requests.cpu": "1", "limits.cpu": "2"}})).await;
    assert_eq!(
        server.post(PODS, pod("p")).await.refusal(),
        (
            403,
            "pods \"p\" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.cpu for: c"
        )
    );
    let hard = json!({"configmaps": "1", "secrets": "1"});
    server.create(QUOTAS, json!({"metadata": {"name": "new"}, "spec": {"hard": hard}})).await;
    assert_eq!(server.post(MAPS, map("free")).await.code, 201, "a quota without status limits nothing");
    let status = json!({"status": {"hard": hard, "used": {"secrets": "0"}}});
    server.merge(&format!("{QUOTAS}/new/status"), status).await.object();
    assert_eq!(
        server.post(MAPS, map("m")).await.refusal(),
        (403, "configmaps \"m\" is forbidden: status unknown for quota: new, resources: configmaps")
    );
}

#[tokio::test]
async fn amounts_that_are_removed_ended_or_reduced_are_given_back_at_once() {
    let server = Server::new().await;
    server.quota("q", json!({"hard": {"pods": "9", "count/pods": "9", "requests.cpu": "9"}})).await;
    let used =
        |pods: &str, count: &str, cpu: &str| json!({"pods": pods, "count/pods": count, "requests.cpu": cpu});
    for name in ["a", "b", "c"] {
        server.create(PODS, asking(name, json!({"cpu": "1"}))).await;
    }
    assert_eq!(server.used("q").await, used("3", "3", "3"));
    server.delete(&format!("{PODS}/a?dryRun=All"), Value::Null).await.object();
    assert_eq!(server.used("q").await, used("3", "3", "3"));
    server.delete(&format!("{PODS}/a"), Value::Null).await.object();
    assert_eq!(server.used("q").await, used("2", "2", "2"));
    server.merge(&format!("{PODS}/b/status"), json!({"status": {"phase": "Succeeded"}})).await.object();
    assert_eq!(server.used("q").await, used("1", "2", "1"), "a pod that has ended is an object still");
    server.delete(&format!("{PODS}/b"), Value::Null).await.object();
    assert_eq!(server.used("q").await, used("1", "1", "1"));
    // Held by a finalizer, it goes with the update that removes it.
    let path = format!("{PODS}/c");
    server.merge(&path, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await.object();
    server.delete(&path, Value::Null).await.object();
    assert_eq!(server.used("q").await, used("1", "1", "1"));
    server.merge(&path, json!({"metadata": {"finalizers": null}})).await.object();
    assert_eq!(server.get(&path).await.code, 404);
    assert_eq!(server.used("q").await, used("0", "0", "0"));
}

#[tokio::test]
async fn where_another_program_counts_nothing_is_given_back() {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::builtin().with_usage_recomputed_elsewhere();
    server.quota("q", json!({"hard": {"pods": "1"}})).await;
    server.create(PODS, pod("a")).await;
    server.delete(&format!("{PODS}/a"), Value::Null).await.object();
    assert_eq!(server.used("q").await, json!({"pods": "1"}));
    assert_eq!(server.post(PODS, pod("b")).await.code, 403);
}

#[tokio::test]
async fn a_claim_that_grows_is_charged_the_difference() {
    let server = Server::new().await;
    const CLAIMS: &str = "/api/v1/namespaces/ns/persistentvolumeclaims";
    server.quota("q", json!({"hard": {"requests.storage": "5Gi"}})).await;
    let claim = |storage: &str| {
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v",
            "storageClassName": "s", "resources": {"requests": {"storage": storage}}}})
    };
    let class =
        json!({"metadata": {"name": "s"}, "provisioner": "example.com/p", "allowVolumeExpansion": true});
    server.create("/apis/storage.orch.io/v1/storageclasses", class).await;
    server.create(CLAIMS, claim("2Gi")).await;
    server.merge(&format!("{CLAIMS}/c/status"), json!({"status": {"phase": "Bound"}})).await.object();
    let grow = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    let path = format!("{CLAIMS}/c");
    assert_eq!(
        server.merge(&path, grow("6Gi")).await.refusal(),
        (
            403,
            "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: requests.storage=4Gi, used: \
             requests.storage=2Gi, limited: requests.storage=5Gi"
        )
    );
    server.merge(&path, grow("4Gi")).await.object();
    assert_eq!(server.used("q").await, json!({"requests.storage": "4Gi"}));
}

#[tokio::test]
async fn an_update_into_the_scope_of_a_quota_is_charged_and_refused_when_it_is_full() {
    for recomputed_elsewhere in [false, true] {
        let mut server = Server::new().await;
        if recomputed_elsewhere {
            server.pipeline.admission = Chain::builtin().with_usage_recomputed_elsewhere();
        }
        server.quota("ending", json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]})).await;
        server.quota("lasting", json!({"hard": {"pods": "2"}, "scopes": ["NotTerminating"]})).await;
        server.quota("every", json!({"hard": {"pods": "2"}})).await;
        for name in ["a", "b"] {
            server.create(PODS, pod(name)).await;
        }
        let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
        server.merge(&format!("{PODS}/a?dryRun=All"), deadline.clone()).await.object();
        assert_eq!(server.used("ending").await, json!({"pods": "0"}));
        server.merge(&format!("{PODS}/a"), deadline.clone()).await.object();
        assert_eq!(server.used("ending").await, json!({"pods": "1"}));
        let left = if recomputed_elsewhere { "2" } else { "1" };
        assert_eq!(server.used("lasting").await, json!({"pods": left}));
        let message = "pods \"b\" is forbidden: exceeded quota: ending, requested: pods=1, used: pods=1, limited: pods=1";
        for path in [format!("{PODS}/b"), format!("{PODS}/b?dryRun=All")] {
            assert_eq!(server.merge(&path, deadline.clone()).await.refusal(), (403, message));
        }
        assert_eq!(server.used("ending").await, json!({"pods": "1"}));
        assert_eq!(server.used("every").await, json!({"pods": "2"}), "it covers both before and after");
        // Changes within the scope are neither charged nor refused, although the quota is full.
        server.merge(&format!("{PODS}/a"), json!({"spec": {"activeDeadlineSeconds": 30}})).await.object();
        server.merge(&format!("{PODS}/b"), json!({"metadata": {"labels": {"k": "v"}}})).await.object();
        assert_eq!(server.used("ending").await, json!({"pods": "1"}));
    }
}

#[tokio::test]
async fn an_update_into_a_quota_that_cannot_measure_the_pod_is_refused() {
    let server = Server::new().await;
    server.create(PODS, pod("p")).await;
    server.quota("every", json!({"hard": {"requests.cpu": "1"}})).await;
    server.quota("ending", json!({"hard": {"limits.cpu": "1"}, "scopes": ["Terminating"]})).await;
    server.merge(&format!("{PODS}/p"), json!({"metadata": {"labels": {"k": "v"}}})).await.object();
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    assert_eq!(
        server.merge(&format!("{PODS}/p"), deadline).await.refusal(),
        (403, "pods \"p\" is forbidden: failed quota: ending: must specify limits.cpu for: c")
    );
}

#[tokio::test]
async fn a_claim_is_charged_where_its_attributes_class_moves_it() {
    let server = Server::new().await;
    const CLAIMS: &str = "/api/v1/namespaces/ns/persistentvolumeclaims";
    let class = |name: &str| json!({"metadata": {"name": name}, "driverName": "example.com", "parameters": {"a": "b"}});
    for name in ["slow", "fast"] {
        server.create("/apis/storage.orch.io/v1/volumeattributesclasses", class(name)).await;
    }
    let of_class = |class: &str| {
        let expression = json!({"scopeName": "VolumeAttributesClass", "operator": "In", "values": [class]});
        json!({"hard": {"requests.storage": "3Gi"}, "scopeSelector": {"matchExpressions": [expression]}})
    };
    server.quota("fast", of_class("fast")).await;
    server.quota("slow", of_class("slow")).await;
    for name in ["a", "b"] {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "volumeName": name, "volumeAttributesClassName": "slow",
            "resources": {"requests": {"storage": if name == "a" { "2Gi" } else { "1Gi" }}}});
        server.create(CLAIMS, json!({"metadata": {"name": name}, "spec": spec})).await;
        server
            .merge(&format!("{CLAIMS}/{name}/status"), json!({"status": {"phase": "Bound"}}))
            .await
            .object();
    }
    assert_eq!(server.used("slow").await, json!({"requests.storage": "3Gi"}));
    server
        .merge(&format!("{QUOTAS}/fast/status"), json!({"status": {"hard": {"requests.storage": "1Gi"}}}))
        .await;
    let fast = json!({"spec": {"volumeAttributesClassName": "fast"}});
    assert_eq!(
        server.merge(&format!("{CLAIMS}/a"), fast.clone()).await.refusal(),
        (
            403,
            "persistentvolumeclaims \"a\" is forbidden: exceeded quota: fast, requested: requests.storage=2Gi, used: \
             requests.storage=0, limited: requests.storage=1Gi"
        )
    );
    server.merge(&format!("{CLAIMS}/b"), fast).await.object();
    assert_eq!(server.used("fast").await, json!({"requests.storage": "1Gi"}));
    assert_eq!(server.used("slow").await, json!({"requests.storage": "2Gi"}));
}

#[tokio::test]
async fn quotas_limit_quotas_but_not_themselves() {
    let server = Server::new().await;
    server.quota("q", json!({"hard": {"resourcequotas": "1"}})).await;
    let quota = |name: &str| json!({"metadata": {"name": name}, "spec": {"hard": {"pods": "1"}}});
    server.create(QUOTAS, quota("second")).await;
    assert_eq!(server.used("q").await, json!({"resourcequotas": "1"}));
    assert_eq!(server.post(QUOTAS, quota("third")).await.code, 403);
    server.delete(&format!("{QUOTAS}/second"), Value::Null).await.object();
    assert_eq!(server.used("q").await, json!({"resourcequotas": "0"}));
    server.delete(&format!("{QUOTAS}/q"), Value::Null).await.object();
}

#[tokio::test]
async fn of_many_creates_and_deletes_at_one_time_none_is_counted_wrong() {
    let server = Server::new().await;
    server.quota("a", json!({"hard": {"pods": "10"}})).await;
    server.quota("b", json!({"hard": {"count/pods": "20"}})).await;
    let create = |at: usize| {
        let server = &server;
        async move { server.post(PODS, pod(&format!("p{at}"))).await.code }
    };
    let codes = join_all((0..64).map(create)).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 10, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    let pods = server.get(PODS).await.json["items"].as_array().unwrap().clone();
    assert_eq!(pods.len(), 10);
    let (first, _) = pods.split_at(5);
    let paths = first.iter().map(|pod| format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap()));
    let paths: Vec<String> = paths.collect();
    let deletes = join_all(paths.iter().map(|path| server.delete(path, Value::Null)));
    let (deleted, codes) = futures::join!(deletes, join_all((64..128).map(create)));
    assert!(deleted.iter().all(|reply| reply.code == 200), "{deleted:?}");
    let created = codes.iter().filter(|code| **code == 201).count();
    let left = server.get(PODS).await.json["items"].as_array().unwrap().len();
    assert_eq!(left, 5 + created);
    assert!(left <= 10);
    assert_eq!(server.used("a").await, json!({"pods": left.to_string()}));
    assert_eq!(server.used("b").await, json!({"count/pods": left.to_string()}));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_overtaken_while_it_has_both_turns_goes_on() {
    let server = Server::new().await;
    server.quota("q", json!({"hard": {"pods": "5"}})).await;
    server.create(PODS, pod("p")).await;
    let key = |storage: &str, name: &str| Key::new(&storage.into(), "ns", name).unwrap();
    let (object, quota) = (key("pods", "p"), key("resourcequotas", "q"));
    let (turns, store) = (&server.pipeline.turns, &server.pipeline.store);
    // Queues for both are there, so that the deletion takes its turn in each.
    let held = (turns.take(&object, store).await, turns.take(&quota, store).await);
    let path = format!("{PODS}/p");
    let deletion = server.delete(&path, json!({"gracePeriodSeconds": 0}));
    let overtake = async {
        tokio::task::yield_now().await;
        drop(held.0);
        tokio::task::yield_now().await;
        let version = server.get(&path).await.json["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": version, "labels": {"a": "b"}}});
        server.merge(&path, patch).await.object();
        drop(held.1);
    };
    let (deleted, ()) = futures::join!(deletion, overtake);
    assert_eq!(deleted.code, 200);
    let free = futures::future::join(turns.take(&object, store), turns.take(&quota, store));
    tokio::time::timeout(std::time::Duration::from_secs(5), free).await.expect("no turn is held");
}
