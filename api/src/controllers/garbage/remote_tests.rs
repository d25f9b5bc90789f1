//! Dependents that an aggregated server keeps.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::future::{BoxFuture, ready};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use orch_raft::Store;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::remote_dependents::EVERY;
use super::*;
use crate::aggregation::described::Description;
use crate::aggregation::{API_SERVICES, Aggregation, Relay, Server};
use crate::connect::BackendError;
use crate::controllers::testing::Fixture;
use crate::follow::Builder;
use crate::webhook::Routing;

const WIDGETS: &str = "/apis/a.example.com/v1/namespaces/n/widgets";

/// A server of widgets. It gives one object in a page.
#[derive(Debug, Default)]
struct Widgets {
    objects: Mutex<Vec<Value>>,
    /// Paths of deletions, with their options.
    deleted: Mutex<Vec<(String, Value)>>,
    lists: Mutex<usize>,
    hangs: Mutex<bool>,
}

impl Widgets {
    fn answer(&self, method: &Method, target: &http::Uri, document: &Value) -> (u16, Value) {
        let query = target.query().unwrap_or_default();
        let path = &*percent_encoding::percent_decode_str(target.path()).decode_utf8().unwrap();
        if *method == Method::DELETE {
            self.deleted.lock().push((path.to_owned(), document.clone()));
            let name = path.rsplit('/').next().unwrap().to_owned();
            self.objects.lock().retain(|object| object["metadata"]["name"] != name.as_str());
            return (200, json!({"kind": "Status"}));
        }
        if path != "/apis/a.example.com/v1/widgets" {
            let name = path.rsplit('/').next().unwrap();
            let gone = json!({"kind": "Status", "reason": "NotFound", "details": {"name": name}});
            let objects = self.objects.lock();
            let found = objects.iter().find(|object| object["metadata"]["name"] == name);
            return found.map_or((404, gone), |found| (200, found.clone()));
        }
        *self.lists.lock() += 1;
        assert!(query.starts_with("limit="), "{query}");
        let objects = self.objects.lock();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let token = query.split_once("continue=").map(|(_, token)| token.replace("%2D", "-"));
        let at = objects.iter().position(|object| token.as_ref().is_none_or(|token| *token == name(object)));
        let page: Vec<Value> = at.map(|at| objects[at].clone()).into_iter().collect();
        let next = at.and_then(|at| objects.get(at + 1)).map(name).unwrap_or_default();
        (200, json!({"metadata": {"continue": next}, "items": page}))
    }
}

#[derive(Debug)]
struct To(Arc<Widgets>);

impl Relay for To {
    fn relay(
        &self,
        _server: Server,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>> {
        if *self.0.hangs.lock() {
            return Box::pin(std::future::pending());
        }
        assert_eq!(request.headers()["x-remote-user"], "system:orch-aggregator");
        let widgets = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let document = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (code, answer) = widgets.answer(&head.method, &head.uri, &document);
            let answer = Response::builder().status(code).body(Body::from(answer.to_string()));
            ready(Ok(answer.unwrap())).await
        })
    }
}

/// A widget `name` that the config map `owner` with the uid `uid` owns.
fn widget(name: &str, (owner, uid): (&str, &str)) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid});
    json!({
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "n", "uid": format!("u-{name}"), "resourceVersion": "7", "ownerReferences": [owner]},
    })
}

/// A server of widgets, which `verbs` can be applied to, and the config map `o`, with its uid.
async fn with_widgets(verbs: &[&str]) -> (Fixture, Arc<Widgets>, String) {
    let server = Arc::new(Widgets::default());
    let aggregation =
        Aggregation::none(Builder::Caller).through(Arc::new(To(server.clone())), Routing::ClusterAddress);
    let fixture = Fixture::with_aggregation(aggregation);
    fixture.namespace("n").await;
    let service = json!({"type": "ExternalName", "externalName": "things.example.com"});
    fixture.create("services", "n", json!({"metadata": {"name": "s"}, "spec": service})).await;
    let spec = json!({
        "group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "n", "name": "s"},
    });
    let name = "v1.a.example.com";
    fixture.create(API_SERVICES, "", json!({"metadata": {"name": name}, "spec": spec})).await;
    let there = json!({"status": {"conditions": [{"type": "Available", "status": "True", "reason": "R"}]}});
    let client = fixture.client();
    let resource = client.stored_resource(API_SERVICES).unwrap();
    let place = Place { resource: &resource, path: name };
    client.patch(place, orch_rules::Action::Status, &there).await.unwrap();
    let widgets = json!({
        "resource": "widgets", "scope": "Namespaced", "responseKind": {"kind": "Widget"}, "verbs": verbs.to_vec(),
    });
    client.aggregation().descriptions().set(&name.into(), Description::Current([widgets].into()));
    let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
    (fixture, server, uid)
}

