//! A server in memory, and the cost of one request: processor time and peak memory.
//!
//! Owns the measuring. Memory is the process's resident peak less the memory held before. The figure is exact where
//! every test has a process of its own (nextest), and too low, never too high, where tests share a process.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use orch_api::ambient::{Ambient, Timestamp};
use orch_api::authn::{AnonymousAccess, Authenticator, Peer, TokenTable};
use orch_api::gate::Gate;
use orch_api::http::Api;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Features, Pipeline};
use orch_api::registry::Registry;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// One measurement at a time in a process.
static ALONE: Mutex<()> = Mutex::new(());

/// A clock that stands still, and a constant for a random number: no test depends on either.
#[derive(Debug)]
struct Still;

impl Ambient for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_322_145_000_000)
    }

    fn random(&self) -> u128 {
        7
    }
}

pub(crate) struct Server {
    router: Router,
    peer: Arc<Peer>,
    runtime: tokio::runtime::Runtime,
    _alone: MutexGuard<'static, ()>,
}

/// The response and the cost of a request.
pub(crate) struct Cost {
    pub(crate) code: u16,
    pub(crate) answer: Bytes,
    /// Bytes of the body and of the URL.
    pub(crate) sent: usize,
    /// Processor time of the whole process in milliseconds.
    pub(crate) cpu_ms: u64,
    /// Peak of resident bytes during the request, less those before it.
    pub(crate) peak: usize,
}

impl Cost {
    /// The cost of an update, with the bytes of the stored object added to those sent.
    pub(crate) fn on(self, stored: usize) -> Cost {
        Cost { sent: self.sent + stored, ..self }
    }
}

impl Server {
    /// A server with the namespace `ns`.
    pub(crate) fn new() -> Server {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
        let pipeline = Arc::new(Pipeline::new(
            MemoryStore::default(),
            Registry::builtin(&ORCH),
            TokenKey::new([7; 32]),
            Arc::new(Still),
            Features::default(),
            Gate::builtin(&ORCH, authenticator),
        ));
        let router = Api::new(pipeline, CancellationToken::new()).router();
        let address = "127.0.0.1:1".parse().unwrap();
        let peer = Arc::new(Peer { address, certificate: None, local_admin: true, is_front_proxy: false });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let server = Server { router, peer, runtime: runtime.unwrap(), _alone: alone };
        server.create("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}));
        server
    }

    /// Creates a valid object.
    pub(crate) fn create(&self, path: &str, object: &Value) {
        let (code, answer) = self.send(Method::POST, path, "application/json", object.to_string().into());
        assert_eq!(code, 201, "{}", String::from_utf8_lossy(&answer));
    }

    /// `media_type`: that of the body, or of a read the accepted one.
    fn send(&self, method: Method, path: &str, media_type: &str, body: Bytes) -> (u16, Bytes) {
        let header = if method == Method::GET { "accept" } else { "content-type" };
        let request = Request::builder().method(method).uri(path).header(header, media_type);
        let request = request.extension(self.peer.clone()).body(Body::from(body)).unwrap();
        let router = self.router.clone();
        // On a worker thread, as in a node.
        let answering = self.runtime.spawn(async move {
            let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
            let code = response.status().as_u16();
            (code, response.into_body().collect().await.unwrap().to_bytes())
        });
        self.runtime.block_on(answering).unwrap()
    }

    /// Sends a request and measures its cost. The body is built before; `media_type` is that of the body, or of a read
    /// the accepted one.
    pub(crate) fn measure(&self, method: Method, path: &str, media_type: &str, body: String) -> Cost {
        let sent = body.len() + path.len();
        let body = Bytes::from(body);
        let (held, cpu) = (status_bytes("VmRSS:"), cpu_nanos());
        // Resets the peak to the resident bytes of now.
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let (code, answer) = self.send(method, path, media_type, body);
        let cpu_ms = cpu_nanos().saturating_sub(cpu) / 1_000_000;
        let peak = status_bytes("VmHWM:").saturating_sub(held);
        Cost { code, answer, sent, cpu_ms, peak }
    }
}

/// A line of `/proc/self/status`, in bytes.
fn status_bytes(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Processor time of all living threads.
fn cpu_nanos() -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let of = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or_default()
    };
    threads.filter_map(Result::ok).map(of).sum()
}
