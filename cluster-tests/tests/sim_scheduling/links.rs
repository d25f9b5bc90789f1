//! The links between HTTP clients and the members: what is under way, what is cut, what was sent.
//!
//! ```text
//!   request ──transit──> handler, a task of the member's process ──transit──> head, then the body frame by frame
//!      │ no connection      │ lost, killed with the process                │ lost, late, held back by a cut
//! ```
//!
//! Owns the client's side of each connection. A request that was sent arrives although its sender crashed; one whose
//! sender waits no more is reset, or not. A handler lives and stops with its member. It knows nothing of what is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};
use http::{Request, Response, response};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::dice::Dice;
use orch_cluster_tests::sim::runtime::{NodeRuntime, spawn_detached};
use orch_cluster_tests::sim::server::Server;
use orch_cluster_tests::sim::world::World;
use orch_raft::transport::NodeId;
use orch_scheduler::client::{Failure, Network, ResponseBody};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::plant::Plant;

/// Frames of a body under way to a slow reader: about as many as socket buffers hold.
const WINDOW_FRAMES: usize = 4;

/// How long an answer is waited for over a cut, before the connection counts as broken.
const PING_MAX: Duration = Duration::from_secs(5);

/// How often a held answer looks whether its link is whole again.
const LOOK: Duration = Duration::from_millis(50);

/// The answer that a client gets.
pub(crate) type Answer = Result<Response<ResponseBody>, Failure>;

/// The sender: a scheduler process by its index, or a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Scheduler(usize),
    User,
}

/// A binding that left a scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Duration,
    /// The name of the process's life.
    pub(crate) by: String,
    pub(crate) pod: String,
}

/// How often requests of a run go wrong, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) slow: u64,
    pub(crate) lost_before: u64,
    pub(crate) lost_after: u64,
}

#[derive(Default)]
struct State {
    manner: Manner,
    /// Until when a sender does not reach a member.
    cuts: BTreeMap<(Origin, u64), Duration>,
    sent: Vec<Sent>,
}

/// All links of a run. Clones share them.
#[derive(Clone)]
pub(crate) struct Links {
    world: World,
    plant: Option<Plant>,
    dice: Dice,
    state: Arc<Mutex<State>>,
}

/// A request that its sender has handed over.
pub(crate) struct Outgoing {
    request: Request<Bytes>,
    answer: oneshot::Sender<Answer>,
    /// Cancelled right before the sender's process is dropped.
    end: CancellationToken,
}

/// The signal that ends a request early.
#[derive(Clone, Default)]
struct Ends {
    /// The sender gives the request up.
    reset: CancellationToken,
    /// The sender's process ends. Its runtime drops tasks in an order that depends on how many were ever spawned in this
    /// program, which is no part of the seed; this wakes those who deal with its requests in theirs, before.
    end: CancellationToken,
}

impl Links {
    pub(crate) fn new(world: &World, plant: Option<Plant>, manner: Manner) -> Self {
        let state = Arc::new(Mutex::new(State { manner, ..State::default() }));
        Self { world: world.clone(), plant, dice: world.dice("links"), state }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Cuts the link for `length`.
    pub(crate) fn cut(&self, from: Origin, node: NodeId, length: Duration) {
        self.state.lock().cuts.insert((from, node.0), NodeRuntime::elapsed() + length);
    }

    /// Ends cuts and losses.
    pub(crate) fn calm(&self) {
        let mut state = self.state.lock();
        state.cuts.clear();
        state.manner = Manner::default();
    }

    /// The bindings that schedulers have sent.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.state.lock().sent.clone()
    }

    fn is_cut(&self, from: Origin, node: NodeId) -> bool {
        let until = self.state.lock().cuts.get(&(from, node.0)).copied();
        until.is_some_and(|until| until > NodeRuntime::elapsed())
    }

    fn chance(&self, percent: impl Fn(&Manner) -> u64) -> bool {
        let percent = percent(&self.state.lock().manner);
        self.dice.percent(percent)
    }

