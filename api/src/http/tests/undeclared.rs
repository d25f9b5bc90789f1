//! Paths that lead nowhere on a member that lags: the newest definitions are asked for, for users who may use them and for no other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use http::Method;
use orch_raft::Store;
use orch_schema::json;
use orch_schema::value::Value;

use super::{Peer, Server};
use crate::testing::{Lag, ProposalOutcome, ScriptedStore};

const CRDS: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";

/// A definition of widgets in force.
pub(super) async fn define(server: &Server) {
    define_with(server, json!({"type": "object"})).await;
}

/// [`define`] with this schema of their version.
pub(super) async fn define_with(server: &Server, schema: Value) {
    let schema = json!({ "openAPIV3Schema": schema });
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let created = server.create(CRDS, definition).await;
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": ""});
    let names = created["spec"]["names"].clone();
    let status = json!({"acceptedNames": names, "storedVersions": ["v1"],
        "conditions": [condition("NamesAccepted"), condition("Established")]});
    let path = format!("{CRDS}/widgets.example.com/status");
    assert_eq!(server.merge(&path, json!({"status": status})).await.code, 200);
}

/// A member that is behind `server` as `lag` says.
fn laggard(server: &Server, lag: &Arc<Lag>) -> Server {
    let store = ScriptedStore {
        below: server.store.clone(),
        leads: Arc::new(false.into()),
        fate: ProposalOutcome::Applied,
        lag: lag.clone(),
    };
    let (store_below, clock) = (server.store.clone(), server.clock.clone());
    let (stopping, peer) = (server.stopping.clone(), server.peer.clone());
    Server { router: server.api_over(store).router(), store: store_below, clock, stopping, peer }
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_asked_for_an_unknown_path_by_those_who_may_use_it_alone() {
    let server = Server::new().await;
    let (before, lag) = (server.store.state(), Arc::new(Lag::default()));
    let member = laggard(&server, &lag);
    define(&server).await;
    let barriers = || lag.barriers.load(Ordering::Relaxed);
    *lag.behind.lock() = Some(before);
    let stranger =
        Peer { address: member.peer.address, certificate: None, local_admin: false, is_front_proxy: false };
    let stranger = Server { peer: Arc::new(stranger), ..laggard(&server, &lag) };
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let refused = stranger.send(method.clone(), WIDGETS, &[], Body::empty()).await;
        assert_eq!((refused.code.as_u16(), barriers()), (401, 0), "{method}");
        let refused =
            member.send(method.clone(), WIDGETS, &[("impersonate-user", "ann")], Body::empty()).await;
        assert_eq!((refused.code.as_u16(), barriers()), (403, 0), "{method}");
    }
    let wrong = member.get(&format!("{WIDGETS}?timeout=nope")).await;
    assert_eq!((wrong.code.as_u16(), barriers()), (400, 0));
    let body = Body::from(
        json!({"metadata": {"name": "w"}, "kind": "Widget", "apiVersion": "example.com/v1"}).to_string(),
    );
    let created = member.send(Method::POST, WIDGETS, &[], body).await;
    assert_eq!(created.code, 201, "the member learns of the kind: {}", created.text);
    assert!(barriers() >= 1);
    assert_eq!(member.get(WIDGETS).await.names(), ["w"]);
    let asked = barriers();
    assert_eq!(member.get("/apis/example.com/v1/namespaces/ns/gadgets").await.code, 404);
    assert_eq!(barriers(), asked + 1, "one round");
    let documents: Value = member.get("/apis/example.com/v1").await.json();
    assert_eq!(documents["resources"][0]["kind"], "Widget");
    assert_eq!(barriers(), asked + 2, "documents tell of the newest definitions");
    let refused = stranger.send(Method::GET, "/apis/example.com/v1", &[], Body::empty()).await;
    assert_eq!((refused.code.as_u16(), barriers()), (401, asked + 2));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_a_client_has_seen_of_a_kind_is_waited_for_where_no_quorum_answers() {
    let server = Server::new().await;
    let (before, lag) = (server.store.state(), Arc::new(Lag::default()));
    let member = laggard(&server, &lag);
    define(&server).await;
    let (old, new) = (before.applied(), server.store.state().applied());
    *lag.behind.lock() = Some(before);
    lag.is_alone.store(true, Ordering::Relaxed);
    let listed = member.get(&format!("{WIDGETS}?resourceVersion={new}")).await;
    assert_eq!(listed.code, 504, "the client knows a newer state: {}", listed.text);
    for version in [String::new(), "0".to_owned(), old.to_string()] {
        let listed = member.get(&format!("{WIDGETS}?resourceVersion={version}")).await;
        assert_eq!(listed.code, 404, "{version}");
    }
    lag.is_alone.store(false, Ordering::Relaxed);
    assert_eq!(member.get(&format!("{WIDGETS}?resourceVersion={new}")).await.code, 200);
}
