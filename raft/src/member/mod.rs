//! A member of the replicated store.
//!
//! Owns the life of one member: starting from a disk and a transport, running its tasks, ending. Its parts:
//!
//!     handle ----> proposals ----> forward ----> (leader) consensus log ----> disk
//!        |             ^                              |
//!        |             +------- outcomes -------- machine ----> state, watches
//!        +-----> barrier ----> (leader) quorum        |
//!     service <---- frames of peers                   +----> stored state, behind the history
//!
//! Invariant: everything is generic over runtime, disk and transport; no clock, thread, random number or unordered map
//! decides anything here. Invariant: no type of the consensus library leaves this module.

mod agreement;
mod codec;
mod compaction;
mod consensus;
mod contact;
mod core;
mod counters;
mod fatal;
mod feature;
mod figures;
mod forward;
mod handle;
mod holds;
mod identity;
mod joining;
mod limits;
mod log;
mod machine;
mod membership;
mod network;
mod old_disk;
mod options;
mod proposals;
mod reads;
pub mod reseed;
mod service;
mod space;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod ticks;
mod traces;
mod trust;

use std::sync::{Arc, Weak};

use openraft::async_runtime::watch::WatchReceiver;
use openraft::storage::RaftLogStorage;
use openraft_rt::Instant;
use parking_lot::Mutex;

use self::agreement::Agreement;
pub use self::agreement::AgreementStatus;
use self::consensus::config;
use self::contact::Contacts;
use self::core::{Core, Raft, Stop};
use self::counters::Counters;
pub use self::counters::{Counts, DurationCounts};
use self::fatal::Fatal;
pub use self::feature::agreed_feature_level;
use self::feature::{Feature, FeatureLevel};
pub use self::figures::Figures;
pub use self::handle::Handle;
pub use self::identity::{CLUSTER_RESOURCE, ClusterIdentity, DiskIdentity, node_id};
use self::joining::Joining;
pub use self::joining::founding::FoundError;
use self::log::Log;
pub use self::log::SyncTimes;
use self::machine::{Applied, Machine};
use self::membership::Changes;
pub use self::membership::change::ChangeError;
use self::network::{Network, Shared};
use self::old_disk::promises::Promises;
use self::old_disk::recall::recollection;
use self::old_disk::returning::Returning;
pub use self::options::{
    Clock, ClusterSeed, HistoryOptions, LogOptions, Options, SpaceOptions, StartError, Timing,
};
use self::proposals::Proposals;
use self::service::Service;
use self::space::SpaceWatch;
pub use self::space::{Pressure, SpaceStatus};
pub use self::status::{MemberStatus, Role, Status};
use self::trust::Trust;
use self::trust::answer_checks::Scrutinized;
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::FEATURE_LEVEL_MAX;
use crate::transport::{PeerService, Transport};
use crate::warnings::Warnings;

/// The settings of the consensus library. Refuses options that contradict themselves, and an `initial_cluster` that is not
/// empty and lacks this member.
fn settings(options: &Options) -> Result<openraft::Config, StartError> {
    let settings = config(options).map_err(|reason| StartError::Options { reason })?;
    let founders = &options.initial_cluster;
    if founders.is_empty() || founders.contains(&options.node) {
        return Ok(settings);
    }
    Err(StartError::Options { reason: format!("the initial cluster lacks {}", options.node.name) })
}

/// A running member.
pub struct Member<R: Runtime, D: Disk, T: Transport> {
    core: Arc<Core<R, D, T>>,
}

