//! The admission chain around a write: the plugins called, their arguments, and their additions to the transaction.

use std::sync::Mutex;

use orch_raft::{Condition, Index, Key, Operation as Write, Put, Store};

use super::*;
use crate::admission::{
    Additions, Attributes, Chain, Operation, Plugin, PluginSelection, Refusal, Ruling, View, rule,
};

/// Counts the config maps of a namespace in a secret there, and admits two.
struct Quota;

/// Name of the secret in which [`Quota`] counts.
const COUNTER: &str = "count";

impl Quota {
    fn charge(attributes: &Attributes<'_>, view: &View, additions: &mut Additions) -> Result<(), Refusal> {
        let key = Key::new(&"secrets".into(), attributes.namespace, COUNTER).unwrap();
        let counter = view.applied().state.object(&key);
        additions.require(match counter {
            None => Condition::Absent(key.clone()),
            Some(counter) => Condition::AtRevision(key.clone(), counter.revision),
        });
        let count = counter.map_or(0, |counter| {
            serde_json::from_slice::<Value>(&counter.json).unwrap()["count"].as_u64().unwrap()
        });
        if count == 2 {
            return Err(Refusal::Forbidden("exceeded quota: 2 config maps".to_owned()));
        }
        let json =
            format!(r#"{{"metadata":{{"name":"{COUNTER}","resourceVersion":""}},"count":{}}}"#, count + 1);
        let revision_at = u32::try_from(json.find(r#""},"#).unwrap()).unwrap();
        let index = Index::default();
        additions.operate(Write::Put(Put { key, json: json.into(), revision_at, index }));
        Ok(())
    }
}

impl Plugin for Quota {
    fn name(&self) -> &'static str {
        "Quota"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("configmaps", &[Operation::Create])
    }

    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        // Like a plugin that waits for another server.
        futures::future::Either::Right(Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        }))
    }

    fn reserve(
        &self,
        attributes: &Attributes<'_>,
        _object: Option<&Value>,
        view: &View,
        additions: &mut Additions,
    ) -> Result<(), Refusal> {
        Quota::charge(attributes, view, additions)
    }
}

/// Records its calls, and sets a label when it mutates.
#[derive(Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

impl Plugin for Witness {
    fn name(&self) -> &'static str {
        "Witness"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        *attributes.resource.storage == *"deployments.apps"
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let Attributes { operation, action, name, old, dry_run, .. } = *attributes;
        let generation = &object["metadata"]["generation"];
        let replicas = &object["spec"]["replicas"];
        self.0.lock().unwrap().push(format!(
            "mutate {operation:?} {action:?} {name} old {} dry {dry_run} generation {generation} replicas {replicas}",
            old.is_some()
        ));
        object["metadata"]["labels"]["witness"] = json!("present");
        rule(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Attributes { operation, name, old, user, .. } = *attributes;
        let generation = object.and_then(|object| object["metadata"]["generation"].as_i64());
        self.0.lock().unwrap().push(format!(
            "validate {operation:?} {name} old {} by {} generation {generation:?}",
            old.is_some(),
            user.name
        ));
        rule(Ok(()))
    }
}

#[tokio::test]
async fn every_way_of_a_write_passes_both_phases_in_their_places() {
    let mut server = Server::new().await;
    let notes = Arc::new(Mutex::new(Vec::new()));
    server.pipeline.admission = Chain::new(vec![Box::new(Witness(notes.clone()))]);
    let noted = || std::mem::take(&mut *notes.lock().unwrap());
    let created = server.post(DEPLOYMENTS, deployment("d")).await;
    assert_eq!(created.json["metadata"]["labels"]["witness"], "present");
    // Mutation runs after defaults and before the kind's preparation, validation after it.
    assert_eq!(
        noted(),
        [
            "mutate Create Object d old false dry false generation null replicas 1",
            "validate Create d old false by system:admin generation Some(1)",
        ]
    );
    let path = format!("{DEPLOYMENTS}/d");
    let scale = json!({"spec": {"replicas": 3}});
    server.merge(&path, scale.clone()).await;
    assert_eq!(
        noted(),
        [
            "mutate Update Object d old true dry false generation 1 replicas 3",
            "validate Update d old true by system:admin generation Some(2)",
        ]
    );
    server.merge(&path, scale).await;
    assert_eq!(noted().len(), 2, "a write without effect is judged once");
    server
        .apply(
            &format!("{path}?dryRun=All"),
            "m",
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "annotations": {"k": "v"}}}),
        )
        .await;
    assert_eq!(noted()[0], "mutate Update Object d old true dry true generation 2 replicas 3");
    server.merge(&format!("{path}/status"), json!({"status": {"observedGeneration": 2}})).await;
    assert_eq!(noted()[0], "mutate Update Status d old true dry false generation 2 replicas 3");
    server.delete(&path, Value::Null).await;
    assert_eq!(noted(), ["validate Delete d old true by system:admin generation None"]);
}

