//! How a simulated client reaches a member: a request there, an answer back, or neither.
//!
//! Owns the client's side of the network and what a lost answer means. The work of a request runs as a task of the
//! member's process, as a handler of a server does, so it dies and stops with it. Clients are [`Driver`]s; one that
//! drives the request pipeline of the API gets the same store through the same [`Session`].

use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;

use super::dice::Dice;
use super::runtime::NodeRuntime;
use super::world::{Handle, World};

/// How long a client waits for an answer, at most. Shorter than what a member allows itself, so that some clients ask
/// on while what they asked before is still under way.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

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
        Session { world: world.clone(), client, dice: world.dice(&format!("client {client}")) }
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

    /// Waits as long as a client thinks.
    pub async fn think(&self, millis_max: u64) {
        NodeRuntime::sleep(self.dice.millis(0..millis_max.max(1))).await;
    }

    /// Has `node` do `work` and gives what it answers.
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
        NodeRuntime::sleep(self.way()).await;
        let process = self.world.process(node);
        let Some((store, group)) = process.and_then(|process| Some((process.store?, process.group))) else {
            NodeRuntime::sleep(self.way()).await;
            return Err(Gone::NotSent);
        };
        let handler = group.spawn(async move { work(store).await });
        drop(group);
        let patience = self.dice.duration(PATIENCE_MAX / 8, PATIENCE_MAX);
        let answer = NodeRuntime::timeout(patience, handler).await;
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