impl<R: Runtime, D: Disk, T: Transport> Member<R, D, T> {
    /// Starts a member from its disk. Returns once the stored state and the log entries after it are in memory. The member
    /// may take part in consensus only later (see [`Handle::fatal`] for a member that must not).
    ///
    /// # Errors
    /// The disk is another member's or another cluster's, cannot be read, or the options contradict themselves.
    pub async fn start(options: Options, disk: Arc<D>, transport: T) -> Result<Self, StartError> {
        let settings = settings(&options)?;
        let (identity, is_new) = identity::claim(&*disk, &options).await?;
        let unreadable = |error: &dyn std::fmt::Display| StartError::Disk { reason: error.to_string() };
        let (fatal, promises, scrutiny) = (Fatal::default(), Promises::default(), Scrutinized::default());
        let level = FeatureLevel::of(options.feature_level_max.min(FEATURE_LEVEL_MAX));
        let proposals = Arc::new(Proposals::new(options.id().0, options.incarnation, level.clone()));
        let applied = Applied::load(disk.clone(), options.history, proposals.clone(), fatal.clone());
        let applied = Arc::new(applied.map_err(|error| unreadable(&error))?);
        level.follow(&applied.state())?;
        let log = Log::<R, D>::open(disk.clone(), applied.clone(), fatal.clone(), level.clone());
        let mut log = log.map_err(|error| unreadable(&error))?.traced(proposals.traces().clone());
        let log_end = log.get_log_state().await.map_err(|error| unreadable(&error))?.last_log_id;
        // An installed state covers entries that the log never had, and the log's own marker of that may not be synced.
        let ended = log_end.max(applied.now().1.log_id);
        let agreement = Arc::new(Agreement::load(&*disk).map_err(|error| unreadable(&error))?);
        // A disk with a log or a vote has been part of the cluster.
        let enrolled = ended.is_some() || log.vote().is_some();
        // An empty disk that was started before is not new, either: it may be a copy from before it had a log.
        let is_first = is_new && !enrolled;
        let term = log.vote().map_or(0, |vote| vote.leader_id.term);
        let returning = Returning::at(is_first, identity.starts, options.incarnation, term, ended);
        let (meter, holds, purging) = (log.meter(), Arc::new(holds::Holds::default()), log.clone());
        let network = Network::<R, T>::new(Shared {
            transport: transport.clone(),
            holds: holds.clone(),
            level: level.clone(),
            promises: promises.clone(),
            recollection: recollection(options.id(), applied.clone(), promises.clone()),
            scrutiny: scrutiny.clone(),
            agreement: agreement.clone(),
            traces: proposals.traces().clone(),
        });
        let (links, machine) = (network.clone(), Machine::new(applied.clone(), holds.clone()));
        let raft = Raft::<R, D>::new(options.id().0, Arc::new(settings), network, log, machine).await;
        let core = Core {
            started: R::Instant::now(),
            raft: raft.map_err(|error| unreadable(&error))?,
            disk,
            transport,
            links,
            applied,
            log: purging,
            meter,
            holds,
            proposals,
            barriers: reads::barrier::Barriers::default(),
            feature: Feature::new(level),
            fatal,
            stop: Stop::default(),
            tasks: Mutex::default(),
            installing: tokio::sync::Mutex::default(),
            joining: Joining::new(identity, enrolled),
            trust: Trust::default(),
            changes: Changes::default(),
            agreement,
            promises,
            returning,
            warnings: Warnings::default(),
            contacts: Contacts::default(),
            space: SpaceWatch::new(options.space),
            counters: Counters::default(),
            options,
        };
        Ok(Member::begin(core, &scrutiny))
    }

    fn begin(core: Core<R, D, T>, scrutiny: &Scrutinized) -> Self {
        let member = Member { core: Arc::new(core) };
        let judge: Weak<Core<R, D, T>> = Arc::downgrade(&member.core);
        scrutiny.by(judge);
        member.core.hold_elections();
        member.spawn_tasks();
        member
    }

    /// A handle on this member.
    pub fn handle(&self) -> Handle<R, D, T> {
        Handle(self.core.clone())
    }

    /// The receiver of peers' frames, for the transport's server.
    pub fn service(&self) -> Arc<dyn PeerService> {
        Arc::new(Service(self.core.clone()))
    }

    /// Ends this member in good order: hands leadership over if it leads, then answers waiting calls with an error.
    pub async fn shutdown(self) {
        let leads = self.core.leader().is_some_and(|leader| leader.local);
        if leads && let Some(successor) = self.core.find_successor(|_| true).await {
            self.core.hand_over(&successor).await;
        }
        self.kill().await;
    }

    /// Ends this member at once and without a handover, as far as that is possible without ending the process. Waiting calls
    /// are answered with an error.
    pub async fn kill(self) {
        let core = &self.core;
        core.proposals.close();
        core.applied.close();
        core.end_tasks().await;
        if let Err(error) = core.raft.shutdown().await {
            tracing::warn!(%error, "the consensus task ended badly");
        }
    }

    fn spawn_tasks(&self) {
        let core = &self.core;
        core.spawn(forward::send_proposals(core.clone()));
        core.spawn(core.clone().serve_barriers());
        core.spawn(core.clone().take_part());
        core.spawn(core.clone().compact());
        core.spawn(core.clone().keep_space());
        core.spawn(keep_history(core.clone()));
        core.spawn(core.clone().keep_feature_level());
        core.spawn(core.clone().compare_with_others());
        core.spawn(core.clone().leave_when_removed());
        core.spawn(core.clone().complete_changes());
        core.spawn(core.clone().give_up_vain_leads());
        core.spawn(core.clone().give_up_leads_by_slow_disk());
        core.spawn(watch_consensus(core.clone()));
        core.spawn(core.clone().count_leaders());
        core.spawn(core.clone().keep_ticks());
        let applied = core.applied.clone();
        core.spawn(async move { applied.announcements().announce(|| applied.state()).await });
        core.spawn(agreement::rounds::keep_agreement(core.clone()));
        core.spawn(limits::keep_limits(core.clone()));
    }
}

async fn keep_history<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    if let Err(error) = core.applied.keep::<R>().await {
        core.fatal.report(error);
    }
}

/// Reports when the consensus task has ended by itself: a failed disk, or a fault in the library.
async fn watch_consensus<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    let mut metrics = core.raft.metrics();
    loop {
        let running = metrics.borrow_watched().running_state.clone();
        if let Err(error) = running {
            return core.fatal.report(error);
        }
        if metrics.changed().await.is_err() {
            return core.fatal.report("the consensus task ended");
        }
    }
}