fn names(deleted: &[(String, Value)]) -> Vec<&str> {
    let mut names: Vec<&str> = deleted.iter().filter_map(|(path, _)| path.rsplit('/').next()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(start_paused = true)]
async fn a_dependent_at_an_aggregated_server_is_deleted_there_when_no_owner_is_left() {
    let (fixture, server, uid) = with_widgets(&["get", "list", "delete"]).await;
    let mut of_both = widget("of-both", ("gone", "u-gone"));
    let gone = of_both["metadata"]["ownerReferences"][0].clone();
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid.as_str()});
    of_both["metadata"]["ownerReferences"] = json!([gone, live]);
    let mut unserved = widget("of-unserved", ("x", "u-x"));
    unserved["metadata"]["ownerReferences"][0]["kind"] = json!("Nothing");
    let mut leaving = widget("leaving", ("gone", "u-gone"));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut of_widget = widget("of-widget", ("of-live", "u-of-live"));
    of_widget["metadata"]["ownerReferences"][0]["apiVersion"] = json!("a.example.com/v1");
    of_widget["metadata"]["ownerReferences"][0]["kind"] = json!("Widget");
    let mut of_gone_widget = of_widget.clone();
    of_gone_widget["metadata"]["name"] = json!("of-gone-widget");
    of_gone_widget["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    *server.objects.lock() = vec![
        widget("of-live", ("o", &uid)),
        widget("of-gone", ("gone", "u-gone")),
        widget("of-predecessor", ("o", "another")),
        json!({"metadata": {"name": "free", "namespace": "n", "uid": "u-free"}}),
        of_both,
        unserved,
        leaving,
        of_widget,
        of_gone_widget,
    ];
    let client = fixture.client();
    let steps = async {
        fixture.store().sleep(EVERY + Duration::from_secs(5)).await;
        let deleted = server.deleted.lock().clone();
        assert_eq!(names(&deleted), ["of-gone", "of-gone-widget", "of-predecessor"]);
        let (path, options) = deleted.iter().find(|(path, _)| path.ends_with("of-gone")).unwrap();
        assert_eq!(*path, format!("{WIDGETS}/of-gone"));
        assert_eq!(options["preconditions"], json!({"uid": "u-of-gone", "resourceVersion": "7"}));
        assert_eq!(options["propagationPolicy"], "Background");
        fixture.delete("configmaps", "n/o", Value::Null).await;
        fixture.store().sleep(EVERY).await;
        let later = server.deleted.lock().clone();
        assert_eq!(names(&later[3..]), ["of-both", "of-live", "of-widget"], "one after the other");
    };
    fixture.beside(run(&client), steps).await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_hang_or_delete_nothing_are_left_alone() {
    let (fixture, server, _) = with_widgets(&["get", "list", "delete"]).await;
    *server.objects.lock() = vec![widget("of-gone", ("gone", "u-gone"))];
    *server.hangs.lock() = true;
    let client = fixture.client();
    let steps = async {
        fixture.store().sleep(EVERY * 3).await;
        assert!(server.deleted.lock().is_empty());
        *server.hangs.lock() = false;
        fixture.store().sleep(EVERY * 2).await;
        assert_eq!(server.deleted.lock().len(), 1);
    };
    fixture.beside(run(&client), steps).await;
    let (fixture, server, _) = with_widgets(&["get", "list"]).await;
    *server.objects.lock() = vec![widget("of-gone", ("gone", "u-gone"))];
    let client = fixture.client();
    fixture.beside(run(&client), fixture.store().sleep(EVERY * 2)).await;
    assert_eq!((*server.lists.lock(), server.deleted.lock().len()), (0, 0));
}
