//! A store of one state machine in memory, without replication or disk.
//!
//! Owns nothing that a cluster node relies on: it lets the layers above be tested as pure request pipelines, in
//! microseconds, against the same `apply`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::key::Revision;
use crate::state::State;
use crate::store::{ProposeError, ReadError, Store};
use crate::transaction::{Operation, Outcome, Transaction};

/// A handle on the one state; clones share it.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    applied: watch::Sender<Revision>,
}

#[derive(Debug)]
struct Inner {
    state: Arc<State>,
    subscribers: BTreeMap<Arc<str>, watch::Sender<Revision>>,
}

impl Default for MemoryStore {
    /// An empty store whose first transaction gets revision 2: 0 and 1 are never an object's.
    fn default() -> Self {
        let mut state = State::default();
        state.advance(Revision(1));
        let inner = Inner { state: Arc::new(state), subscribers: BTreeMap::new() };
        MemoryStore { inner: Arc::new(Mutex::new(inner)), applied: watch::Sender::new(Revision(1)) }
    }
}

impl MemoryStore {
    /// Drops history as [`State::trim_history`] does.
    pub fn trim_history(&self, before_ms: u64, bytes_max: usize) {
        let mut inner = self.inner.lock();
        Arc::make_mut(&mut inner.state).trim_history(before_ms, bytes_max);
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
                if let Some(subscriber) = inner.subscribers.get(key.resource()) {
                    subscriber.send_replace(revision);
                }
            }
        }
        self.applied.send_replace(revision);
        outcome
    }
}

impl Store for MemoryStore {
    fn state(&self) -> Arc<State> {
        self.inner.lock().state.clone()
    }

    fn propose(
        &self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<Outcome, ProposeError>> + Send {
        let outcome = self.apply(&transaction);
        std::future::ready(Ok(outcome))
    }

    fn barrier(&self) -> impl Future<Output = Result<Revision, ReadError>> + Send {
        std::future::ready(Ok(self.state().applied()))
    }

    async fn wait_applied(&self, at_least: Revision, timeout: Duration) -> bool {
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|&now| now >= at_least);
        tokio::time::timeout(timeout, reached).await.is_ok_and(|result| result.is_ok())
    }

    fn subscribe(&self, resource: &Arc<str>) -> watch::Receiver<Revision> {
        let mut inner = self.inner.lock();
        let sender = inner.subscribers.entry(resource.clone());
        sender.or_insert_with(|| watch::Sender::new(Revision(0))).subscribe()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    fn is_leader(&self) -> bool {
        true
    }
}
