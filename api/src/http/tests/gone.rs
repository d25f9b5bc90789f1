//! Clients that disconnect, or reset their stream, while their large document is processed. The test speaks HTTP like a
//! node, without a socket.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc as waiting;
use std::thread::{self, ThreadId};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use orch_schema::budget::count_step;
use orch_schema::value::Map;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::*;
use crate::http::pool::Pool;

/// The way in which a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    /// HTTP/1.1: the connection breaks.
    Http1,
    /// HTTP/2: the connection breaks.
    Http2,
    /// HTTP/2: the stream is reset, and the connection stays.
    Stream,
}

/// A clock that blocks a job of the pool when it reads the time, as each stage does once.
struct Gate {
    clock: Arc<HandMoved>,
    /// The thread that serves connections, where an exchange reads the time as well.
    serving: ThreadId,
    is_closed: AtomicBool,
    arrived: mpsc::Sender<()>,
    opened: Mutex<waiting::Receiver<()>>,
    /// Whether the job found itself cancelled when the gate opened.
    was_cancelled: mpsc::Sender<bool>,
}

impl Ambient for Gate {
    fn now(&self) -> Timestamp {
        if thread::current().id() != self.serving && self.is_closed.swap(false, Ordering::SeqCst) {
            self.arrived.try_send(()).unwrap();
            self.opened.lock().unwrap().recv().unwrap();
            self.was_cancelled.try_send(!(0..10_000).all(|_| count_step())).unwrap();
        }
        self.clock.now()
    }

    fn random(&self) -> u128 {
        self.clock.random()
    }
}

/// A server whose pool has one thread, which the gate blocks.
struct Gated {
    server: Server,
    gate: Arc<Gate>,
    arrived: mpsc::Receiver<()>,
    open: waiting::Sender<()>,
    was_cancelled: mpsc::Receiver<bool>,
    /// Permits for the bodies and responses of all users.
    room: Arc<Semaphore>,
}

impl Gated {
    async fn new() -> Gated {
        let server = Server::new().await;
        let ((arrives, arrived), (tells, was_cancelled)) = (mpsc::channel(1), mpsc::channel(1));
        let (open, opened) = waiting::channel();
        let gate = Arc::new(Gate {
            clock: server.clock.clone(),
            serving: thread::current().id(),
            is_closed: AtomicBool::new(false),
            arrived: arrives,
            opened: Mutex::new(opened),
            was_cancelled: tells,
        });
        let over = api(server.store.clone(), gate.clone(), Features::default(), server.stopping.clone());
        let api = Api { pool: Pool::of(1), ..over };
        let room = api.ledger.room();
        Gated { server: Server { router: api.router(), ..server }, gate, arrived, open, was_cancelled, room }
    }

    /// Sends a request over a connection of its own. Dropping the returned tasks resets the stream and breaks the
    /// connection.
    async fn send(&self, leaves: Leaves, request: Request<Body>) -> (JoinHandle<()>, JoinHandle<()>) {
        let (ours, theirs) = duplex(1 << 16);
        self.serve(theirs);
        let io = TokioIo::new(ours);
        if let Leaves::Http1 = leaves {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            let connection = tokio::spawn(async move { drop(connection.await) });
            return (tokio::spawn(async move { drop(sender.send_request(request).await) }), connection);
        }
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        // Without a sender the connection would end after its last stream.
        let kept = sender.clone();
        let connection = tokio::spawn(async move { drop((connection.await, kept)) });
        let stream = tokio::spawn(async move { drop(sender.send_request(request).await) });
        (stream, connection)
    }

    fn serve(&self, stream: DuplexStream) {
        let (router, peer) = (self.server.router.clone(), self.server.peer.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            router.clone().oneshot(request)
        });
        tokio::spawn(async move {
            // The connection ends with an error when its client has left.
            drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
        });
    }

    /// A client leaves while its request is at the gate. No change and no reservation must remain.
    async fn check(&mut self, leaves: Leaves, what: &str, request: Request<Body>) {
        let (all, revision) = (self.room.available_permits(), self.server.store.state().applied());
        self.gate.is_closed.store(true, Ordering::SeqCst);
        let (stream, connection) = self.send(leaves, request).await;
        self.arrived.recv().await.unwrap();
        assert!(self.room.available_permits() < all, "{leaves:?} {what}: its bytes are counted");
        stream.abort();
        if !matches!(leaves, Leaves::Stream) {
            connection.abort();
        }
        // The reservation is released while the job still runs.
        drop(self.room.acquire_many(u32::try_from(all).unwrap()).await.unwrap());
        self.open.send(()).unwrap();
        assert!(self.was_cancelled.recv().await.unwrap(), "{leaves:?} {what}: the work goes on");
        // An answer shows that the pool's only thread has ended that job.
        let table = [("accept", TABLE)];
        let path = format!("{MAPS}/large");
        assert_eq!(self.server.send(Method::GET, &path, &table, Body::empty()).await.code, StatusCode::OK);
        assert_eq!(self.server.store.state().applied(), revision, "{leaves:?} {what}: something was written");
        connection.abort();
    }
}

const TABLE: &str = "application/json;as=Table;g=meta.orch.io;v=v1";

/// A request for each stage that reads the time: after a body is decoded, in the middle of a patch, before a response is
/// rendered.
fn stages() -> [(&'static str, Request<Body>); 3] {
    let data: Map = (0..10_000).map(|at| (format!("k{at}"), json!("value"))).collect();
    let object = |name: &str| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}).to_string()
    };
    let uri = |path: &str| format!("http://orch{path}");
    let request = |method: Method, path: &str| Request::builder().method(method).uri(uri(path));
    let created = request(Method::POST, MAPS).body(Body::from(object("new"))).unwrap();
    let applied = request(Method::PATCH, &format!("{MAPS}/large?fieldManager=m&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(Body::from(object("large")));
    let rendered = request(Method::GET, &format!("{MAPS}/large")).header("accept", TABLE).body(Body::empty());
    [("decode", created), ("patch", applied.unwrap()), ("render", rendered.unwrap())]
}

#[test]
fn the_work_for_a_client_that_is_gone_ends_and_its_bytes_come_back() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let body = async {
        let mut gated = Gated::new().await;
        let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(100_000)}});
        gated.server.create(MAPS, large).await;
        for leaves in [Leaves::Http1, Leaves::Http2, Leaves::Stream] {
            for (what, request) in stages() {
                gated.check(leaves, what, request).await;
            }
        }
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), body).await.unwrap() });
}
