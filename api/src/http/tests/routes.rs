//! Every route with the right that it takes.
//!
//! `routes.txt` has a row for each resource, sub-resource and verb that is served: a route without a row, and a row
//! without a route, fail. `UPDATE_ROUTES=1` writes the file anew, for a reader to judge the difference.

use std::fmt::Write;

use axum::body::Body;
use http::Method;
use orch_proto::brand::ORCH;

use super::Server;
use crate::registry::{Registry, Resource};

const TABLE: &str = include_str!("routes.txt");

/// Method and path of each verb that `verbs` holds, on the object or collection at `base`.
fn routes_at(base: &str, verbs: &[String], subresource: &str) -> Vec<(Method, String)> {
    let one = match subresource {
        "" => format!("{base}/n"),
        part => format!("{base}/n/{part}"),
    };
    let is_part = !subresource.is_empty();
    let route = |verb: &String| match verb.as_str() {
        "get" => (Method::GET, one.clone()),
        "list" => (Method::GET, base.to_owned()),
        "watch" => (Method::GET, format!("{base}?watch=1")),
        "create" if is_part => (Method::POST, one.clone()),
        "create" => (Method::POST, base.to_owned()),
        "update" => (Method::PUT, one.clone()),
        "patch" => (Method::PATCH, one.clone()),
        "delete" => (Method::DELETE, one.clone()),
        "deletecollection" => (Method::DELETE, base.to_owned()),
        other => panic!("a verb without a route: {other}"),
    };
    verbs.iter().map(route).collect()
}

fn routes_of(resource: &Resource) -> Vec<(Method, String)> {
    let group = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let base = match resource.namespaced {
        true => format!("{group}/namespaces/ns/{}", resource.plural),
        false => format!("{group}/{}", resource.plural),
    };
    let mut routes = routes_at(&base, &resource.verbs, "");
    for part in &resource.subresources {
        routes.extend(routes_at(&base, &part.verbs, &part.name));
    }
    if resource.namespaced {
        let everywhere = format!("{group}/{}", resource.plural);
        let reads = resource.verbs.iter().filter(|verb| matches!(verb.as_str(), "list" | "watch"));
        routes.extend(routes_at(&everywhere, &reads.cloned().collect::<Vec<_>>(), ""));
    }
    routes
}

/// Paths beside the resources.
const OTHERS: [&str; 9] = [
    "/",
    "/api",
    "/apis",
    "/apis/apps",
    "/api/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/healthz/ping",
    "/metrics",
];

/// Method and path of everything that is served.
pub(super) fn all_routes() -> Vec<(Method, String)> {
    let registry = Registry::builtin(&ORCH);
    let mut routes: Vec<_> = registry.resources().flat_map(|resource| routes_of(resource)).collect();
    routes.extend(OTHERS.map(|path| (Method::GET, path.to_owned())));
    routes
}

#[tokio::test(start_paused = true)]
async fn every_route_is_authenticated_and_authorized_by_its_row() {
    let server = Server::new().await;
    let mut stranger = Server::new().await;
    let address = "127.0.0.1:1".parse().unwrap();
    stranger.peer = std::sync::Arc::new(crate::authn::Peer {
        address,
        certificate: None,
        local_admin: false,
        is_front_proxy: false,
    });
    let mut table = String::new();
    for (method, path) in all_routes() {
        let answered = stranger.send(method.clone(), &path, &[], Body::empty()).await;
        assert_eq!(answered.code, 401, "{method} {path} without credentials");
        let nobody = [("impersonate-user", "nobody")];
        let answered = server.send(method.clone(), &path, &nobody, Body::empty()).await;
        assert_eq!(answered.code, 403, "{method} {path}: {}", answered.text);
        let message = answered.json()["message"].as_str().unwrap_or_default().to_owned();
        let (_, right) =
            message.split_once("cannot ").unwrap_or_else(|| panic!("{method} {path}: {message}"));
        writeln!(table, "{method} {path}: {right}").unwrap();
    }
    if std::env::var_os("UPDATE_ROUTES").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/tests/routes.txt");
        std::fs::write(file, &table).unwrap();
    }
    for (found, row) in table.lines().zip(TABLE.lines()) {
        assert_eq!(found, row, "see routes.txt");
    }
    assert_eq!(table.lines().count(), TABLE.lines().count(), "routes and rows");
}
