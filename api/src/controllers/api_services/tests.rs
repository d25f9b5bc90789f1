//! The objects that register groups, and aggregated servers that answer as they are told.

use std::time::Duration;

use axum::body::Body;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use http::{Request, Response};
use orch_proto::brand::ORCH;
use parking_lot::Mutex;

use super::*;
use crate::aggregation::described::Description;
use crate::aggregation::{Aggregation, Relay, Server};
use crate::connect::BackendError;
use crate::controllers::testing::Fixture;
use crate::follow::Builder;
use crate::webhook::Routing;

/// The label that says who manages an object.
fn labelled(value: Value) -> Value {
    let mut labels = json!({});
    labels[ORCH.automanaged_label().as_str()] = value;
    labels
}

/// A server whose objects were made.
async fn started() -> Fixture {
    let fixture = Fixture::new();
    fixture.while_running(run(&fixture.client()), 1).await;
    fixture
}

#[tokio::test(start_paused = true)]
async fn every_built_in_group_is_registered_and_available() {
    let fixture = started().await;
    let core = fixture.read(API_SERVICES, "v1.");
    assert_eq!(core["metadata"]["labels"], labelled(json!("onstart")));
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    assert_eq!(core["status"]["conditions"][0]["reason"], "Local");
    let scaling = fixture.read(API_SERVICES, "v2.autoscaling");
    assert_eq!(scaling["spec"]["versionPriority"], 30);
    assert!(!fixture.exists(API_SERVICES, "v1.apiregistration.orch.io"));
    let versions = fixture.client().registry().groups().map(|group| group.versions.len()).sum::<usize>();
    assert_eq!(fixture.state().collection(API_SERVICES).len(), versions - 1);
    let before = fixture.state().applied();
    fixture.while_running(run(&fixture.client()), 1).await;
    assert_eq!(fixture.state().applied(), before, "nothing is written without need");
}

#[tokio::test(start_paused = true)]
async fn registration_is_done_when_the_last_group_has_its_object_and_stays_done() {
    let fixture = Fixture::new();
    let is_done = registration(&fixture.pipeline());
    assert!(!is_done());
    fixture.while_running(run(&fixture.client()), 1).await;
    fixture.delete(API_SERVICES, "v1.apps", json!({})).await;
    assert!(!is_done(), "it was not looked at before");
    fixture.while_running(run(&fixture.client()), 1).await;
    assert!(is_done());
    fixture.delete(API_SERVICES, "v1.apps", json!({})).await;
    assert!(is_done());
}

