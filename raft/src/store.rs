//! The store as the API sees it: propose, read, wait.
//!
//! Owns the interface between the request pipeline and replication. Implementations: a cluster node, and one state
//! machine in memory for tests of the layers above.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orch_spans::TraceContext;

use crate::interest::{Interest, Subscription};
use crate::key::Revision;
use crate::state::{Change, Collection, Compacted, State};
use crate::transaction::{Outcome, Transaction};

/// The reason why a proposal has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Certainly never applied; may be proposed again.
    #[error("not proposed: {reason}")]
    NotProposed {
        /// The cause: no leader known, shutting down, queue full, or this member quarantined.
        reason: String,
    },
    /// May be applied already, later, or never; must not be proposed again silently.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// The cause: the deadline passed, the leader changed, the connection broke, or this member was quarantined
        /// after proposing.
        reason: String,
    },
    /// Certainly never applied: a member of the cluster cannot decode the transaction. Must not be proposed again.
    #[error("refused: {reason}")]
    Refused {
        /// The part that cannot be decoded.
        reason: String,
    },
    /// Certainly never applied: the transaction would grow the state, and members are short of disk space.
    #[error("members have little space left on their disks: {members}")]
    NoSpace {
        /// Names of those members, separated by commas.
        members: String,
    },
    /// Certainly never applied: larger than a log entry may be.
    #[error("transaction of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Encoded size of the transaction.
        bytes: usize,
        /// Largest encoded size.
        limit: usize,
    },
}

/// The reason why a linearizable read cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no read barrier: {reason}")]
pub struct ReadError {
    /// No leader, no quorum, the deadline passed, or this member is quarantined.
    pub reason: String,
}

/// A handle on the replicated state of this node. Cheap to clone. No method that reaches the state has a default: a store
/// that wraps another cannot forget to pass one on.
pub trait Store: Clone + Send + Sync + 'static {
    /// The newest state applied on this node. Never blocks; the state never changes under the caller.
    fn state(&self) -> Arc<State>;

    /// Proposes and waits until this node has applied it: the caller sees its own write in [`Store::state`]. `trace`: the parent of
    /// the spans that members record for this write; `None` without a recorded trace.
    fn propose_traced(
        &self,
        transaction: Transaction,
        trace: Option<TraceContext>,
    ) -> impl Future<Output = Result<Outcome, ProposeError>> + Send;

    /// The same without a trace.
    fn propose(
        &self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<Outcome, ProposeError>> + Send {
        self.propose_traced(transaction, None)
    }

    /// Read barrier: returns a revision no older than any write acknowledged before the call, once this node has
    /// applied it. Concurrent calls share one round to the quorum.
    fn barrier(&self) -> impl Future<Output = Result<Revision, ReadError>> + Send;

    /// Waits until this node has applied `at_least`; `false` when `timeout` passes first.
    fn wait_applied(&self, at_least: Revision, timeout: Duration) -> impl Future<Output = bool> + Send;

    /// A run of changes of `resource` in order, without a gap after `after`; the run may start before it. For changes
    /// that [`Collection::changes_after`] of the newest state no longer holds. Reads a disk: some milliseconds.
    ///
    /// # Errors
    /// A change after `after` is no longer held anywhere.
    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted>;

    /// The objects of `resource` as they were at `revision`, which is applied here. May read a disk: up to some hundred
    /// milliseconds, for one caller at a time.
    ///
    /// # Errors
    /// The revision can no longer be rebuilt.
    fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> impl Future<Output = Result<Arc<Collection>, Compacted>> + Send;

    /// A subscription that wakes when changes of `resource` that concern `interest` were applied, once for each batch. The
    /// state is taken after the subscription, so that no change is missed between them.
    fn subscribe_to(&self, resource: &Arc<str>, interest: Interest) -> Subscription;

    /// A subscription to every change of `resource`.
    fn subscribe(&self, resource: &Arc<str>) -> Subscription {
        self.subscribe_to(resource, Interest::Everything)
    }

    /// Completes after `duration` on the runtime's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Time since some moment before the store began, on the clock of [`Store::sleep`]. It never goes back, and setting the
    /// time of day has no effect on it.
    fn elapsed(&self) -> Duration;

    /// Checks that this node's state may be served to clients: not while it is known to differ from the other members'.
    ///
    /// # Errors
    /// This member is quarantined; nothing of [`Store::state`] may leave this node.
    fn may_serve(&self) -> Result<(), ReadError>;

    /// Counts the withdrawals of this node's state since the start: when it is found to differ from the majority's, when
    /// another state has taken its place, and before this node serves again. Data read under an earlier count must be discarded
    /// and read again. [`Store::subscribe`]'s subscriptions wake after the count has risen.
    fn revocations(&self) -> u64;

    /// Whether writes that grow the state are refused now, because a member is short of disk space. All other requests
    /// are served.
    fn is_short_of_space(&self) -> bool;

    /// Whether this node is the leader now: controllers run only on the leader.
    fn is_leader(&self) -> bool;
}