#[tokio::test]
async fn additions_of_a_plugin_are_applied_with_the_write() {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::new(vec![Box::new(Quota)]);
    let made = |name: &str| json!({"metadata": {"name": name}});
    let first = server.post(MAPS, made("a")).await;
    assert_eq!(first.code, 201);
    let state = server.pipeline.store.state();
    let counter = state.object(&Key::new(&"secrets".into(), "ns", COUNTER).unwrap()).unwrap().clone();
    assert_eq!(
        first.json["metadata"]["resourceVersion"],
        counter.revision.0.to_string(),
        "one entry wrote both"
    );
    // A dry run and a refused create are charged nothing.
    assert_eq!(server.post(&format!("{MAPS}?dryRun=All"), made("b")).await.code, 201);
    assert_eq!(server.post(MAPS, made("a")).await.code, 409);
    assert_eq!(server.post(MAPS, made("b")).await.code, 201);
    let refused = server.post(MAPS, made("c")).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.json["message"], "configmaps \"c\" is forbidden: exceeded quota: 2 config maps");
}

#[tokio::test]
async fn of_creates_at_one_time_as_many_are_let_in_as_the_plugin_allows() {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::new(vec![Box::new(Quota)]);
    let create = |at: usize| server.post(MAPS, json!({"metadata": {"name": format!("m{at}")}}));
    let replies = futures::future::join_all((0..8).map(create)).await;
    let mut codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    codes.sort_unstable();
    assert_eq!(
        codes,
        [201, 201, 403, 403, 403, 403, 403, 403],
        "those that came too late were counted again"
    );
    assert_eq!(server.get(MAPS).await.json["items"].as_array().unwrap().len(), 2);
}

#[test]
fn the_built_in_plugins_are_asked_in_the_order_of_the_reference() {
    let names: Vec<_> = Chain::builtin().names().collect();
    assert_eq!(
        names,
        [
            "NamespaceLifecycle",
            "LimitRanger",
            "NodeRestriction",
            "TaintNodesByCondition",
            "PodSecurity",
            "Priority",
            "DefaultTolerationSeconds",
            "DefaultStorageClass",
            "StorageObjectInUseProtection",
            "PersistentVolumeClaimResize",
            "RuntimeClass",
            "CertificateApproval",
            "CertificateSigning",
            "CertificateSubjectRestriction",
            "DefaultIngressClass",
            "PodTopologyLabels",
            "PodResizeValidator",
            "ClaimStatus",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionWebhook",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionWebhook",
            "ResourceQuota",
        ]
    );
}

