//! Known bugs, planted to show that the harness finds them.
//!
//! Owns wrappers of the store and hooks of the simulation that break one promise each. The code under test has no flag
//! for any of them.

mod membership;

use std::sync::Arc;
use std::time::Duration;

use orch_raft::{
    Change, Collection, Compacted, Operation, Outcome, ProposeError, ReadError, Revision, State, Store,
    Subscription, Transaction,
};

use super::disk::{DiskManner, SimDisk};
use super::runtime::{NodeRuntime, current_group};
use openraft_rt::AsyncRuntime;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The vote is answered before it is durable, and a crash loses it.
    VoteUnsynced,
    /// Log entries are acknowledged before they are durable, and a crash loses them.
    LogUnsynced,
    /// The mark of the stored state is lost without the state: a restart applies entries again.
    MarkTorn,
    /// A proposal that is not answered soon is silently proposed again.
    RepeatsUnknown,
    /// A write is answered once it is in the leader's own log.
    AnswersEarly,
    /// The oldest change of the history is not shown.
    LosesOldest,
    /// Reads are served from whatever this node has applied.
    StaleReads,
    /// A program of an older version takes entries that it does not know for blank ones.
    SkipsUnknown,
    /// A disk that was emptied still bears its name, so that its member takes part without its vote and log.
    EmptiedUnseen,
    /// An older copy of a disk passes for the disk.
    RollbackUnseen,
    /// A removed member is not told.
    RemovalUntold,
    /// Nobody asks for anything: a bug of the harness, which would otherwise pass every run.
    NoLoad,
}

/// All plants, with the names that the command line takes.
pub const PLANTS: [(&str, Plant); 12] = [
    ("vote-unsynced", Plant::VoteUnsynced),
    ("log-unsynced", Plant::LogUnsynced),
    ("mark-torn", Plant::MarkTorn),
    ("repeats-unknown", Plant::RepeatsUnknown),
    ("answers-early", Plant::AnswersEarly),
    ("loses-oldest", Plant::LosesOldest),
    ("stale-reads", Plant::StaleReads),
    ("skips-unknown", Plant::SkipsUnknown),
    ("emptied-unseen", Plant::EmptiedUnseen),
    ("rollback-unseen", Plant::RollbackUnseen),
    ("removal-untold", Plant::RemovalUntold),
    ("no-load", Plant::NoLoad),
];

impl Plant {
    /// Sets the disk's share of the bug.
    pub fn spoil(self, manner: &mut DiskManner) {
        manner.lies_about_vote = self == Plant::VoteUnsynced;
        manner.lies_about_log = self == Plant::LogUnsynced;
        manner.tears_mark_from_state = self == Plant::MarkTorn;
    }
}

/// The changes of a resource after `cursor`, as a watch server reads them.
///
/// # Errors
/// They are no longer held.
pub fn changes_after(
    plant: Option<Plant>,
    state: &State,
    resource: &str,
    cursor: Revision,
) -> Result<Vec<Change>, Compacted> {
    let collection = state.collection(resource);
    let oldest = collection.changes_after(collection.floor())?.next().map(|change| change.revision);
    let hidden = oldest.filter(|_| plant == Some(Plant::LosesOldest));
    let changes = collection.changes_after(cursor)?;
    Ok(changes.filter(|change| Some(change.revision) != hidden).cloned().collect())
}

/// A store with a bug, or with none.
#[derive(Clone)]
pub struct PlantedStore<S> {
    store: S,
    plant: Option<Plant>,
    disk: SimDisk,
}

impl<S: Store> PlantedStore<S> {
    /// `store`, whose node writes to `disk`, with the bug of `plant`.
    pub fn new(store: S, plant: Option<Plant>, disk: SimDisk) -> Self {
        PlantedStore { store, plant, disk }
    }

    /// The store under test itself.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Gives up waiting for an answer, and asks once more.
    async fn propose_again(&self, transaction: Transaction) -> Result<Outcome, ProposeError> {
        const PATIENCE: Duration = Duration::from_millis(60);
        let first = NodeRuntime::timeout(PATIENCE, self.store.propose(transaction.clone())).await;
        match first {
            Ok(answer) => answer,
            Err(_) => self.store.propose(transaction).await,
        }
    }

    /// Answers as soon as a leader's own log has grown by the proposal.
    async fn propose_early(&self, transaction: Transaction) -> Result<Outcome, ProposeError> {
        let before = self.disk.last_index();
        let key = transaction.operations.first().map(|operation| match operation {
            Operation::Put(put) => put.key.clone(),
            Operation::Delete(key) => key.clone(),
        });
        let previous = key.and_then(|key| self.store.state().object(&key).cloned());
        let store = self.store.clone();
        let work = async move { store.propose(transaction).await };
        let Some(process) = current_group() else { return work.await };
        drop(process.spawn(work));
        while self.disk.last_index() == before {
            self.store.sleep(Duration::from_micros(50)).await;
        }
        let revision = Revision(self.disk.last_index().unwrap_or_default());
        Ok(Outcome::Applied { revision, object: None, previous })
    }
}

impl<S: Store> Store for PlantedStore<S> {
    fn state(&self) -> Arc<State> {
        self.store.state()
    }

    fn may_serve(&self) -> Result<(), ReadError> {
        self.store.may_serve()
    }

    async fn propose(&self, transaction: Transaction) -> Result<Outcome, ProposeError> {
        let blind = transaction.conditions.is_empty();
        if self.plant == Some(Plant::AnswersEarly) && blind && self.store.is_leader() {
            return self.propose_early(transaction).await;
        }
        if self.plant == Some(Plant::RepeatsUnknown) {
            return self.propose_again(transaction).await;
        }
        self.store.propose(transaction).await
    }

    async fn barrier(&self) -> Result<Revision, ReadError> {
        if self.plant == Some(Plant::StaleReads) {
            return Ok(self.store.state().applied());
        }
        self.store.barrier().await
    }

    async fn wait_applied(&self, at_least: Revision, timeout: Duration) -> bool {
        self.store.wait_applied(at_least, timeout).await
    }

    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted> {
        self.store.past_changes(resource, after)
    }

    async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        self.store.collection_at(resource, revision).await
    }

    fn subscribe(&self, resource: &Arc<str>) -> Subscription {
        self.store.subscribe(resource)
    }

    async fn sleep(&self, duration: Duration) {
        self.store.sleep(duration).await;
    }

    fn is_leader(&self) -> bool {
        self.store.is_leader()
    }
}
