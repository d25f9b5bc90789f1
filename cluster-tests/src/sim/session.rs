//! The connection of a simulated client to a member: requests and answers, each of which may be lost.
//!
//! Owns the client's side of the network and the meaning of a lost answer. The work of a request runs as a task of the
//! member's process, as a handler of a server does, so it is killed and paused with the process. Clients are
//! [`Driver`]s: some use the store of a member, others its API.

mod exchange;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, select};
use openraft_rt::AsyncRuntime;
use orch_api::error::ApiError;
use orch_api::pipeline::Answer;
use orch_raft::transport::NodeId;
use tokio::sync::mpsc;

use super::dice::Dice;
use super::runtime::{NodeRuntime, TaskGroup};
use super::server::{Ask, Server};
use super::world::{Handle, Process, World};
pub use exchange::Piece;

/// Longest time that a client waits for an answer. Shorter than a member's own deadline, so that some clients send new
/// requests while their last one is still under way.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// Factor of the pauses of clients in a run of minutes, which is about time and not load.
const SLOW_THINKING: u64 = 12;

/// Frames of a watch under way to a slow reader: about as many as socket buffers hold.
const WINDOW_FRAMES: usize = 2;

/// Bytes of a watch, or its refusal.
pub type Frame = Result<Bytes, ApiError>;

/// A simulated client, which runs until the world ends it.
pub trait Driver: Send + 'static {
    /// Its kind, for the trace.
    fn name(&self) -> &'static str;

    /// Runs it to its end.
    fn drive(self: Box<Self>, session: Session) -> BoxFuture<'static, ()>;
}

/// One client's connection to the members.
#[derive(Clone)]
pub struct Session {
    world: World,
    client: u64,
    dice: Dice,
    /// Timeout of an answer; `None` draws one for each request.
    patience: Option<Duration>,
    /// Number of times that the cluster was given up before it began.
    upheavals: u64,
}

/// The reason why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The member was not reached: nothing happened.
    NotSent,
    /// The answer was lost: the request may have been applied, or may be later.
    Lost,
}

impl Session {
    /// The session of client number `client`.
    pub fn new(world: &World, client: u64) -> Self {
        let dice = world.dice(&format!("client {client}"));
        Session { world: world.clone(), client, dice, patience: None, upheavals: world.upheavals() }
    }

    /// The same session with a fixed timeout of answers.
    pub fn patient(&self, patience: Duration) -> Self {
        Session { patience: Some(patience), ..self.clone() }
    }

    /// The same session with the cluster of now.
    pub fn renewed(&self) -> Session {
        Session { upheavals: self.world.upheavals(), ..self.clone() }
    }

    /// The cluster that it began with was given up since: what was asked of it may be lost.
    pub fn is_void(&self) -> bool {
        self.upheavals != self.world.upheavals()
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Number of the client.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Its stream of random numbers.
    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    /// A random member, running or not.
    pub fn pick(&self) -> NodeId {
        let members = self.world.members();
        members[self.dice.index(members.len())]
    }

    /// Waits for a random time up to `millis_max`, longer in a run of minutes.
    pub async fn think(&self, millis_max: u64) {
        let slow = if self.world.minutes().is_some() && self.world.is_busy() { SLOW_THINKING } else { 1 };
        NodeRuntime::sleep(self.dice.millis(0..(millis_max * slow).max(1))).await;
    }

    /// Runs `work` on the store of `node` and returns its result.
    ///
    /// # Errors
    /// The request or its answer was lost.
    pub async fn request<T, F>(
        &self,
        node: NodeId,
        work: impl FnOnce(Handle) -> F + Send + 'static,
    ) -> Result<T, Gone>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        self.call(node, |process| process.store, work).await
    }

    /// Sends a request to the API of `node` and returns the response.
    ///
    /// # Errors
    /// The request or its answer was lost.
    pub async fn ask(&self, node: NodeId, ask: &Ask) -> Result<Result<Answer, ApiError>, Gone> {
        let ask = ask.clone();
        self.call(node, |process| process.server, |server: Server| async move { server.run(&ask).await })
            .await
    }

    /// Starts a watch at the API of `node`. The receiver gets its frames, and ends with the watch, the process or the
    /// connection. A refused watch sends its refusal as the only frame.
    ///
    /// # Errors
    /// The member was not reached.
    pub async fn watch(&self, node: NodeId, ask: &Ask) -> Result<mpsc::Receiver<Frame>, Gone> {
        NodeRuntime::sleep(self.way()).await;
        let Some((server, group)) = self.reach(node, |process| process.server) else {
            NodeRuntime::sleep(self.way()).await;
            return Err(Gone::NotSent);
        };
        let (sender, receiver) = mpsc::channel(WINDOW_FRAMES);
        let ask = ask.clone();
        drop(group.spawn(async move { serve_watch(server, ask, sender).await }));
        Ok(receiver)
    }

    fn reach<P>(&self, node: NodeId, part: impl FnOnce(Process) -> Option<P>) -> Option<(P, TaskGroup)> {
        let process = self.world.process(node)?;
        let group = process.group.clone();
        Some((part(process)?, group))
    }

    async fn call<P, T, F>(
        &self,
        node: NodeId,
        part: impl FnOnce(Process) -> Option<P>,
        work: impl FnOnce(P) -> F + Send + 'static,
    ) -> Result<T, Gone>
    where
        P: Send + 'static,
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        NodeRuntime::sleep(self.way()).await;
        let Some((part, group)) = self.reach(node, part) else {
            NodeRuntime::sleep(self.way()).await;
            return Err(Gone::NotSent);
        };
        let handler = group.spawn(async move { work(part).await });
        drop(group);
        let patience = self.dice.duration(PATIENCE_MAX / 8, PATIENCE_MAX);
        let answer = NodeRuntime::timeout(self.patience.unwrap_or(patience), handler).await;
        NodeRuntime::sleep(self.way()).await;
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(Gone::Lost),
        }
    }

    fn way(&self) -> Duration {
        self.dice.duration(Duration::from_micros(50), Duration::from_millis(2))
    }
}

/// Bytes that a look reads before it is begun anew without a bound: less than an object, so that both happen.
const READ_MAX: usize = 256;

/// Sends a watch's events, whole ones in each frame, until it ends or the receiver is gone.
async fn serve_watch(server: Server, ask: Ask, sender: mpsc::Sender<Frame>) {
    let mut watch = match server.watch(&ask).await {
        Ok(watch) => watch,
        // The client may be gone.
        Err(error) => return drop(sender.send(Err(error)).await),
    };
    watch.catch_up();
    let mut frame = Vec::new();
    loop {
        let next = Box::pin(watch.next(READ_MAX));
        let Either::Left((Some(part), _)) = select(next, Box::pin(sender.closed())).await else { return };
        frame.extend_from_slice(&part);
        // A large object is a part of its own, in the middle of its event. Each event is a line.
        if frame.ends_with(b"\n") && sender.send(Ok(std::mem::take(&mut frame).into())).await.is_err() {
            return;
        }
    }
}