    async fn transit(&self) {
        let max = if self.chance(|manner| manner.slow) { 600_000 } else { 2_000 };
        NodeRuntime::sleep(self.dice.duration(Duration::from_micros(50), Duration::from_micros(max))).await;
    }

    /// Sends a request of a user, and reads the whole answer: its code and its JSON.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        method: &str,
        path: &str,
        body: &serde_json::Value,
    ) -> Option<(u16, serde_json::Value)> {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder().method(method).uri(format!("http://n{}:80{path}", node.0));
        let request = request.header("content-type", content_type).header("accept", "application/json");
        let request = request.body(bytes).expect("users send valid requests");
        let (sender, answer) = oneshot::channel();
        drop(spawn_detached(
            self.clone()
                .carry(Origin::User, Outgoing { request, answer: sender, end: CancellationToken::new() }),
        ));
        let response = answer.await.ok()?.ok()?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((code, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Carries a request to its member, and the answer back.
    pub(crate) async fn carry(self, from: Origin, outgoing: Outgoing) {
        let Outgoing { request, mut answer, end } = outgoing;
        let ends = Ends { end, ..Ends::default() };
        let is_binding = request.uri().path().ends_with("/binding");
        let delivered = spawn_detached(self.clone().deliver(from, request, ends.clone()));
        let gone = select(answer.cancellation(), Box::pin(ends.end.cancelled()));
        let outcome = match select(delivered, gone).await {
            Either::Left((outcome, _)) => Some(outcome.unwrap_or_else(|_| Err(lost("the run ends")))),
            Either::Right(_) => None,
        };
        match outcome {
            // The answer has no receiver where the process has crashed meanwhile.
            Some(outcome) => drop(answer.send(self.planted(is_binding, outcome))),
            // The sender waits no more, or is gone. What is under way arrives all the same; a reset follows, or not.
            None if self.dice.percent(50) => {
                self.transit().await;
                ends.reset.cancel();
            }
            None => {}
        }
    }

    fn planted(&self, is_binding: bool, outcome: Answer) -> Answer {
        match outcome {
            Err(Failure::Lost(_)) if is_binding && self.plant == Some(Plant::TrustsLost) => {
                let done = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
                Ok(Response::builder().status(201).body(done).expect("the head is valid"))
            }
            outcome => outcome,
        }
    }

    async fn deliver(self, from: Origin, request: Request<Bytes>, ends: Ends) -> Answer {
        let node = node_of(&request);
        if self.is_cut(from, node) {
            NodeRuntime::sleep(self.dice.duration(LOOK, PING_MAX)).await;
            return Err(Failure::Connect("no connection".into()));
        }
        self.transit().await;
        if self.is_cut(from, node) || self.chance(|manner| manner.lost_before) {
            NodeRuntime::sleep(self.dice.duration(LOOK, PING_MAX)).await;
            return Err(lost("the request was lost"));
        }
        let process = self.world.process(node).and_then(|process| Some((process.server?, process.group)));
        let Some((server, group)) = process else {
            self.transit().await;
            return Err(Failure::Connect("connection refused".into()));
        };
        let (head_sender, head) = oneshot::channel();
        let (frames, body) = mpsc::channel(WINDOW_FRAMES);
        drop(group.spawn(self.clone().serve((from, node), server, request, ends, (head_sender, frames))));
        drop(group);
        // The process was killed, or the request was reset.
        let Ok(head) = head.await else { return Err(lost("the connection broke")) };
        self.transit().await;
        if !self.outlasts_cut(from, node).await || self.chance(|manner| manner.lost_after) {
            return Err(lost("the answer was lost"));
        }
        Ok(Response::from_parts(head, stream(body)))
    }

    /// Waits while the link is cut. `false`: the connection broke meanwhile.
    async fn outlasts_cut(&self, from: Origin, node: NodeId) -> bool {
        let began = NodeRuntime::elapsed();
        while self.is_cut(from, node) {
            if NodeRuntime::elapsed() - began > PING_MAX {
                return false;
            }
            NodeRuntime::sleep(LOOK).await;
        }
        // Half of the connections outlive a short cut.
        NodeRuntime::elapsed() == began || self.dice.percent(50)
    }

    /// The handler of a request in the member's process, and the writer of its answer.
    async fn serve(
        self,
        (from, node): (Origin, NodeId),
        server: Server,
        request: Request<Bytes>,
        ends: Ends,
        (head, frames): (oneshot::Sender<response::Parts>, mpsc::Sender<Piece>),
    ) {
        let is_altered = self.plant == Some(Plant::TakesOverEarly)
            && from == Origin::Scheduler(1)
            && request.uri().path().contains("/leases/");
        let served = select(Box::pin(server.http(request)), Box::pin(ends.reset.cancelled()));
        let Either::Left((response, _)) = served.await else { return };
        let (parts, mut body) = response.into_parts();
        if head.send(parts).is_err() {
            return;
        }
        loop {
            let closed = select(Box::pin(frames.closed()), Box::pin(ends.end.cancelled()));
            let Either::Left((Some(piece), _)) = select(Box::pin(next(&mut body)), closed).await else {
                return;
            };
            self.transit().await;
            let is_last = matches!(piece, Piece::End);
            let piece = if is_altered { shorten_lease(piece) } else { piece };
            if !self.outlasts_cut(from, node).await || frames.send(piece).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// A piece of a body.
enum Piece {
    Data(Bytes),
    End,
}

/// Makes a lease in JSON claim a second, which its holder does not know of.
fn shorten_lease(piece: Piece) -> Piece {
    let Piece::Data(data) = piece else { return piece };
    let text = String::from_utf8_lossy(&data);
    let shortened = (2..10).fold(text.into_owned(), |text, seconds| {
        text.replace(&format!("\"leaseDurationSeconds\":{seconds}"), "\"leaseDurationSeconds\":1")
    });
    Piece::Data(shortened.into())
}

/// The next piece; `None`: the body broke.
async fn next(body: &mut Body) -> Option<Piece> {
    loop {
        match body.frame().await {
            None => return Some(Piece::End),
            Some(Err(_)) => return None,
            // Trailers say nothing here.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Piece::Data(data));
                }
            }
        }
    }
}

/// The body of an answer as its reader sees it: a connection that breaks is an error, not an end.
fn stream(body: mpsc::Receiver<Piece>) -> ResponseBody {
    let frames = futures::stream::unfold(Some(body), |body| async move {
        let mut body = body?;
        match body.recv().await {
            Some(Piece::Data(data)) => Some((Ok(Frame::data(data)), Some(body))),
            Some(Piece::End) => None,
            None => Some((Err(std::io::Error::other("the connection broke")), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn lost(problem: &str) -> Failure {
    Failure::Lost(problem.to_owned())
}

/// Hosts are named after members: `n1`.
fn node_of(request: &Request<Bytes>) -> NodeId {
    let host = request.uri().host().unwrap_or_default();
    NodeId(host.trim_start_matches('n').parse().expect("clients know the members by name"))
}

/// The requests of one scheduler process, on their way out of its slice of time.
pub(crate) struct Outbox {
    pub(crate) life: String,
    pub(crate) links: Links,
    pub(crate) requests: Mutex<Vec<Outgoing>>,
    /// Cancelled right before the process is dropped.
    pub(crate) end: CancellationToken,
}

impl Network for Outbox {
    fn request(&self, request: Request<Bytes>) -> BoxFuture<'static, Answer> {
        let path = request.uri().path();
        if let Some(pod) = path.strip_suffix("/binding").and_then(|path| path.rsplit('/').next()) {
            let (at, by, pod) = (NodeRuntime::elapsed(), self.life.clone(), pod.to_owned());
            self.links.world.trace().event(format_args!("{by} sends the binding of {pod}"));
            self.links.state.lock().sent.push(Sent { at, by, pod });
        }
        let (sender, answer) = oneshot::channel();
        self.requests.lock().push(Outgoing { request, answer: sender, end: self.end.clone() });
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(lost("the connection broke"))) })
    }
}
