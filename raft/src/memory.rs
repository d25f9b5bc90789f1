//! A store of one state machine in memory, without replication or disk.
//!
//! No cluster member uses it. It lets the layers above be tested as pure request pipelines, in microseconds, against
//! the same `apply`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orch_spans::TraceContext;

use crate::interest::{Hub, Interest, Subscription};
use crate::key::Revision;
use crate::notify::Gate;
use crate::state::{Change, Collection, Compacted, HistoryBounds, State};
use crate::store::{ProposeError, ReadError, Store};
use crate::transaction::{Operation, Outcome, Transaction};
use parking_lot::Mutex;

/// A handle on the state machine; clones share it.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    revocations: Arc<AtomicU64>,
    applied: Arc<Gate>,
    started: tokio::time::Instant,
}

#[derive(Debug)]
struct Inner {
    state: Arc<State>,
    subscribers: BTreeMap<Arc<str>, Hub>,
}

impl Default for MemoryStore {
    /// An empty store whose first transaction gets revision 2: no object has revision 0 or 1.
    fn default() -> Self {
        let mut state = State::default();
        state.advance(Revision(1));
        let inner = Inner { state: Arc::new(state), subscribers: BTreeMap::new() };
        let applied = Gate::default();
        applied.advance(Revision(1));
        MemoryStore {
            inner: Arc::new(Mutex::new(inner)),
            revocations: Arc::default(),
            applied: Arc::new(applied),
            started: tokio::time::Instant::now(),
        }
    }
}

impl MemoryStore {
    /// Drops all history: reads of older changes return [`Compacted`].
    pub fn forget_history(&self) {
        let mut inner = self.inner.lock();
        let state = Arc::make_mut(&mut inner.state);
        let bounds = HistoryBounds { through: state.applied(), ..HistoryBounds::NONE };
        state.trim_history(&bounds);
    }

    /// Raises [`Store::revocations`], as a member does whose state is withdrawn.
    pub fn revoke(&self) {
        self.revocations.fetch_add(1, Ordering::AcqRel);
        self.inner.lock().subscribers.values().for_each(Hub::wake_all);
    }

    fn apply(&self, transaction: &Transaction) -> Outcome {
        let mut inner = self.inner.lock();
        let state = Arc::make_mut(&mut inner.state);
        let revision = Revision(state.applied().0 + 1);
        let outcome = state.apply(revision, transaction);
        if let Outcome::Applied { .. } = outcome {
            for operation in &transaction.operations {
                let key = match operation {
                    Operation::Put(put) => &put.key,
                    Operation::Delete(key) => key,
                };
                if let Some(subscribers) = inner.subscribers.get(key.resource()) {
                    subscribers.walk(&inner.state.collection(key.resource()), revision);
                }
            }
        }
        self.applied.advance(revision);
        outcome
    }
}

impl Store for MemoryStore {
    fn state(&self) -> Arc<State> {
        self.inner.lock().state.clone()
    }

    fn propose_traced(
        &self,
        transaction: Transaction,
        _: Option<TraceContext>,
    ) -> impl Future<Output = Result<Outcome, ProposeError>> + Send {
        let outcome = self.apply(&transaction);
        std::future::ready(Ok(outcome))
    }

    fn barrier(&self) -> impl Future<Output = Result<Revision, ReadError>> + Send {
        std::future::ready(Ok(self.state().applied()))
    }

    async fn wait_applied(&self, at_least: Revision, timeout: Duration) -> bool {
        tokio::time::timeout(timeout, self.applied.wait(at_least)).await.is_ok()
    }

    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted> {
        let oldest = self.state().collection(resource).floor();
        Err(Compacted { requested: after, oldest })
    }

    async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        self.state().collection(resource).at(revision).map(Arc::new)
    }

    fn subscribe_to(&self, resource: &Arc<str>, interest: Interest) -> Subscription {
        let mut inner = self.inner.lock();
        let applied = inner.state.applied();
        inner.subscribers.entry(resource.clone()).or_default().subscribe(interest, applied)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this store has no runtime of its own; its users run on Tokio"
    )]
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn may_serve(&self) -> Result<(), ReadError> {
        Ok(())
    }

    fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Acquire)
    }

    fn is_short_of_space(&self) -> bool {
        false
    }

    fn is_leader(&self) -> bool {
        true
    }
}
