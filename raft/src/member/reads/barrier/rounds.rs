//! Rounds to the quorum, and the callers that wait for one.
//!
//! Owns the loop of rounds and their time limits. Which caller waits for which round is the parent's.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use futures::select_biased;
use futures::stream::FuturesUnordered;
use openraft_rt::{Instant, Select2};
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;
use wire::read_index_response::Outcome;

use super::{Caller, error};
use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::core::{Core, within};
use crate::member::counters::since;
use crate::member::network::control;
use crate::store::ReadError;
use crate::transport::{Peer, Transport};

/// How long a barrier may take: several elections. After that the caller gets an error.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(5);

/// Rounds under way at once: the next starts while one waits for the quorum, so that latency hardly limits the rate.
const ROUNDS_MAX: usize = 4;

/// Pause between two attempts while no leader answers.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Time for the leader's answer with its read index. A member that is up answers at once.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// A read index: at or above every write that was acknowledged before the call. It need not be applied here.
    pub(crate) async fn read_index(&self) -> Result<u64, ReadError> {
        if let Some(revision) = self.read_alone() {
            return Ok(revision.0);
        }
        let answer = self.barriers.join();
        match within::<R, _>(BARRIER_TIMEOUT, answer).await {
            Some(Ok(index)) => index,
            Some(Err(_)) => Err(error("the member is shutting down")),
            None => Err(error("no quorum answered in time")),
        }
    }

    /// The read index, once this member has applied it.
    pub(crate) async fn barrier(&self) -> Result<Revision, ReadError> {
        if let Some(revision) = self.read_alone() {
            return Ok(revision);
        }
        let reached = async {
            let revision = Revision(self.read_index().await?);
            self.applied.gate().wait(revision).await;
            Ok(revision)
        };
        let (began, under_way) = (R::Instant::now(), self.counters.begin_read());
        let result = within::<R, _>(BARRIER_TIMEOUT, reached).await;
        under_way.end();
        let result = result.unwrap_or_else(|| Err(error("not applied here in time")));
        self.counters.note_read(&result, since::<R>(began));
        result
    }

    /// Runs rounds until the member stops.
    pub(crate) async fn serve_barriers(self: Arc<Self>) {
        let mut rounds = FuturesUnordered::new();
        loop {
            let may_ask = rounds.len() < ROUNDS_MAX;
            let asked = async {
                if may_ask { self.barriers.asked.notified().await } else { std::future::pending().await }
            };
            select_biased! {
                () = rounds.select_next_some() => {}
                () = asked.fuse() => {}
            }
            let callers = if rounds.len() < ROUNDS_MAX { self.barriers.take() } else { Vec::new() };
            if !callers.is_empty() {
                rounds.push(self.clone().round(callers).boxed());
            }
        }
    }

    /// One round: asks until there is an answer, or `BARRIER_TIMEOUT` has passed.
    async fn round(self: Arc<Self>, callers: Vec<Caller>) {
        let asking = async {
            loop {
                match self.ask().await {
                    Ok(index) => return index,
                    Err(reason) => tracing::debug!(%reason, "read barrier"),
                }
                R::sleep(RETRY_PAUSE).await;
            }
        };
        let answered = within::<R, _>(BARRIER_TIMEOUT, asking).await;
        let answered = answered.ok_or_else(|| error("no quorum answered in time"));
        for caller in callers {
            // A send fails when the caller has given up: its own deadline is no later.
            drop(caller.send(answered.clone()));
        }
    }

    async fn ask(&self) -> Result<u64, ReadError> {
        let leader = self.leader().ok_or_else(|| error("no leader is known"))?;
        if leader.local {
            let found = self.confirm().await?;
            self.barriers.first_read.note(&found);
            return Ok(found.index);
        }
        // A dead leader leaves the question unanswered: stop waiting once another leads.
        match R::select2(self.ask_leader(&leader.peer), self.deposed(&leader)).await {
            Select2::First(answer) => answer,
            Select2::Second(()) => Err(error("the leader changed")),
        }
    }

    async fn ask_leader(&self, leader: &Peer) -> Result<u64, ReadError> {
        let request = Request::ReadIndex(wire::ReadIndexRequest {});
        let answer = control(&self.transport, leader, request, ASK_TIMEOUT).await.map_err(error)?;
        let Response::ReadIndex(answer) = answer else {
            return Err(error("the leader answered something else"));
        };
        match answer.outcome {
            Some(Outcome::Index(index)) => Ok(index),
            Some(Outcome::Leader(_)) => Err(error("the member asked does not lead")),
            Some(Outcome::Failure(reason)) => Err(error(reason)),
            None => Err(error("the leader answered nothing")),
        }
    }

    /// Answers another member's request for a read index.
    pub(crate) async fn answer_read_index(&self) -> wire::ReadIndexResponse {
        let outcome = match self.leader() {
            Some(leader) if leader.local => match self.read_index().await {
                Ok(index) => Outcome::Index(index),
                Err(failed) => Outcome::Failure(failed.reason),
            },
            leader => Outcome::Leader(leader.map_or(0, |leader| leader.peer.id.0)),
        };
        wire::ReadIndexResponse { outcome: Some(outcome) }
    }
}
