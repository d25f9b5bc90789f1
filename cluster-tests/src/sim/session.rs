//! How a simulated client reaches a member: a request there, an answer back, or neither.
//!
//! Owns the client's side of the network and what a lost answer means. The work of a request runs as a task of the
//! member's process, as a handler of a server does, so it dies and stops with it. Clients are [`Driver`]s: some use the
//! store of a member, others its API.

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

/// How long a client waits for an answer, at most. Shorter than what a member allows itself, so that some clients ask
/// on while what they asked before is still under way.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// How much slower clients are in a run of minutes: what counts there is the time, not the load.
const SLOW_THINKING: u64 = 12;

/// Frames of a watch under way to a client that reads slowly: about what a socket's buffers hold.
const WINDOW_FRAMES: usize = 2;

/// Bytes of a watch, or why there is none.
pub type Frame = Result<Bytes, ApiError>;

/// What one simulated client does until the world says it is enough.
pub trait Driver: Send + 'static {
    /// Its kind, for the record of events.
    fn name(&self) -> &'static str;

    /// Runs it to its end.
    fn drive(self: Box<Self>, session: Session) -> BoxFuture<'static, ()>;
}

/// One client's way to the members.
#[derive(Clone)]
pub struct Session {
    world: World,
    client: u64,
    dice: Dice,
    /// How long an answer is waited for, where that is not chance.
    patience: Option<Duration>,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The member was not reached: nothing happened.
    NotSent,
    /// The answer was lost: anything may have happened, or may yet.
    Lost,
}

impl Session {
    /// The session of client number `client`.
    pub fn new(world: &World, client: u64) -> Self {
        let dice = world.dice(&format!("client {client}"));
        Session { world: world.clone(), client, dice, patience: None }
    }

    /// The same session with so much patience for each answer.
    pub fn patient(&self, patience: Duration) -> Self {
        Session { patience: Some(patience), ..self.clone() }
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Its number.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// Its chance.
    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    /// Any member, running or not.
    pub fn pick(&self) -> NodeId {
        let members = self.world.members();
        members[self.dice.index(members.len())]
    }

    /// Waits as long as a client thinks: longer where a run takes minutes.
    pub async fn think(&self, millis_max: u64) {
        let slow = if self.world.minutes().is_some() && self.world.is_busy() { SLOW_THINKING } else { 1 };
        NodeRuntime::sleep(self.dice.millis(0..(millis_max * slow).max(1))).await;
    }

    /// Has the store of `node` do `work` and gives what it answers.
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

    /// Sends a request to the API of `node` and gives its answer.
    ///
    /// # Errors
    /// The request or its answer was lost.
    pub async fn ask(&self, node: NodeId, ask: &Ask) -> Result<Result<Answer, ApiError>, Gone> {
        let ask = ask.clone();
        self.call(node, |process| process.server, |server: Server| async move { server.run(&ask).await })
            .await
    }

    /// Starts a watch at the API of `node`. Its frames come out of the receiver, which ends with the watch, the process
    /// or the connection. A watch that is refused gives the refusal instead.
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

/// Sends a watch's frames until it ends or nobody takes them.
async fn serve_watch(server: Server, ask: Ask, sender: mpsc::Sender<Frame>) {
    let mut watch = match server.watch(&ask).await {
        Ok(watch) => watch,
        // Whoever asked may be gone.
        Err(error) => return drop(sender.send(Err(error)).await),
    };
    loop {
        let next = Box::pin(watch.next());
        let Either::Left((Some(frame), _)) = select(next, Box::pin(sender.closed())).await else { return };
        if sender.send(Ok(frame)).await.is_err() {
            return;
        }
    }
}