/// A server whose pods need a service account.
async fn with_accounts() -> Server {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::selected(&PluginSelection::default());
    server
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_default_account_of_its_namespace() {
    let server = with_accounts().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let account = json!({"metadata": {"name": "default"}});
        server.create("/api/v1/namespaces/ns/serviceaccounts", account).await;
    };
    let (reply, ()) = tokio::join!(server.post("/api/v1/namespaces/ns/pods", pod), made);
    assert_eq!(reply.code, 201, "{}", reply.json);
    assert_eq!(reply.json["spec"]["serviceAccountName"], "default");
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_a_second_and_for_no_account_but_the_default_one() {
    let server = with_accounts().await;
    for (name, waits) in [("default", true), ("ghost", false)] {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "serviceAccountName": name});
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let began = tokio::time::Instant::now();
        let reply = server.post("/api/v1/namespaces/ns/pods", pod).await;
        let expected = format!(
            "pods \"p\" is forbidden: error looking up service account ns/{name}: serviceaccount \"{name}\" not found"
        );
        assert_eq!((reply.code, &reply.json["message"]), (403, &json!(expected)));
        assert_eq!(began.elapsed() >= std::time::Duration::from_millis(900), waits, "{name}");
    }
}

/// Mutating a config map, requires that a secret exists.
struct Dependent;

impl Plugin for Dependent {
    fn name(&self) -> &'static str {
        "Dependent"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("configmaps", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let key = Key::new(&"secrets".into(), attributes.namespace, "needed").unwrap();
        additions.require(Condition::Exists(key));
        rule(Ok(()))
    }
}

#[tokio::test]
async fn a_broken_condition_of_the_first_phase_ends_a_create() {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::new(vec![Box::new(Dependent), Box::new(Quota)]);
    let refused = server.post(MAPS, map("a")).await;
    assert_eq!(refused.code, 503, "{}", refused.json);
    assert_eq!(server.get(MAPS).await.json["items"], json!([]));
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "needed"}})).await;
    assert_eq!(server.post(MAPS, map("a")).await.code, 201);
}

/// Appends to a label with every mutation.
struct Stamp;

impl Plugin for Stamp {
    fn name(&self) -> &'static str {
        "Stamp"
    }

    fn handles(&self, _attributes: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let before = object["metadata"]["labels"]["stamp"].as_str().unwrap_or_default().to_owned();
        object["metadata"]["labels"]["stamp"] = json!(before + "x");
        rule(Ok(()))
    }
}

/// Refuses the first mutation of two, as in view of a state that lacks what the client has seen on another node.
#[derive(Default)]
struct Stale(std::sync::atomic::AtomicBool);

impl Plugin for Stale {
    fn name(&self) -> &'static str {
        "Stale"
    }

    fn handles(&self, _attributes: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let present = Key::new(&"namespaces".into(), "", "absent").unwrap();
        if !self.0.fetch_xor(true, std::sync::atomic::Ordering::Relaxed) {
            additions.require(Condition::Exists(present));
            return rule(Err(Refusal::Forbidden("stale".to_owned())));
        }
        assert_eq!(attributes.operation, Operation::Create);
        rule(Ok(()))
    }
}

#[tokio::test]
async fn a_create_refused_by_a_stale_view_goes_on_with_the_plugin_that_refused_it() {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::new(vec![Box::new(Stamp), Box::<Stale>::default()]);
    let created = server.post(MAPS, map("a")).await;
    assert_eq!(created.code, 201, "what the refusal had added is dropped: {}", created.json);
    assert_eq!(created.json["metadata"]["labels"]["stamp"], "x", "completed once");
}

/// Adds the write of a second config map to each.
struct Twice;

impl Plugin for Twice {
    fn name(&self) -> &'static str {
        "Twice"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("configmaps", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let key = Key::new(&"configmaps".into(), attributes.namespace, "second").unwrap();
        additions.operate(Write::Delete(key));
        rule(Ok(()))
    }
}

#[tokio::test]
async fn two_objects_of_a_resource_are_not_changed_in_one_entry() {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::new(vec![Box::new(Twice)]);
    let refused = server.post(MAPS, map("a")).await;
    assert_eq!(refused.code, 500);
    assert!(refused.refusal().1.contains("changes two objects of configmaps"), "{}", refused.json);
    assert_eq!(server.get(MAPS).await.json["items"], json!([]));
}

#[tokio::test]
async fn an_object_that_is_too_large_is_first_of_all_in_no_namespace() {
    let server = Server::new().await;
    let large = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(1_600_000)}});
    let refused = server.post("/api/v1/namespaces/nope/configmaps", large.clone()).await;
    assert_eq!(refused.refusal(), (404, "namespaces \"nope\" not found"));
    assert_eq!(server.post(MAPS, large).await.code, 500);
}

