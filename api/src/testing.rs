//! A store for tests over one state machine: the test controls leadership and the outcome of each proposal. The recorder of spans of tests.
//!
//! Objects live in the wrapped store.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::store::{ProposeError, ReadError};
use orch_raft::{
    Change, Collection, Compacted, Interest, Outcome, Revision, State, Store, Subscription, Transaction,
};
use orch_spans::{FinishedSpan, Sampling, Sources, TraceContext, TraceState};
use parking_lot::Mutex;

use crate::ambient::{Ambient, SystemAmbient};
use crate::authn::{AnonymousAccess, Authenticator, TokenTable};
use crate::gate::Gate;

/// The outcome of each proposal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProposalOutcome {
    /// The state machine applies the proposal.
    Applied,
    /// The proposal was certainly not sent.
    NotProposed,
    /// The proposal was sent, and its outcome is unknown.
    Unknown,
    /// No outcome arrives within a request's deadline.
    Silence,
}

/// How far a member is behind the others.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// The state that it has applied, until its next read barrier; `None`: the newest.
    pub(crate) behind: Mutex<Option<Arc<State>>>,
    /// Read barriers so far.
    pub(crate) barriers: AtomicUsize,
    /// It reaches no quorum: barriers fail, and nothing is applied.
    pub(crate) is_alone: AtomicBool,
    /// The changes that its disk tells of; `None`: those that the wrapped store tells of.
    pub(crate) past: Mutex<Option<Arc<[Change]>>>,
}

/// A [`MemoryStore`] with controlled leadership, lag and outcomes.
#[derive(Clone)]
pub(crate) struct ScriptedStore {
    pub(crate) below: MemoryStore,
    pub(crate) leads: Arc<AtomicBool>,
    /// Applies to every proposal.
    pub(crate) fate: ProposalOutcome,
    pub(crate) lag: Arc<Lag>,
}

impl Store for ScriptedStore {
    fn state(&self) -> Arc<State> {
        self.lag.behind.lock().clone().unwrap_or_else(|| self.below.state())
    }

    async fn propose_traced(
        &self,
        transaction: Transaction,
        trace: Option<TraceContext>,
    ) -> Result<Outcome, ProposeError> {
        let reason = "the test says so".to_owned();
        match self.fate {
            ProposalOutcome::Applied => self.below.propose_traced(transaction, trace).await,
            ProposalOutcome::NotProposed => Err(ProposeError::NotProposed { reason }),
            ProposalOutcome::Unknown => Err(ProposeError::Unknown { reason }),
            ProposalOutcome::Silence => std::future::pending().await,
        }
    }

    async fn barrier(&self) -> Result<Revision, ReadError> {
        self.lag.barriers.fetch_add(1, Ordering::Relaxed);
        if self.lag.is_alone.load(Ordering::Relaxed) {
            return Err(ReadError { reason: "no quorum answers".to_owned() });
        }
        *self.lag.behind.lock() = None;
        self.below.barrier().await
    }

    async fn wait_applied(&self, at_least: Revision, timeout: Duration) -> bool {
        !self.lag.is_alone.load(Ordering::Relaxed) && self.below.wait_applied(at_least, timeout).await
    }

    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted> {
        match &*self.lag.past.lock() {
            Some(past) => Ok(past.clone()),
            None => self.below.past_changes(resource, after),
        }
    }

    async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        self.below.collection_at(resource, revision).await
    }

    fn subscribe_to(&self, resource: &Arc<str>, interest: Interest) -> Subscription {
        self.below.subscribe_to(resource, interest)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.below.sleep(duration)
    }

    fn elapsed(&self) -> Duration {
        self.below.elapsed()
    }

    fn may_serve(&self) -> Result<(), ReadError> {
        self.below.may_serve()
    }

    fn revocations(&self) -> u64 {
        self.below.revocations()
    }

    fn is_short_of_space(&self) -> bool {
        self.below.is_short_of_space()
    }

    fn is_leader(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }
}

/// A gate that nobody passes: for callers that hand in their users.
pub(crate) fn gate() -> Arc<Gate> {
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    Gate::builtin(&ORCH, authenticator)
}

/// The spans of this process, whose requests are in no trace unless they say so.
static RECORDED: Mutex<Vec<FinishedSpan>> = Mutex::new(Vec::new());

const SOURCES: Sources = Sources { now_micros: || SystemAmbient.now().0, random: || SystemAmbient.random() };

/// A place in the recorded trace `trace_id`, and the header that places a request there. Each test has a trace of its own.
pub(crate) fn placed(trace_id: u128) -> (TraceContext, String) {
    // A second call, of another test, changes nothing.
    orch_spans::install(Sampling::per_million(0), SOURCES, |span| RECORDED.lock().push(span));
    let context = TraceContext { trace_id, span_id: 9, is_sampled: true, state: TraceState::default() };
    let header = context.to_string();
    (context, header)
}

/// The spans of a trace, in the order in which they ended.
pub(crate) fn spans_of(trace_id: u128) -> Vec<FinishedSpan> {
    RECORDED.lock().iter().filter(|span| span.context.trace_id == trace_id).cloned().collect()
}

/// The number of spans of all traces.
pub(crate) fn spans_recorded() -> usize {
    RECORDED.lock().len()
}
