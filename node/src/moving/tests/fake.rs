//! A server of the API in memory, at a port of this machine: enough of it to be the source or the target of a move.
//!
//! Owns discovery, lists in pages, watches, imports and removals, and what a test has it answer in their place. It has no rules. Of the loops
//! it has a garbage collector, which a target runs at each change: the earliest moment at which a real one may.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::admin::Access;
use crate::certs::{Authority, server_leaf};

/// Answers a request, `METHOD PATH?QUERY` and its body, in place of the server.
pub(super) type Script = Box<dyn Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync>;

pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.orch.io";

/// Group, version, plural, kind, and whether its objects are in namespaces.
type Resource = (String, String, String, String, bool);

#[derive(Default)]
struct State {
    resources: Vec<Resource>,
    /// By the id of the kind and the place.
    objects: BTreeMap<(String, String), Value>,
    revision: u64,
    /// Revision, id of the kind, event.
    events: Vec<(u64, String, Value)>,
    calls: Vec<String>,
    /// Definitions that are in force after so many further questions for groups.
    coming: Vec<(usize, Resource)>,
    /// The ids of the kinds and the places of the objects that the garbage collector deleted; `None`: there is none.
    collected: Option<Vec<(String, String)>>,
}

pub(super) struct Fake {
    state: Mutex<State>,
    script: Mutex<Option<Script>>,
    changed: watch::Sender<u64>,
    /// Lists wait while it is true.
    pub(super) is_held: watch::Sender<bool>,
    /// The next import to a path with this part waits; none but that.
    late: Mutex<Option<&'static str>>,
    /// Whether the import that waits goes on.
    is_let_go: watch::Sender<bool>,
    /// Questions for groups until a new definition is in force.
    pub(super) delay: Mutex<usize>,
    pub(super) access: Mutex<Option<Access>>,
}

/// An object at `place`.
pub(super) fn object(place: &str, uid: &str) -> Value {
    let mut metadata = json!({"name": place, "uid": uid, "creationTimestamp": "2020-01-02T03:04:05Z"});
    if let Some((namespace, name)) = place.split_once('/') {
        (metadata["namespace"], metadata["name"]) = (json!(namespace), json!(name));
    }
    json!({"metadata": metadata})
}

/// `object` with an owner.
pub(super) fn owned(mut object: Value, (api_version, kind, name, uid): (&str, &str, &str, &str)) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
    object
}

/// A definition of `PLURAL.example.com`.
pub(super) fn definition(plural: &str, uid: &str) -> Value {
    let mut definition = object(&format!("{plural}.example.com"), uid);
    definition["spec"] = json!({
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": plural, "kind": format!("Kind-{plural}")},
        "versions": [{"name": "v1", "served": true, "storage": true}],
    });
    definition
}

fn resource(group: &str, plural: &str, kind: &str, namespaced: bool) -> Resource {
    (group.to_owned(), "v1".to_owned(), plural.to_owned(), kind.to_owned(), namespaced)
}

fn id_of((group, _, plural, ..): &Resource) -> String {
    if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") }
}

impl Fake {
    /// A server of a cluster called `name`, with a few kinds and its namespaces `default` and `n`.
    pub(super) async fn start(name: &str) -> Arc<Fake> {
        let fake = Arc::new(Fake {
            state: Mutex::default(),
            script: Mutex::default(),
            changed: watch::channel(0).0,
            is_held: watch::channel(false).0,
            late: Mutex::default(),
            is_let_go: watch::channel(false).0,
            delay: Mutex::new(0),
            access: Mutex::default(),
        });
        fake.state.lock().resources = vec![
            resource("", "configmaps", "ConfigMap", true),
            resource("", "namespaces", "Namespace", false),
            resource("", "pods", "Pod", true),
            resource("", "secrets", "Secret", true),
            resource("", "serviceaccounts", "ServiceAccount", true),
            resource("", "services", "Service", true),
            resource("apps", "replicasets", "ReplicaSet", true),
            resource("apiextensions.orch.io", "customresourcedefinitions", "CustomResourceDefinition", false),
            resource("coordination.orch.io", "leases", "Lease", true),
        ];
        for namespace in ["default", "n"] {
            fake.put("namespaces", object(namespace, &format!("{name}-{namespace}")));
        }
        // The source's gives way nowhere: both have the same.
        fake.put("namespaces", object("n", "u-n"));
        fake.put("services", object("default/orch", &format!("{name}-api")));
        fake.serve().await;
        fake
    }