/// Has another client create the object first, once.
struct Rival(std::sync::Arc<Mutex<Option<orch_raft::memory::MemoryStore>>>);

impl Plugin for Rival {
    fn name(&self) -> &'static str {
        "Rival"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.old.is_none()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let store = self.0.lock().unwrap().take();
        let Attributes { name, namespace, .. } = *attributes;
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u","resourceVersion":""}}}}"#
        );
        let revision_at = u32::try_from(json.find(r#""}}"#).unwrap()).unwrap();
        let key = Key::new(&attributes.resource.storage, attributes.namespace, attributes.name).unwrap();
        let put = Put { key, json: json.into(), revision_at, index: Index::default() };
        let operations = vec![Write::Put(put)];
        let transaction = orch_raft::Transaction { proposed_ms: 0, conditions: Vec::new(), operations };
        futures::future::Either::Right(Box::pin(async move {
            if let Some(store) = store {
                store.propose(transaction).await.unwrap();
            }
            Ok(())
        }))
    }
}

#[tokio::test]
async fn an_object_created_meanwhile_is_changed_instead() {
    let mut server = Server::new().await;
    let rival = std::sync::Arc::new(Mutex::new(None));
    server.pipeline.admission = Chain::new(vec![Box::new(Rival(rival.clone()))]);
    let be_faster = || *rival.lock().unwrap() = Some(server.pipeline.store.below.clone());
    be_faster();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let applied = server.apply(&format!("{MAPS}/a"), "m", map.clone()).await;
    assert_eq!((applied.code, &applied.json["data"]["k"]), (200, &json!("v")), "{}", applied.json);
    assert_eq!(applied.json["metadata"]["uid"], "u", "it is the other one's object");
    let lease = json!({"metadata": {"name": "l"}});
    let leases = "/apis/coordination.orch.io/v1/namespaces/ns/leases";
    be_faster();
    let put = server.put(&format!("{leases}/l"), lease).await;
    assert_eq!(put.code, 422, "a lease is not replaced without its version: {}", put.json);
    be_faster();
    let posted = server.post(MAPS, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(posted.code, 409);
}

#[tokio::test]
async fn a_write_of_one_version_waits_for_no_turn() {
    let server = Server::new().await;
    let stored = server.create(MAPS, map("a")).await;
    let (path, key) = (format!("{MAPS}/a"), Key::new(&"configmaps".into(), "ns", "a").unwrap());
    let turn = server.pipeline.turns.take(&key, &server.pipeline.store).await;
    let version = stored["metadata"]["resourceVersion"].clone();
    let mut object = stored.clone();
    object["data"] = json!({"k": "other"});
    assert_eq!(server.put(&path, object.clone()).await.code, 200);
    assert_eq!(server.put(&path, object).await.code, 409);
    let merge = json!({"metadata": {"resourceVersion": version}, "data": {"k": "w"}});
    assert_eq!(server.merge(&path, merge.clone()).await.code, 409);
    assert_eq!(
        server
            .apply(&path, "m", {
                let mut config = merge;
                config["apiVersion"] = json!("v1");
                config["kind"] = json!("ConfigMap");
                config["metadata"]["name"] = json!("a");
                config
            })
            .await
            .code,
        409
    );
    let test = json!([{"op": "test", "path": "/metadata/resourceVersion", "value": version}]);
    assert_eq!(server.patch(&path, "application/json-patch+json", test).await.code, 422);
    let options = json!({"preconditions": {"resourceVersion": version}});
    assert_eq!(server.delete(&path, options).await.code, 409);
    let unbound = server.merge(&path, json!({"data": {"k": "x"}}));
    let waited = tokio::time::timeout(std::time::Duration::from_millis(50), unbound).await;
    assert!(waited.is_err(), "a change of any version waits");
    drop(turn);
    assert_eq!(server.merge(&path, json!({"data": {"k": "x"}})).await.code, 200);
}
