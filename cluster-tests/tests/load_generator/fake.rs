//! A server of config maps in memory, over plain HTTP: just enough of the API for the benchmark, with faults on
//! request.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{broadcast, oneshot};

/// Correct behaviour, or a fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Right,
    /// Every tenth creation is answered 503.
    RefusesSomeCreations,
    /// The last event of a run of 120 comes twice.
    RepeatsAnEvent,
    /// Watches end after the 50th event.
    EndsWatches,
}

/// A running server; it ends when dropped.
pub(crate) struct Fake {
    pub(crate) base: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Fake {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let (address_to, address) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                address_to.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = serve(listener, behaviour) => {}
                    _ = stopped => {}
                }
            });
        });
        let base = format!("http://{}", address.recv().unwrap());
        Self { base, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || thread::panicking(), "the fake server panicked");
        }
    }
}

type Body = BoxBody<Bytes, Infallible>;

struct State {
    behaviour: Behaviour,
    created: u64,
    patched: u64,
    /// The custom kind is defined.
    is_defined: bool,
    objects: HashMap<String, BTreeMap<String, Value>>,
    changes: broadcast::Sender<Bytes>,
}

async fn serve(listener: TcpListener, behaviour: Behaviour) {
    let changes = broadcast::Sender::new(4096);
    let state =
        State { behaviour, created: 0, patched: 0, is_defined: false, objects: HashMap::new(), changes };
    let state = Arc::new(Mutex::new(state));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = state.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(state.clone(), request));
            // A client that disconnects ends its connection with an error, which is no fault of the test.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    assert_eq!(head.headers["authorization"], "Bearer secret");
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
    // Objects of the custom kind are kept as config maps are.
    let path =
        path.replace("/apis/custom.bench.example.com/v1", "/api/v1").replace("/benchmaps", "/configmaps");
    let parts: Vec<_> = path.trim_start_matches("/api/v1/namespaces").trim_matches('/').split('/').collect();
    let mut state = state.lock();
    let (status, body) = match (&head.method, parts.as_slice()) {
        (&Method::GET, ["apis"]) => {
            (200, full(&json!({"groups": [{"name": "apps"}, {"name": "apiextensions.example.io"}]})))
        }
        (&Method::POST, ["apis", "apiextensions.example.io", "v1", "customresourcedefinitions"]) => {
            state.is_defined = true;
            (201, full(&json!({})))
        }
        (&Method::GET, ["api", "v1", "configmaps"]) => {
            (if state.is_defined { 200 } else { 404 }, full(&json!({})))
        }
        (&Method::POST, [""]) => (201, full(&json!({}))),
        (&Method::DELETE, _) => (200, full(&json!({}))),
        (&Method::POST, [namespace, "configmaps"]) => state.create(namespace, &body),
        (&Method::GET, [_, "configmaps"]) if query.contains("watch=1") => (200, state.watch()),
        (&Method::GET, [namespace, "configmaps"]) => (200, state.list(namespace, query)),
        (&Method::GET, [namespace, "configmaps", name]) => match state.objects[*namespace].get(*name) {
            Some(object) => (200, full(object)),
            None => (404, full(&json!({}))),
        },
        (&Method::PATCH, [namespace, "configmaps", name]) => (200, state.patch(namespace, name, &body)),
        other => panic!("the benchmark asked for {other:?}"),
    };
    Ok(Response::builder().status(status).body(body).unwrap())
}

impl State {
    fn create(&mut self, namespace: &str, body: &[u8]) -> (u16, Body) {
        self.created += 1;
        if self.behaviour == Behaviour::RefusesSomeCreations && self.created.is_multiple_of(10) {
            return (503, full(&json!({})));
        }
        let object: Value = serde_json::from_slice(body).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let before = self.objects.entry(namespace.to_owned()).or_default().insert(name, object.clone());
        assert!(before.is_none(), "an object is made twice: {object}");
        (201, full(&object))
    }

    fn list(&self, namespace: &str, query: &str) -> Body {
        let parameter =
            |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let limit = parameter("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let from: usize = parameter("continue").map_or(0, |token| token.parse().unwrap());
        let empty = BTreeMap::new();
        let all = self.objects.get(namespace).unwrap_or(&empty);
        let items: Vec<_> = all.values().skip(from).take(limit).collect();
        let next = from + items.len();
        let token = if next < all.len() { next.to_string() } else { String::new() };
        full(&json!({"metadata": {"resourceVersion": "7", "continue": token}, "items": items}))
    }

    fn patch(&mut self, namespace: &str, name: &str, body: &[u8]) -> Body {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let object = self.objects.get_mut(namespace).unwrap().get_mut(name).unwrap();
        for (key, value) in patch["data"].as_object().unwrap() {
            object["data"][key] = value.clone();
        }
        let event = Bytes::from(json!({"type": "MODIFIED", "object": object}).to_string() + "\n");
        let answer = full(object);
        self.patched += 1;
        if self.behaviour == Behaviour::RepeatsAnEvent && self.patched == 120 {
            let _ = self.changes.send(event.clone()); // fails without watchers, as in other works
        }
        let _ = self.changes.send(event);
        answer
    }

    fn watch(&self) -> Body {
        let ends = (self.behaviour == Behaviour::EndsWatches).then_some(50);
        let changes = self.changes.subscribe();
        let events = stream::unfold((changes, 0), move |(mut changes, sent)| async move {
            if ends == Some(sent) {
                return None;
            }
            let event = changes.recv().await.ok()?;
            Some((Ok(Frame::data(event)), (changes, sent + 1)))
        });
        BodyExt::boxed(StreamBody::new(events))
    }
}

fn full(value: &Value) -> Body {
    Full::new(Bytes::from(value.to_string())).boxed()
}
