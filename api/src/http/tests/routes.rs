//! Every route with the right that it takes, and for writes and connections with what admission is asked about.
//!
//! `routes.txt` has a row for each resource, sub-resource and verb that is served: a route without a row, and a row
//! without a route, fail. `UPDATE_ROUTES=1` writes the file anew, for a reader to judge the difference. That each route is
//! audited by the same attributes is shown in `audits`.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::Method;
use orch_proto::brand::ORCH;
use orch_raft::{Index, Key, Operation as StoreOperation, Put, Store, Transaction};
use orch_rules::Action;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::Server;
use super::passing::any_connector;
use crate::admission::{Additions, Attributes, Chain, Plugin, Refusal, Ruling, View, rule};
use crate::authn::service_account::testing::{accounts, elliptic};
use crate::authn::{AnonymousAccess, Authenticator, TokenTable};
use crate::gate::Gate;
use crate::http::Api;
use crate::http::own_paths::OWN_PATHS;
use crate::paging::TokenKey;
use crate::pipeline::{Features, Pipeline};
use crate::registry::{Registry, Resource};
use crate::request::{Query, Target, TargetPath, Verb, parse_path};

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
    if resource.verbs.iter().any(|verb| verb == "watch") {
        let watched = base.replacen(&group, &format!("{group}/watch"), 1);
        routes.extend([watched.clone(), format!("{watched}/n")].map(|path| (Method::GET, path)));
    }
    for part in &resource.subresources {
        routes.extend(routes_at(&base, &part.verbs, &part.name));
        if part.name == "proxy" {
            routes.extend(routes_at(&base, &part.verbs, "proxy/path/behind"));
        }
    }
    if resource.namespaced {
        let everywhere = format!("{group}/{}", resource.plural);
        if resource.verbs.iter().any(|verb| verb == "watch") {
            routes.push((Method::GET, everywhere.replacen(&group, &format!("{group}/watch"), 1)));
        }
        let reads = resource.verbs.iter().filter(|verb| matches!(verb.as_str(), "list" | "watch"));
        routes.extend(routes_at(&everywhere, &reads.cloned().collect::<Vec<_>>(), ""));
    }
    routes
}

/// Paths of discovery, and pages below the node's own paths.
const OTHERS: [&str; 12] = [
    "/",
    "/api",
    "/apis",
    "/apis/apps",
    "/api/v1",
    "/debug/api_priority_and_fairness/dump_priority_levels",
    "/debug/api_priority_and_fairness/dump_queues",
    "/debug/api_priority_and_fairness/dump_requests",
    "/healthz/ping",
    "/livez/ping",
    "/openapi/v3/api/v1",
    "/readyz/ping",
];

/// Paths that take no credentials.
const OPEN: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Method and path of everything that is served to those who have a right to it.
pub(super) fn all_routes() -> Vec<(Method, String)> {
    let registry = Registry::builtin(&ORCH);
    let mut routes: Vec<_> = registry.resources().flat_map(|resource| routes_of(resource)).collect();
    // few: four paths.
    let own = OWN_PATHS.into_iter().filter(|path| !OPEN.contains(path));
    routes.extend(OTHERS.into_iter().chain(own).map(|path| (Method::GET, path.to_owned())));
    routes
}

/// Begins the end of the row of a write that admission was not asked about; the code of its answer follows.
const NOT_ADMITTED: &str = " -> not admitted, ";

/// Notes the write or the connection that admission is asked about, and refuses it.
struct Notary(Arc<Mutex<Option<String>>>);

impl Notary {
    fn refuse(&self, attributes: &Attributes<'_>) -> Refusal {
        let Attributes { operation, resource, action, namespace, name, .. } = attributes;
        let operation = format!("{operation:?}").to_lowercase();
        let part = action.subresource();
        let separator = if part.is_empty() { "" } else { "/" };
        let note = format!("{operation} {}{separator}{part} {namespace}/{name}", resource.plural);
        *self.0.lock() = Some(note);
        Refusal::Forbidden("noted".to_owned())
    }
}

impl Plugin for Notary {
    fn name(&self) -> &'static str {
        "Notary"
    }

    fn handles(&self, _: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _: Option<&'a mut Value>,
        _: &'a View,
        _: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(Err(self.refuse(attributes)))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _: Option<&'a Value>,
        _: &'a View,
        _: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(Err(self.refuse(attributes)))
    }
}

/// A server with an object `n` of every kind, whose writes and connections all end with a note of what admission was asked
/// about.
struct Noted {
    server: Server,
    registry: Arc<Registry>,
    note: Arc<Mutex<Option<String>>>,
    /// The `resourceVersion` of every object.
    version: String,
}

