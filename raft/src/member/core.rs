//! The state that the parts of a running member share.
//!
//! Owns the consensus handle, the member's tasks, and the look-up of the present leader. Decisions are made in the parts.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Select2;
use parking_lot::Mutex;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::agreement::Agreement;
use crate::member::consensus::{StoredMembership, Types};
use crate::member::contact::{Contacts, REPORT_BYTES_MAX};
use crate::member::counters::Counters;
use crate::member::fatal::Fatal;
use crate::member::feature::Feature;
use crate::member::holds::Holds;
use crate::member::joining::Joining;
use crate::member::log::{Log, Meter};
use crate::member::machine::{Applied, Machine};
use crate::member::membership::Changes;
use crate::member::network::Network;
use crate::member::old_disk::promises::Promises;
use crate::member::old_disk::returning::Returning;
use crate::member::options::Options;
use crate::member::proposals::Proposals;
use crate::member::reads::barrier::Barriers;
use crate::member::service::Partial;
use crate::member::space::SpaceWatch;
use crate::member::trust::Trust;
use crate::notify::Gate;
use crate::transport::{Peer, Transport};
use crate::warnings::Warnings;

pub(crate) type Raft<R, D> = openraft::Raft<Types<R>, Machine<R, D>>;

/// Shared by all parts of one running member.
pub(crate) struct Core<R: Runtime, D: Disk, T: Transport> {
    pub(crate) options: Options,
    /// When this member was started in this process.
    pub(crate) started: R::Instant,
    pub(crate) raft: Raft<R, D>,
    pub(crate) disk: Arc<D>,
    pub(crate) transport: T,
    /// Makes links to other members, with what this member knows of each.
    pub(crate) links: Network<R, T>,
    pub(crate) applied: Arc<Applied<D>>,
    /// The log, for purges that wait for the stored state.
    pub(crate) log: Log<R, D>,
    /// Counts the bytes of the log.
    pub(crate) meter: Arc<Mutex<Meter>>,
    /// Log entries that transfers of snapshots, and repairs, still need.
    pub(crate) holds: Arc<Holds>,
    pub(crate) proposals: Arc<Proposals>,
    pub(crate) barriers: Barriers,
    pub(crate) feature: Feature,
    pub(crate) fatal: Fatal,
    pub(crate) stop: Stop,
    pub(crate) tasks: Mutex<Vec<R::JoinHandle<()>>>,
    /// Held while a snapshot is received: one at a time, since each builds a whole state. The value is a transfer whose
    /// stream broke.
    pub(crate) installing: tokio::sync::Mutex<Option<Partial>>,
    /// The knowledge of this member before it has a log.
    pub(crate) joining: Joining<R::Instant>,
    /// The reports that it has of its peers.
    pub(crate) trust: Trust<R::Instant>,
    /// Its state while it leads and the membership changes.
    pub(crate) changes: Changes,
    /// Comparison of this member's state with the others'; quarantine.
    pub(crate) agreement: Arc<Agreement>,
    /// The newest vote and acknowledgement of each other member to this one.
    pub(crate) promises: Promises,
    /// Comparison of this disk with what other members remember of it, after a restart.
    pub(crate) returning: Returning,
    /// Limits of warnings, by cause.
    pub(crate) warnings: Warnings<R::Instant>,
    /// The last contact with each other member, for the status.
    pub(crate) contacts: Contacts<R::Instant>,
    /// Makes the program's report about itself, for other members' statuses.
    pub(crate) reporter: OnceLock<Reporter>,
    /// Room on the members' disks.
    pub(crate) space: SpaceWatch,
    /// Counters for metrics.
    pub(crate) counters: Counters,
}

/// Makes the report of a program, a JSON object of at most [`REPORT_BYTES_MAX`] bytes. Called on a task of the store: it must not wait.
pub(crate) type Reporter = Box<dyn Fn() -> Bytes + Send + Sync>;

/// The leader of a term, as this member knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) term: u64,
    pub(crate) peer: Peer,
    /// The leader is this member.
    pub(crate) local: bool,
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The leader, as far as this member knows; `None` also for a leader that its membership lacks.
    pub(crate) fn leader(&self) -> Option<Leader> {
        let metrics = self.raft.server_metrics();
        let now = metrics.borrow_watched();
        let id = now.current_leader?;
        let local = id == self.options.id().0;
        // The vote of a member that has just won names it as the leader before its state is `Leader`.
        if local && now.state != ServerState::Leader {
            return None;
        }
        let place = now.membership_config.membership().get_node(&id)?;
        Some(Leader { term: now.vote.leader_id.term, peer: place.peer(id), local })
    }

    /// The program's report about itself now; empty where it makes none, or one that is too long.
    pub(crate) fn report(&self) -> Bytes {
        let report = self.reporter.get().map(|make| make());
        report.filter(|report| report.len() <= REPORT_BYTES_MAX).unwrap_or_default()
    }

    /// The newest term that this member knows of.
    pub(crate) fn term(&self) -> u64 {
        self.raft.server_metrics().borrow_watched().vote.leader_id.term
    }

    /// Completes once this member no longer takes `leader` for the leader of its term.
    pub(crate) async fn deposed(&self, leader: &Leader) {
        let mut metrics = self.raft.server_metrics();
        while self.leader().as_ref() == Some(leader) {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// The newest membership in this member's log, committed or not.
    pub(crate) fn membership(&self) -> Arc<StoredMembership> {
        self.raft.server_metrics().borrow_watched().membership_config.clone()
    }

    /// Runs `task` until the member stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopped = self.stop.stopped();
        let running = R::spawn(async move {
            R::select2(stopped, task).await;
        });
        self.tasks.lock().push(running);
    }

    /// Tells the member's tasks to end and waits until they have.
    pub(crate) async fn end_tasks(&self) {
        self.stop.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            if let Err(error) = task.await {
                tracing::warn!(%error, "a task of the member ended badly");
            }
        }
    }
}

/// Tells all tasks of a member to end: a gate that opens once, for everyone.
#[derive(Default)]
pub(crate) struct Stop(Arc<Gate>);

const STOPPED: Revision = Revision(1);

impl Stop {
    pub(crate) fn stop(&self) {
        self.0.advance(STOPPED);
    }

    /// Completes when the member stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let gate = self.0.clone();
        async move { gate.wait(STOPPED).await }
    }
}

/// The output of `task`; `None` when `duration` passes first.
pub(crate) async fn within<R: Runtime, F>(duration: Duration, task: F) -> Option<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    match R::select2(task, R::sleep(duration)).await {
        Select2::First(output) => Some(output),
        Select2::Second(()) => None,
    }
}
