//! kube, the ecosystem's Rust client, against a cluster of that brand: its requests, patches, pages and reflector, over
//! connections of the tests' own client.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher::Config;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;

/// Timeout of everything here, which takes a second or two.
const PATIENCE: Duration = Duration::from_secs(20);

/// The connections of the tests' client, as the service that kube needs.
#[derive(Clone)]
pub(crate) struct Transport(pub(crate) Client);

impl tower::Service<http::Request<kube::client::Body>> for Transport {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = anyhow::Error;
    type Future = Pin<Box<dyn Future<Output = anyhow::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<anyhow::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
            let headers: Vec<(&str, &str)> = head
                .headers
                .iter()
                .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
                .collect();
            Ok(client.start(head.method, path, &headers, body).await?.1)
        })
    }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let document = json!({"metadata": {"name": name, "labels": {"part": "test"}}, "data": {"k": value}});
    serde_json::from_value(document).unwrap()
}

fn names(maps: impl IntoIterator<Item = ConfigMap>) -> Vec<String> {
    maps.into_iter().map(|map| map.metadata.name.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_does_what_programs_do_with_it() {
    let cluster = Cluster::start(Options { brand: "kubernetes", ..Options::nodes(1) }).await.unwrap();
    let transport = Transport(cluster.client(0).unwrap());
    let maps: Api<ConfigMap> = Api::namespaced(kube::Client::new(transport, "default"), "default");
    tokio::time::timeout(PATIENCE, use_all(maps)).await.expect("it takes a second or two");
}

async fn use_all(maps: Api<ConfigMap>) {
    for name in ["a", "b", "c"] {
        let made = maps.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
        assert_eq!(made.metadata.name.as_deref(), Some(name));
    }
    let twice = maps.create(&PostParams::default(), &config_map("a", "1")).await;
    assert!(
        matches!(twice, Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists")
    );
    assert!(maps.get_opt("nope").await.unwrap().is_none());

    let of_test = ListParams::default().labels("part=test");
    let first = maps.list(&of_test.clone().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = maps.list(&of_test.clone().continue_token(&token)).await.unwrap();
    assert_eq!(names(first.items), ["a", "b"]);
    assert_eq!(names(rest.items), ["c"]);
    assert_eq!(maps.list_metadata(&of_test).await.unwrap().items.len(), 3);

    reflect(maps.clone()).await;

    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "3"}});
    let conflict = maps.patch("a", &PatchParams::apply("tests"), &Patch::Apply(&applied)).await;
    assert!(
        matches!(conflict, Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "Conflict")
    );
    let forced =
        maps.patch("a", &PatchParams::apply("tests").force(), &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(forced.data.unwrap()["k"], "3");
    let mut replaced = maps.get("a").await.unwrap();
    replaced.data.get_or_insert_default().insert("l".to_owned(), "4".to_owned());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert_eq!(maps.replace("a", &dry, &replaced).await.unwrap().data.unwrap().len(), 2);
    assert_eq!(maps.get("a").await.unwrap().data.unwrap().len(), 1);
    maps.replace("a", &PostParams::default(), &replaced).await.unwrap();
    let stale = maps.replace("a", &PostParams::default(), &replaced).await;
    assert!(matches!(stale, Err(kube::Error::Api(status)) if status.code == 409));

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let deleted = maps.delete_collection(&DeleteParams::default(), &of_test).await.unwrap();
    assert_eq!(names(deleted.left().unwrap().items), ["b", "c"]);
    assert!(maps.list(&of_test).await.unwrap().items.is_empty());
}

/// A reflector that lists in pages, and one with a streaming list, each followed by a change; then a plain watch.
async fn reflect(maps: Api<ConfigMap>) {
    for config in [Config::default().page_size(1), Config::default().streaming_lists()] {
        let (store, writer) = reflector::store();
        let stream = watcher(maps.clone(), config.labels("part=test"));
        let mut changes = Box::pin(stream.reflect(writer).applied_objects());
        for _ in 0..3 {
            changes.try_next().await.unwrap().unwrap();
        }
        let patch = json!({"metadata": {"annotations": {"x": "y"}}});
        maps.patch("b", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        let undo = json!({"metadata": {"annotations": null}});
        maps.patch("b", &PatchParams::default(), &Patch::Merge(&undo)).await.unwrap();
        let changed = changes.try_next().await.unwrap().unwrap();
        assert_eq!(changed.metadata.name.as_deref(), Some("b"));
        assert_eq!(store.state().len(), 3);
    }
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &config_map("late", "1")).await.unwrap();
    maps.delete("late", &DeleteParams::default()).await.unwrap();
    let mut events = Box::pin(maps.watch(&WatchParams::default().timeout(5), &version).await.unwrap());
    let is_added = matches!(events.next().await, Some(Ok(WatchEvent::Added(_))));
    let is_deleted = matches!(events.next().await, Some(Ok(WatchEvent::Deleted(_))));
    assert!(is_added && is_deleted);
}