impl Noted {
    async fn new() -> Noted {
        let server = Server::new().await;
        let registry = Registry::builtin(&ORCH);
        let put = |resource: &Arc<Resource>| {
            let namespace = if resource.namespaced { "ns" } else { "" };
            let key = Key::new(&resource.storage, namespace, "n").unwrap();
            let place = if resource.namespaced { r#""namespace":"ns","# } else { "" };
            let is_scaled = resource.subresource(Action::Scale.subresource()).is_some();
            let spec = if is_scaled { r#","spec":{"replicas":1}"# } else { "" };
            let json =
                format!(r#"{{"metadata":{{"resourceVersion":"",{place}"name":"n","uid":"u"}}{spec}}}"#);
            let json = Bytes::from(json);
            StoreOperation::Put(Put { key, json, revision_at: 32, index: Index::default() })
        };
        let stored = registry.resources().filter(|of| of.review.is_none() && of.stands_for_stored());
        let operations = stored.map(put).collect();
        let transaction = Transaction { proposed_ms: 1, conditions: Vec::new(), operations };
        server.store.propose(transaction).await.unwrap();
        let version = server.store.state().applied().0.to_string();
        let note = Arc::default();
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
        let gate = Gate::with_service_accounts(&ORCH, authenticator, Arc::new(accounts(elliptic())));
        let (store, clock) = (server.store.clone(), server.clock.clone());
        let (served, key) = (registry.clone(), TokenKey::new([7; 32]));
        let mut pipeline = Pipeline::new(store, served, key, clock, Features::default(), gate);
        pipeline.admission = Chain::new(vec![Box::new(Notary(Arc::clone(&note)))]);
        let api = Api::new(Arc::new(pipeline), server.stopping.clone());
        let router = api.connecting(any_connector()).router();
        Noted { server: Server { router, ..server }, registry, note, version }
    }

    /// What admission is asked about by a write of `path` or a connection to it, as the end of the route's row; empty for a
    /// read.
    async fn admitted(&self, method: &Method, path: &str) -> String {
        let (path_alone, query) = path.split_once('?').unwrap_or((path, ""));
        let TargetPath::Resource(target) = parse_path(path_alone) else { return String::new() };
        let verb = Verb::of(method, &target, &Query::parse(query)).unwrap();
        let endpoint = self.registry.endpoint(&target).unwrap();
        let is_connection = endpoint.action.is_passed_on() && endpoint.action != Action::Log;
        if verb.is_read() && !is_connection {
            return String::new();
        }
        let (content_type, body) = self.body(verb, &target);
        let headers = [("content-type", content_type)];
        let answered = self.server.send(method.clone(), path, &headers, Body::from(body)).await;
        let note = self.note.lock().take();
        match note {
            Some(note) => {
                assert_eq!(answered.code, 403, "{method} {path}: {}", answered.text);
                format!(" -> {note}")
            }
            None => format!("{NOT_ADMITTED}{}", answered.code.as_u16()),
        }
    }

    /// The content type and the body of a write that nothing before admission refuses.
    fn body(&self, verb: Verb, target: &Target) -> (&'static str, String) {
        let endpoint = self.registry.endpoint(target).unwrap();
        let resource = self.registry.find(&target.group, &target.version, &target.resource).unwrap();
        let part = resource.subresource(&target.subresource);
        let (group, version, kind) = match part {
            Some(part) => (&part.group, &part.version, &part.kind),
            None => (&resource.group, &resource.version, &resource.kind),
        };
        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        let metadata = match (verb, part) {
            (Verb::Create, None) => json!({"name": "new"}),
            (Verb::Create, Some(_)) => json!({"name": "n"}),
            _ => json!({"name": "n", "resourceVersion": self.version.as_str()}),
        };
        let object = json!({"apiVersion": api_version.as_str(), "kind": kind.as_str(), "metadata": metadata});
        debug_assert_eq!(endpoint.action.subresource(), target.subresource);
        match verb {
            Verb::Patch => {
                let labels = json!({"metadata": {"labels": {"a": "b"}}});
                ("application/merge-patch+json", labels.to_string())
            }
            Verb::Create | Verb::Update => ("application/json", object.to_string()),
            Verb::Delete | Verb::DeleteCollection | Verb::Get | Verb::List | Verb::Watch => {
                ("application/json", String::new())
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_route_is_authenticated_authorized_and_admitted_by_its_row() {
    let server = Server::new().await;
    let noted = Noted::new().await;
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
        let admitted = noted.admitted(&method, &path).await;
        writeln!(table, "{method} {path}: {right}{admitted}").unwrap();
    }
    if std::env::var_os("UPDATE_ROUTES").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/tests/routes.txt");
        std::fs::write(file, &table).unwrap();
    }
    let skipped: Vec<&str> = table.lines().filter(|row| row.contains(NOT_ADMITTED)).collect();
    assert!(skipped.is_empty(), "writes and connections that pass no admission: {skipped:#?}");
    for (found, row) in table.lines().zip(TABLE.lines()) {
        assert_eq!(found, row, "see routes.txt");
    }
    assert_eq!(table.lines().count(), TABLE.lines().count(), "routes and rows");
}