    async fn serve(self: &Arc<Fake>) {
        let now = time::OffsetDateTime::now_utc();
        let authority = Authority::create("ca", now).unwrap();
        let pair = authority.issue(&server_leaf("a", &[], &ORCH), now).unwrap();
        let certificate = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate(&pair.certificate)],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate(&authority.pair.certificate)).unwrap();
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut access = Access::trusting(Arc::new(client), authority.pair.certificate.as_bytes());
        access.servers.push(listener.local_addr().unwrap().to_string());
        *self.access.lock() = Some(access);
        let (fake, acceptor) = (self.clone(), TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (fake, acceptor) = (fake.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let fake = fake.clone();
                        async move { Ok::<_, Infallible>(fake.answer(request).await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    }

    /// Collects garbage from now on.
    pub(super) fn collect(&self) {
        self.state.lock().collected = Some(Vec::new());
    }

    /// The objects that the garbage collector deleted, in order.
    pub(super) fn collected(&self) -> Vec<(String, String)> {
        self.state.lock().collected.clone().unwrap_or_default()
    }

    /// Has `script` answer what it has an answer for.
    pub(super) fn script(
        &self,
        script: impl Fn(&str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) {
        *self.script.lock() = Some(Box::new(script));
    }

    /// Has the next import to a path with `part` wait until it is let go: its effect is late.
    pub(super) fn hold(&self, part: &'static str) {
        self.is_let_go.send_replace(false);
        *self.late.lock() = Some(part);
    }

    /// Whether an import waits, or has waited, since the last call of `hold`.
    pub(super) fn is_holding(&self) -> bool {
        self.late.lock().is_none()
    }

    /// Lets the import go that waits.
    pub(super) fn let_go(&self) {
        self.is_let_go.send_replace(true);
    }

    pub(super) fn end_script(&self) {
        *self.script.lock() = None;
    }

    /// Stores `object`.
    pub(super) fn put(&self, id: &str, object: Value) {
        let mut state = self.state.lock();
        if id == DEFINITIONS {
            let spec = &object["spec"];
            let text = |at: &str| spec.pointer(at).and_then(Value::as_str).unwrap().to_owned();
            let declared = resource(&text("/group"), &text("/names/plural"), &text("/names/kind"), true);
            if !state.resources.contains(&declared) {
                state.coming.push((*self.delay.lock(), declared));
            }
        }
        let place = super::super::kinds::place_of(&object);
        state.change(id, &place, Some(object));
        state.collect_garbage();
        self.changed.send_replace(state.revision);
    }

    /// Deletes the object at `place`.
    pub(super) fn delete(&self, id: &str, place: &str) {
        let mut state = self.state.lock();
        if id == DEFINITIONS {
            let places: Vec<_> = state.objects.keys().filter(|(of, _)| of == place).cloned().collect();
            places.iter().for_each(|(of, at)| state.change(of, at, None));
            state.resources.retain(|resource| id_of(resource) != place);
        }
        state.change(id, place, None);
        state.collect_garbage();
        self.changed.send_replace(state.revision);
    }

    pub(super) fn uid(&self, id: &str, place: &str) -> Option<String> {
        let found = self.found(id, place)?;
        found["metadata"]["uid"].as_str().map(str::to_owned)
    }

    pub(super) fn found(&self, id: &str, place: &str) -> Option<Value> {
        self.state.lock().objects.get(&(id.to_owned(), place.to_owned())).cloned()
    }

    /// The requests that begin with `start`, in order.
    pub(super) fn calls(&self, start: &str) -> Vec<String> {
        self.state.lock().calls.iter().filter(|call| call.starts_with(start)).cloned().collect()
    }

    pub(super) fn forget_calls(&self) {
        self.state.lock().calls.clear();
    }

    async fn answer(self: Arc<Fake>, request: Request<Incoming>) -> Response<Body> {
        let call = format!("{} {}", request.method(), request.uri());
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.state.lock().calls.push(call.clone());
        let scripted = self.script.lock().as_ref().and_then(|script| script(&call, &body));
        let query: BTreeMap<String, String> = url_pairs(parts.uri.query().unwrap_or_default()).collect();
        if let (None, Some(from)) = (&scripted, query.get("watch").and(query.get("resourceVersion"))) {
            let target = self.state.lock().target(parts.uri.path());
            return match target {
                Some((id, _)) => Response::new(self.watch(id, from.parse().unwrap())),
                None => Response::builder().status(404).body(Body::empty()).unwrap(),
            };
        }
        if parts.method == Method::GET && query.contains_key("limit") {
            let mut held = self.is_held.subscribe();
            held.wait_for(|is_held| !is_held).await.unwrap();
        }
        let is_late = |part: &mut &str| parts.method == Method::PUT && call.contains(*part);
        let held = self.late.lock().take_if(is_late);
        if held.is_some() {
            self.is_let_go.subscribe().wait_for(|is_let_go| *is_let_go).await.unwrap();
        }
        let (code, answer) =
            scripted.unwrap_or_else(|| self.reply(&parts.method, parts.uri.path(), &query, body));
        let answer = Body::from(answer.to_string());
        Response::builder().status(code).body(answer).unwrap()
    }

    /// The events of the kind called `id` after `from`.
    fn watch(self: Arc<Fake>, id: String, from: u64) -> Body {
        let changed = self.changed.subscribe();
        Body::from_stream(stream::unfold(
            (self, changed, id, from),
            |(fake, mut changed, id, from)| async move {
                loop {
                    changed.borrow_and_update();
                    let next =
                        fake.state.lock().events.iter().find(|(at, of, _)| *at > from && *of == id).cloned();
                    if let Some((at, _, event)) = next {
                        let line = Ok::<_, Infallible>(Bytes::from(format!("{event}\n")));
                        return Some((line, (fake, changed, id, at)));
                    }
                    changed.changed().await.ok()?;
                }
            },
        ))
    }

    fn reply(
        &self,
        method: &Method,
        path: &str,
        query: &BTreeMap<String, String>,
        body: Value,
    ) -> (u16, Value) {
        if path.ends_with("selfsubjectaccessreviews") {
            return (201, json!({"status": {"allowed": true}}));
        }
        let mut state = self.state.lock();
        if let Some(document) = state.discovery(path) {
            return (200, document);
        }
        let Some((id, place)) = state.target(path) else { return (404, json!({"reason": "NotFound"})) };
        let Some(place) = place else { return (200, state.list(&id, query)) };
        let is_dry = query.contains_key("dryRun");
        let found = state.objects.get(&(id.clone(), place.clone())).cloned();
        let uid = found.as_ref().map(|found| found["metadata"]["uid"].clone());
        drop(state);
        match (method.as_str(), found) {
            ("PUT", found) => {
                let namespace = place.split_once('/').map(|(namespace, _)| namespace);
                if !is_dry && namespace.is_some_and(|name| self.found("namespaces", name).is_none()) {
                    return (404, json!({"details": {"kind": "namespaces"}}));
                }
                let is_other = uid.is_some_and(|uid| uid != body["metadata"]["uid"]);
                if is_other && query["import"] == "exact" {
                    return (409, json!({"reason": "AlreadyExists"}));
                }
                if !is_dry && found.is_none_or(|found| !is_same(&found, &body)) {
                    self.put(&id, body.clone());
                }
                (200, body)
            }
            (_, None) => (404, json!({"reason": "NotFound"})),
            ("GET", Some(found)) => (200, found),
            ("DELETE", Some(found)) => {
                if body["preconditions"]["uid"] != found["metadata"]["uid"] {
                    return (409, json!({"reason": "Conflict"}));
                }
                self.delete(&id, &place);
                (200, json!({"status": "Success"}))
            }
            _ => (405, Value::Null),
        }
    }
}

impl State {
    fn change(&mut self, id: &str, place: &str, object: Option<Value>) {
        self.revision += 1;
        let at = (id.to_owned(), place.to_owned());
        let (kind, mut shown) = match &object {
            Some(object) if self.objects.contains_key(&at) => ("MODIFIED", object.clone()),
            Some(object) => ("ADDED", object.clone()),
            None => ("DELETED", self.objects.get(&at).cloned().unwrap_or_default()),
        };
        shown["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        match object {
            Some(_) => self.objects.insert(at, shown.clone()),
            None => self.objects.remove(&at),
        };
        self.events.push((self.revision, id.to_owned(), json!({"type": kind, "object": shown})));
    }

    /// Deletes each object all of whose owners are absent and of served kinds, and each token whose account is absent.
    fn collect_garbage(&mut self) {
        while let Some(collected) = &mut self.collected {
            let uids: BTreeSet<&str> =
                self.objects.values().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
            let is_gone = |owner: &Value| {
                let group =
                    owner["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
                let is_served =
                    self.resources.iter().any(|of| of.0 == group && owner["kind"] == of.3.as_str());
                is_served && !uids.contains(owner["uid"].as_str().unwrap())
            };
            let is_garbage = |object: &Value| {
                let metadata = &object["metadata"];
                let owners = metadata["ownerReferences"].as_array();
                let account = metadata["annotations"]["orch.io/service-account.uid"].as_str();
                owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(is_gone))
                    || account.is_some_and(|uid| !uids.contains(uid))
            };
            let garbage = self.objects.iter().find(|(_, object)| is_garbage(object));
            let Some((id, place)) = garbage.map(|(at, _)| at.clone()) else { return };
            collected.push((id.clone(), place.clone()));
            self.change(&id, &place, None);
        }
    }

    /// The id of the kind and the place that a path names.
    fn target(&self, path: &str) -> Option<(String, Option<String>)> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (plural, place) = match rest {
            ["namespaces", namespace, plural, name] => (plural, Some(format!("{namespace}/{name}"))),
            [plural, name] => (plural, Some((*name).to_owned())),
            [plural] => (plural, None),
            _ => return None,
        };
        let found = self.resources.iter().find(|of| of.0 == group && of.2 == *plural)?;
        Some((id_of(found), place))
    }

    fn discovery(&mut self, path: &str) -> Option<Value> {
        if path == "/apis" {
            for (left, declared) in std::mem::take(&mut self.coming) {
                match left.checked_sub(1) {
                    Some(left) => self.coming.push((left, declared)),
                    None => self.resources.push(declared),
                }
            }
            self.collect_garbage();
            let groups: BTreeMap<&str, ()> = self.resources.iter().map(|of| (of.0.as_str(), ())).collect();
            let version = json!({"version": "v1"});
            let groups = groups.keys().filter(|group| !group.is_empty());
            let groups =
                groups.map(|name| json!({"name": name, "versions": [version], "preferredVersion": version}));
            return Some(json!({"groups": groups.collect::<Vec<_>>()}));
        }
        let group = match path.trim_start_matches('/').split('/').collect::<Vec<_>>().as_slice() {
            ["api", _] => String::new(),
            ["apis", group, _] => (*group).to_owned(),
            _ => return None,
        };
        let of_group = self.resources.iter().filter(|of| of.0 == group);
        let verbs = ["get", "list", "create"];
        let shown = of_group
            .map(|(_, _, plural, kind, namespaced)| json!({"name": plural, "kind": kind, "namespaced": namespaced, "verbs": verbs}));
        Some(json!({"resources": shown.collect::<Vec<_>>()}))
    }

    /// A page of a list; the token is the last place of the page before.
    fn list(&self, id: &str, query: &BTreeMap<String, String>) -> Value {
        let limit: usize = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let after = query.get("continue").map_or("", String::as_str);
        let all = self.objects.iter().filter(|((of, place), _)| of == id && place.as_str() > after);
        let page: Vec<_> = all.clone().take(limit).collect();
        let next =
            if all.count() > page.len() { page.last().map_or("", |((_, place), _)| place) } else { "" };
        let items: Vec<&Value> = page.iter().map(|(_, object)| *object).collect();
        json!({"items": items, "metadata": {"resourceVersion": self.revision.to_string(), "continue": next}})
    }
}

/// Whether two objects differ at most in what an import does not keep.
fn is_same(one: &Value, other: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        for field in ["apiVersion", "kind"] {
            object.as_object_mut().unwrap().remove(field);
        }
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object
    };
    bare(one) == bare(other)
}

fn url_pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.replace("%2F", "/").replace("%2f", "/")))
    })
}