#[tokio::test(start_paused = true)]
async fn a_leader_mends_built_in_ones_once_and_leaves_those_of_others_alone() {
    let fixture = started().await;
    fixture.merge(API_SERVICES, "v1.apps", json!({"spec": {"versionPriority": 7}})).await;
    let label = json!({"metadata": {"labels": labelled(json!(null))}, "spec": {"versionPriority": 8}});
    fixture.merge(API_SERVICES, "v1.batch", label).await;
    let service = json!({"spec": {"service": {"namespace": "ns", "name": "s"}}});
    fixture.merge(API_SERVICES, "v1.policy", service).await;
    let gone = json!({
        "metadata": {"name": "v1.gone", "labels": labelled(json!("onstart"))},
        "spec": {"group": "gone", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
    });
    fixture.create(API_SERVICES, "", gone).await;
    let deleted = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.delete(API_SERVICES, "v1.autoscaling", json!({})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    fixture.beside(run(&fixture.client()), deleted).await;
    let priority = |name: &str| fixture.read(API_SERVICES, name)["spec"]["versionPriority"].clone();
    assert_eq!((priority("v1.apps"), priority("v1.batch")), (json!(15), json!(8)));
    assert!(fixture.read(API_SERVICES, "v1.policy")["spec"]["service"].is_object());
    assert!(!fixture.exists(API_SERVICES, "v1.gone"));
    assert!(!fixture.exists(API_SERVICES, "v1.autoscaling"), "it stays away until the next leader");
    fixture.while_running(run(&fixture.client()), 1).await;
    assert!(fixture.exists(API_SERVICES, "v1.autoscaling"));
}

/// A server that answers with what it was told to: a code and a document for each path, 404 for others. With the code 0 it does not answer.
#[derive(Debug, Default)]
struct Answering(Mutex<BTreeMap<&'static str, (u16, Value)>>);

impl Relay for Answering {
    fn relay(
        &self,
        _server: Server,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>> {
        assert_eq!(request.headers()["x-remote-user"], "system:orch-aggregator");
        let found = self.0.lock().get(request.uri().path()).cloned();
        let (code, document) = found.unwrap_or((404, Value::Null));
        if code == 0 {
            return Box::pin(std::future::pending());
        }
        let answer = Response::builder().status(code).body(Body::from(document.to_string())).unwrap();
        ready(Ok(answer)).boxed()
    }
}

const VERSION: &str = "/apis/a.example.com/v1";
const REMOTE: &str = "v1.a.example.com";
const SERVICES: &str = "services";

/// A server with an APIService that names the service `s` in `ns`.
async fn aggregating() -> (Fixture, Arc<Answering>) {
    let server = Arc::new(Answering::default());
    let aggregation = Aggregation::none(Builder::Caller).through(server.clone(), Routing::ClusterAddress);
    let fixture = Fixture::with_aggregation(aggregation);
    fixture.namespace("ns").await;
    let spec = json!({
        "group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "ns", "name": "s"},
    });
    fixture.create(API_SERVICES, "", json!({"metadata": {"name": REMOTE}, "spec": spec})).await;
    (fixture, server)
}

/// Status, reason and message of the condition after `seconds`.
async fn found(fixture: &Fixture, seconds: u64) -> [String; 3] {
    fixture.while_running(availability::run(&fixture.client()), seconds).await;
    let object = fixture.read(API_SERVICES, REMOTE);
    let condition = &object["status"]["conditions"][0];
    ["status", "reason", "message"].map(|field| condition.text(field).to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_server_is_looked_for_in_the_reference_order_and_words() {
    let (fixture, server) = aggregating().await;
    let missing = |reason: &str, message: &str| ["False", reason, message].map(str::to_owned);
    assert_eq!(found(&fixture, 1).await, missing("ServiceNotFound", "service/s in \"ns\" is not present"));
    let ranges = json!({"metadata": {"name": "orch"}, "spec": {"cidrs": ["10.0.0.0/24"]}});
    fixture.create("servicecidrs.networking", "", ranges).await;
    let spec = json!({"clusterIP": "None", "ports": [{"name": "web", "port": 80}]});
    fixture.create(SERVICES, "ns", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    assert_eq!(
        found(&fixture, 1).await,
        missing("ServicePortError", "service/s in \"ns\" is not listening on port 443")
    );
    fixture.merge(SERVICES, "ns/s", json!({"spec": {"ports": [{"name": "web", "port": 443}]}})).await;
    assert_eq!(
        found(&fixture, 1).await,
        missing("EndpointsNotFound", "cannot find endpointslices for service/s in \"ns\"")
    );
    let slice = json!({
        "metadata": {"name": "s-1", "labels": {"orch.io/service-name": "s"}}, "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8443}],
        "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": false}}],
    });
    fixture.create("endpointslices.discovery", "ns", slice).await;
    assert_eq!(
        found(&fixture, 1).await,
        missing(
            "MissingEndpoints",
            "endpointslices for service/s in \"ns\" have no addresses with port name \"web\""
        )
    );
    fixture.delete(SERVICES, "ns/s", json!({})).await;
    let spec = json!({"type": "ExternalName", "externalName": "things.example.com"});
    fixture.create(SERVICES, "ns", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    let url = "https://things.example.com:443/apis/a.example.com/v1";
    assert_eq!(
        found(&fixture, 1).await,
        missing(
            "FailedDiscoveryCheck",
            &format!("failing or missing response from {url}: bad status from {url}: 404")
        )
    );
    server.0.lock().insert(VERSION, (0, Value::Null));
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(
        found(&fixture, 7).await,
        missing(
            "FailedDiscoveryCheck",
            &format!("failing or missing response from {url}: Get \"{url}\": {late}")
        )
    );
    server.0.lock().insert(VERSION, (204, Value::Null));
    assert_eq!(found(&fixture, 1).await, ["True", "Passed", "all checks passed"].map(str::to_owned));
    let before = fixture.state().applied();
    found(&fixture, 100).await;
    assert_eq!(fixture.state().applied(), before, "nothing is written without a change");
}

#[tokio::test(start_paused = true)]
async fn a_local_object_is_said_to_be_available_whatever_was_said_of_it() {
    let fixture = started().await;
    let service = json!({"spec": {"service": {"namespace": "ns", "name": "s"}}});
    fixture.merge(API_SERVICES, "v1.apps", service).await;
    let mine = json!({"type": "Mine", "status": "True"});
    let conditions = [mine, json!({"type": "Available", "status": "False", "reason": "R"})];
    let away = json!({"status": {"conditions": conditions.to_vec()}});
    let client = fixture.client();
    let resource = client.stored_resource(API_SERVICES).unwrap();
    let place = Place { resource: &resource, path: "v1.apps" };
    client.patch(place, Action::Status, &away).await.unwrap();
    fixture.merge(API_SERVICES, "v1.apps", json!({"spec": {"service": null}})).await;
    fixture.while_running(availability::run(&client), 1).await;
    let conditions = fixture.read(API_SERVICES, "v1.apps")["status"]["conditions"].clone();
    assert_eq!(conditions[0]["type"], "Mine", "those of other types are their authors'");
    assert_eq!((&conditions[1]["status"], &conditions[1]["reason"]), (&json!("True"), &json!("Local")));
}

#[tokio::test(start_paused = true)]
async fn documents_of_a_server_are_asked_for_again_and_forgotten_with_it() {
    let (fixture, server) = aggregating().await;
    let client = fixture.client();
    let described = || client.aggregation().descriptions().find(REMOTE);
    let spec = json!({"type": "ExternalName", "externalName": "things.example.com"});
    fixture.create(SERVICES, "ns", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    fixture.while_running(described::run(&client), 1).await;
    assert_eq!(described(), Some(Description::Stale), "it is not available yet");
    let list = |names: &[&str]| {
        let resources = names.iter().map(|name| json!({"name": name, "kind": "Thing", "verbs": ["get"]}));
        let resources: Vec<Value> = resources.collect();
        json!({"kind": "APIResourceList", "groupVersion": "a.example.com/v1", "resources": resources})
    };
    server.0.lock().insert(VERSION, (200, list(&["things"])));
    found(&fixture, 1).await;
    let count = || match described() {
        Some(Description::Current(resources)) => resources.len(),
        _ => 0,
    };
    let steps = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(count(), 1);
        server.0.lock().insert(VERSION, (200, list(&["things", "others"])));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(count(), 2);
        server.0.lock().insert("/apis", (503, Value::Null));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(described(), Some(Description::Stale));
        fixture.delete(API_SERVICES, REMOTE, json!({})).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(described(), None);
    };
    fixture.beside(described::run(&client), steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_garbage_is_stale() {
    let (fixture, server) = aggregating().await;
    let client = fixture.client();
    let spec = json!({"type": "ExternalName", "externalName": "things.example.com"});
    fixture.create(SERVICES, "ns", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    let list = |verbs: Value| {
        let resource = json!({"name": "things", "kind": "Thing", "verbs": verbs});
        json!({"kind": "APIResourceList", "groupVersion": "a.example.com/v1", "resources": [resource]})
    };
    server.0.lock().insert(VERSION, (200, list(json!("get"))));
    found(&fixture, 1).await;
    let described = || client.aggregation().descriptions().find(REMOTE);
    let steps = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(described(), Some(Description::Stale));
        server.0.lock().insert(VERSION, (200, list(json!(["get"]))));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(matches!(described(), Some(Description::Current(_))), "it is asked again");
    };
    fixture.beside(described::run(&client), steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_when_aggregated_servers_have_emptied_it() {
    let (fixture, server) = aggregating().await;
    let client = fixture.client();
    let spec = json!({"type": "ExternalName", "externalName": "things.example.com"});
    fixture.create(SERVICES, "ns", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    fixture.namespace("other").await;
    fixture.create("configmaps", "other", json!({"metadata": {"name": "c"}})).await;
    fixture.delete("namespaces", "other", json!({})).await;
    let condition = |at: usize| fixture.read("namespaces", "other")["status"]["conditions"][at].clone();
    let names = ["things", "readable"].map(|name| {
        let verbs = if name == "things" { json!(["deletecollection", "list"]) } else { json!(["list"]) };
        json!({"name": name, "kind": "Thing", "namespaced": true, "verbs": verbs})
    });
    let list = json!({"kind": "APIResourceList", "groupVersion": "a.example.com/v1", "resources": names});
    let things = |count: usize| json!({"kind": "ThingList", "items": vec![json!({}); count]});
    const THINGS: &str = "/apis/a.example.com/v1/namespaces/other/things";
    let steps = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!fixture.exists("configmaps", "other/c"), "what this server keeps is deleted meanwhile");
        let version = "a.example.com/v1";
        assert_eq!(
            condition(0)["message"],
            format!(
                "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                 {version}: stale GroupVersion discovery: {version}"
            )
        );
        server.0.lock().insert(VERSION, (200, list.clone()));
        server.0.lock().insert(THINGS, (200, things(2)));
        tokio::time::sleep(Duration::from_secs(130)).await;
        assert_eq!(condition(0)["status"], "False");
        assert_eq!(
            condition(3)["message"],
            "Some resources are remaining: things.a.example.com has 2 resource instances"
        );
        server.0.lock().insert(THINGS, (200, things(0)));
        tokio::time::sleep(Duration::from_secs(130)).await;
        assert!(!fixture.exists("namespaces", "other"));
    };
    let loops = async {
        let ending = Box::pin(crate::controllers::namespaces::run(&client));
        let asking = Box::pin(described::run(&client));
        let looking = Box::pin(availability::run(&client));
        futures::future::select(futures::future::select(ending, asking), looking).await;
    };
    fixture.beside(loops, steps).await;
}
