//! Two aggregated servers, and what becomes of requests on their way to them.
//!
//! Owns what they answer, the record of what they have carried out, and their faults: one of them hangs for a part of a run, and in the
//! end. A server is told apart by the host that is dialled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use openraft_rt::AsyncRuntime;
use orch_api::aggregation::{Relay, Server};
use orch_api::connect::BackendError;
use orch_cluster_tests::sim::dice::Dice;
use orch_cluster_tests::sim::runtime::NodeRuntime;
use orch_cluster_tests::sim::world::World;
use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::plant::Plant;

/// The servers by their names: the first one never hangs for long.
pub(crate) const NAMES: [&str; 2] = ["steady", "moody"];

/// The number of the server that hangs.
pub(crate) const MOODY: usize = 1;

/// A text that clients send as another user's name, in headers that are not theirs.
pub(crate) const FORGED: &str = "mallory";

/// The group of a server.
pub(crate) fn group(name: &str) -> String {
    format!("{name}.aggregated.example.com")
}

/// The path of things of a server in `namespace`.
pub(crate) fn things(name: &str, namespace: &str) -> String {
    format!("/apis/{}/v1/namespaces/{namespace}/things", group(name))
}

/// The path of all APIServices.
pub(crate) fn api_services() -> String {
    format!("/apis/{}/v1/apiservices", ORCH.group("apiregistration"))
}

/// The service and the APIService of a server.
pub(crate) fn documents(name: &str) -> [(String, Value); 2] {
    let service = json!({
        "metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": format!("{name}.sim")},
    });
    let group = group(name);
    let spec = json!({
        "group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": name},
    });
    let api_service = json!({"metadata": {"name": format!("v1.{group}")}, "spec": spec});
    [("/api/v1/namespaces/default/services".to_owned(), service), (api_services(), api_service)]
}

/// A request of a client that a server has carried out.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) token: String,
    /// All headers that name a user, as they came.
    pub(crate) users: Vec<String>,
    /// Headers that no client's request may bring along.
    pub(crate) forbidden: Vec<String>,
}

/// Both servers. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Backends {
    done: Arc<Mutex<Vec<Done>>>,
    is_calm: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
}

impl Backends {
    /// The requests that were carried out so far.
    pub(crate) fn done(&self) -> Vec<Done> {
        self.done.lock().clone()
    }

    /// Ends all faults of single requests.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    /// Has the moody server hang, or answer again.
    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    /// The ways of requests from the members of `world`.
    pub(crate) fn join(&self, world: &World, plant: Option<Plant>) {
        let (backends, of) = (self.clone(), world.clone());
        world.relay_requests(Box::new(move |node, start| {
            let dice = of.dice(&format!("relays {} {start}", node.0));
            let state = Arc::new(Mutex::new(Shared::default()));
            Arc::new(Way { backends: backends.clone(), dice, plant, shared: state })
        }));
    }

    fn carry_out(&self, name: &str, request: &Seen) -> Response<Body> {
        let path = request.path.as_str();
        let own = format!("/apis/{}/v1", group(name));
        if path == own {
            let thing = json!({
                "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
                "verbs": ["create", "deletecollection", "get", "list"],
            });
            let group_version = format!("{}/v1", group(name));
            return reply(
                200,
                &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": [thing]}),
            );
        }
        let Some(token) = request.query.strip_prefix("token=").filter(|_| path.starts_with(&own)) else {
            let list = json!({"kind": "ThingList", "apiVersion": "v1", "metadata": {}, "items": []});
            return if path.starts_with(&own) { reply(200, &list) } else { reply(404, &json!({})) };
        };
        let of = |prefix: &str| -> Vec<String> {
            let named = request
                .headers
                .iter()
                .filter(|(name, _)| name.as_str().replace('_', "-").starts_with(prefix));
            named.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
        };
        let forbidden = ["impersonate-", "authorization"].map(of).concat();
        let users = of("x-remote-user");
        let answer = json!({"token": token, "user": users.first()});
        self.done.lock().push(Done { token: token.to_owned(), users, forbidden });
        reply(201, &answer)
    }
}

fn reply(code: u16, document: &Value) -> Response<Body> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(document.to_string())).expect("codes are valid")
}

/// A request as a server sees it.
#[derive(Clone, Default)]
struct Seen {
    path: String,
    query: String,
    headers: HeaderMap,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    Unreached,
    /// The server carries it out, and its answer is lost.
    Lost,
    /// It carries it out, and its answer never comes.
    Hangs,
    Failure,
}

/// The weight of each fate while there are faults.
const FATES: [(Fate, u64); 5] =
    [(Fate::Answered, 84), (Fate::Unreached, 4), (Fate::Lost, 6), (Fate::Hangs, 3), (Fate::Failure, 3)];

/// The memory of one process's planted bugs.
#[derive(Default)]
struct Shared {
    /// Headers of the last request of a client.
    last: Option<HeaderMap>,
    /// A server that hung has the only place.
    is_taken: bool,
}

/// The way of requests from one process.
struct Way {
    backends: Backends,
    dice: Dice,
    plant: Option<Plant>,
    shared: Arc<Mutex<Shared>>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

impl Relay for Way {
    fn relay(
        &self,
        server: Server,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>> {
        let is_calm = self.backends.is_calm.load(Ordering::Relaxed);
        let fate = if is_calm { Fate::Answered } else { self.dice.weighted(&FATES) };
        let delay = self.dice.millis(0..30);
        let (backends, plant, shared) = (self.backends.clone(), self.plant, self.shared.clone());
        async move {
            NodeRuntime::sleep(delay).await;
            let Some(at) = NAMES.iter().position(|name| server.at.0 == format!("{name}.sim")) else {
                return Err(BackendError::Dial("no such host".to_owned()));
            };
            if plant == Some(Plant::SharesPlaces) && shared.lock().is_taken {
                std::future::pending::<()>().await;
            }
            if matches!(fate, Fate::Unreached) {
                return Err(BackendError::Dial("refused".to_owned()));
            }
            if at == MOODY && backends.hangs.load(Ordering::Relaxed) {
                shared.lock().is_taken = true;
                std::future::pending::<()>().await;
            }
            let mut seen = Seen {
                path: request.uri().path().to_owned(),
                query: request.uri().query().unwrap_or_default().to_owned(),
                headers: request.headers().clone(),
            };
            if !seen.query.is_empty() {
                let own = shared.lock().last.replace(seen.headers.clone());
                if let Some(other) = own.filter(|_| plant == Some(Plant::MixesIdentities)) {
                    seen.headers = other;
                }
            }
            let answer = backends.carry_out(NAMES[at], &seen);
            match fate {
                Fate::Lost if plant == Some(Plant::PassesOnAgain) => Ok(backends.carry_out(NAMES[at], &seen)),
                Fate::Lost => Err(BackendError::Lost("reset".to_owned())),
                Fate::Hangs => std::future::pending().await,
                Fate::Failure => Ok(reply(500, &json!({}))),
                Fate::Answered | Fate::Unreached => Ok(answer),
            }
        }
        .boxed()
    }
}

/// Requests that clients sent, by their tokens: the user of each.
pub(crate) type Sent = BTreeMap<String, String>;
