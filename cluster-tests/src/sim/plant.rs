//! Known bugs, planted to show that the harness detects them.
//!
//! Owns wrappers of the store and hooks of the simulation that break one promise each. The code under test has no flag
//! for them.

mod altered;
mod anew;
mod definitions;
mod forgetful;
mod membership;
mod occasion;
mod pretender;
mod spread;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::{
    Change, Collection, Compacted, Interest, Operation, Outcome, ProposeError, ReadError, Revision, State,
    Store, Subscription, Transaction,
};
use orch_spans::TraceContext;
use prost::Message;

pub use self::altered::Altered;
pub use self::forgetful::forgetful;
pub use self::occasion::Occasion;
pub use self::pretender::Pretender;
pub use self::spread::spread;
pub use self::words::{Exchange, Heard};
use super::disk::{DiskManner, SimDisk};
use super::ledger::{MIRRORS, THINGS};
use super::runtime::{NodeRuntime, current_group};
use openraft_rt::AsyncRuntime;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The vote is answered before it is durable, and a crash loses it.
    VoteUnsynced,
    /// Log entries are acknowledged before they are durable, and a crash loses them.
    LogUnsynced,
    /// The mark of the stored state is lost without the state: a restart applies entries again.
    MarkTorn,
    /// A proposal without a quick answer is silently proposed again.
    RepeatsUnknown,
    /// A write is answered once it is in the leader's own log.
    AnswersEarly,
    /// Reads of the history on the disk omit its oldest change.
    LosesOldest,
    /// A state write under way is applied to a state that was installed meanwhile (A1).
    StaleStep,
    /// A start forgets each resource's last change, so that a watch misses removals (A2).
    ForgetsLastChanges,
    /// A client repeats a POST whose outcome it does not know (A4).
    ClientRepeats,
    /// Linearizable reads are served from the applied state without a barrier.
    StaleReads,
    /// A program of an older version takes unknown entries for blank ones (A6).
    SkipsUnknown,
    /// An emptied disk keeps its name, so that its member takes part without its vote and log.
    EmptiedUnseen,
    /// An older copy of a disk is taken for the disk.
    RollbackUnseen,
    /// A removed member is not told of its removal.
    RemovalUntold,
    /// A voter that is down counts among those that answer when a change is begun (A5).
    DeadAnswers,
    /// Writes wait for seconds after history was trimmed (A7).
    TrimmingBlocks,
    /// A stored object differs from the other members', and the comparison of states compares nothing (A8).
    DiffersSilently,
    /// Some watches are not woken by changes of their resource.
    NotWoken,
    /// Reads hang for ever after one that failed or was slow.
    ReadsHang,
    /// No client sends a request: a bug of the harness, with which every run would pass.
    NoLoad,
    /// A voter that is down counts as one whose log has the newest voters.
    AcquaintanceClaimed,
    /// A leader's snapshot has a wrong object, and no check rejects it.
    SpreadsWrongState,
    /// A member whose state differs receives no digests when it compares, and is not quarantined.
    JudgesDeaf,
    /// A removed member's claim about another member is believed without a second source.
    LoneWordCounts,
    /// A member whose state differs is repaired with a wrong state.
    PullsWrongState,
    /// The member whose state differs is taken for the majority.
    OddOneRules,
    /// A voter claims to follow any member that asks, even one that it has left for another leader.
    FollowsAnybody,
    /// A restore, or a recovery, begins right behind its point: revisions are given out again.
    RevisionsReused,
    /// A recovery keeps the cluster's name, so that members that were given up can take part with their old disks.
    RecoveryKeepsName,
    /// A watch from before a restore goes on behind it.
    WatchGoesOn,
    /// A write of a custom object does not depend on the definition that it was judged by. Found by `tests/sim_definitions`.
    IgnoresDefinition,
    /// A change of a definition leaves the tables of its versions as they are. Found by `tests/sim_definitions`.
    KeepsTables,
}

/// All plants by their names on the command line.
pub const PLANTS: [(&str, Plant); 30] = [
    ("vote-unsynced", Plant::VoteUnsynced),
    ("log-unsynced", Plant::LogUnsynced),
    ("mark-torn", Plant::MarkTorn),
    ("repeats-unknown", Plant::RepeatsUnknown),
    ("answers-early", Plant::AnswersEarly),
    ("loses-oldest", Plant::LosesOldest),
    ("stale-step", Plant::StaleStep),
    ("forgets-last-changes", Plant::ForgetsLastChanges),
    ("client-repeats", Plant::ClientRepeats),
    ("stale-reads", Plant::StaleReads),
    ("skips-unknown", Plant::SkipsUnknown),
    ("emptied-unseen", Plant::EmptiedUnseen),
    ("rollback-unseen", Plant::RollbackUnseen),
    ("removal-untold", Plant::RemovalUntold),
    ("dead-answers", Plant::DeadAnswers),
    ("trimming-blocks", Plant::TrimmingBlocks),
    ("differs-silently", Plant::DiffersSilently),
    ("not-woken", Plant::NotWoken),
    ("reads-hang", Plant::ReadsHang),
    ("no-load", Plant::NoLoad),
    ("acquaintance-claimed", Plant::AcquaintanceClaimed),
    ("spreads-wrong-state", Plant::SpreadsWrongState),
    ("judges-deaf", Plant::JudgesDeaf),
    ("lone-word-counts", Plant::LoneWordCounts),
    ("pulls-wrong-state", Plant::PullsWrongState),
    ("odd-one-rules", Plant::OddOneRules),
    ("follows-anybody", Plant::FollowsAnybody),
    ("revisions-reused", Plant::RevisionsReused),
    ("recovery-keeps-name", Plant::RecoveryKeepsName),
    ("watch-goes-on", Plant::WatchGoesOn),
];

impl Plant {
    /// Sets the bugs of the disk.
    pub fn spoil(self, manner: &mut DiskManner) {
        manner.lies_about_vote = self == Plant::VoteUnsynced;
        manner.lies_about_log = self == Plant::LogUnsynced;
        manner.tears_mark_from_state = self == Plant::MarkTorn;
        manner.forgets_last_changes = self == Plant::ForgetsLastChanges;
        manner.repeats_steps = self == Plant::StaleStep;
        manner.flips_bits = self == Plant::DiffersSilently;
    }

    /// The forged answer that replaces `answered`; `None` to leave it alone.
    pub fn forge(self, answered: &Bytes) -> Option<Bytes> {
        use wire::control_response::Kind;
        let forges = [
            Plant::DiffersSilently,
            Plant::RollbackUnseen,
            Plant::EmptiedUnseen,
            Plant::RemovalUntold,
            Plant::FollowsAnybody,
        ];
        if !forges.contains(&self) {
            return None;
        }
        let mut message = wire::ControlResponse::decode(answered.clone()).ok()?;
        match (self, message.kind.as_mut()?) {
            (Plant::DiffersSilently, Kind::Agreement(agreement)) => agreement.checkpoints.clear(),
            (Plant::RollbackUnseen | Plant::EmptiedUnseen, Kind::Identity(identity)) => {
                self.forget(&mut identity.promised, &mut identity.starts);
            }
            (Plant::RemovalUntold, Kind::Identity(identity)) => identity.removed = false,
            (Plant::FollowsAnybody, Kind::Heartbeat(answer)) => {
                answer.outcome = Some(wire::append_response::Outcome::Accepted(wire::Accepted::default()));
            }
            _ => return None,
        }
        Some(Bytes::from(message.encode_to_vec()))
    }
}

/// A store with a planted bug, or without.
#[derive(Clone)]
pub struct PlantedStore<S> {
    store: S,
    plant: Option<Plant>,
    disk: SimDisk,
    memory: Arc<Memory>,
}

/// State of a plant in one process.
#[derive(Debug, Default)]
struct Memory {
    /// A read has failed or was slow.
    read_failed: AtomicBool,
    subscriptions: AtomicU64,
    /// Floor of the history when it was last read.
    floor: AtomicU64,
    /// Virtual milliseconds until which writes wait.
    blocked_until_ms: AtomicU64,
}

impl<S: Store> PlantedStore<S> {
    /// `store`, whose node writes to `disk`, with the bug of `plant`.
    pub fn new(store: S, plant: Option<Plant>, disk: SimDisk) -> Self {
        PlantedStore { store, plant, disk, memory: Arc::default() }
    }

    /// The store under test.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Gives up waiting for an answer, and proposes again.
    async fn propose_again(&self, transaction: Transaction) -> Result<Outcome, ProposeError> {
        const PATIENCE: Duration = Duration::from_millis(60);
        let first = NodeRuntime::timeout(PATIENCE, self.store.propose(transaction.clone())).await;
        match first {
            Ok(answer) => answer,
            Err(_) => self.store.propose(transaction).await,
        }
    }

    /// Waits for the planted duration of a trim: seconds, whenever history was trimmed.
    async fn wait_for_trimming(&self) {
        const TRIM_MS: u64 = 4000;
        let now_ms = || u64::try_from(NodeRuntime::elapsed().as_millis()).unwrap_or(u64::MAX);
        let floor = self.store.state().floor().0;
        if self.memory.floor.swap(floor, Ordering::Relaxed) != floor && self.store.is_leader() {
            self.memory.blocked_until_ms.store(now_ms() + TRIM_MS, Ordering::Relaxed);
        }
        let until = self.memory.blocked_until_ms.load(Ordering::Relaxed);
        self.store.sleep(Duration::from_millis(until.saturating_sub(now_ms()))).await;
    }

    /// Answers as soon as the leader's own log has grown by the proposal.
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

    fn revocations(&self) -> u64 {
        self.store.revocations()
    }

    fn is_short_of_space(&self) -> bool {
        self.store.is_short_of_space()
    }

    async fn propose_traced(
        &self,
        transaction: Transaction,
        trace: Option<TraceContext>,
    ) -> Result<Outcome, ProposeError> {
        let blind = transaction.conditions.is_empty();
        if self.plant == Some(Plant::AnswersEarly) && blind && self.store.is_leader() {
            return self.propose_early(transaction).await;
        }
        if self.plant == Some(Plant::TrimmingBlocks) {
            self.wait_for_trimming().await;
        }
        if self.plant == Some(Plant::RepeatsUnknown) {
            return self.propose_again(transaction).await;
        }
        let transaction = match self.plant {
            Some(plant) => plant.of_definitions(transaction, &self.store.state()),
            None => transaction,
        };
        self.store.propose_traced(transaction, trace).await
    }

    async fn barrier(&self) -> Result<Revision, ReadError> {
        if self.plant == Some(Plant::StaleReads) {
            return Ok(self.store.state().applied());
        }
        if self.plant == Some(Plant::ReadsHang) && self.memory.read_failed.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        const SLOW: Duration = Duration::from_millis(300);
        let began = NodeRuntime::elapsed();
        let answer = self.store.barrier().await;
        let failed = answer.is_err() || NodeRuntime::elapsed() - began > SLOW;
        self.memory.read_failed.fetch_or(failed, Ordering::Relaxed);
        answer
    }

    async fn wait_applied(&self, at_least: Revision, timeout: Duration) -> bool {
        self.store.wait_applied(at_least, timeout).await
    }

    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted> {
        let changes = self.store.past_changes(resource, after);
        let passed_over =
            changes.is_err().then(|| self.plant?.pass_over(&self.store.state(), resource, after));
        let changes = passed_over.flatten().map_or(changes, Ok)?;
        let loses = self.plant == Some(Plant::LosesOldest) && changes.len() > 1;
        Ok(if loses { changes.iter().skip(1).cloned().collect() } else { changes })
    }

    async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        self.store.collection_at(resource, revision).await
    }

    fn subscribe_to(&self, resource: &Arc<str>, interest: Interest) -> Subscription {
        const DEAF_EVERY: u64 = 4;
        let number = self.memory.subscriptions.fetch_add(1, Ordering::Relaxed);
        let watched = [THINGS, MIRRORS].contains(&&**resource);
        if self.plant == Some(Plant::NotWoken) && watched && number.is_multiple_of(DEAF_EVERY) {
            return self.store.subscribe_to(&Arc::from("nothing"), interest);
        }
        self.store.subscribe_to(resource, interest)
    }

    async fn sleep(&self, duration: Duration) {
        self.store.sleep(duration).await;
    }

    fn elapsed(&self) -> Duration {
        self.store.elapsed()
    }

    fn is_leader(&self) -> bool {
        self.store.is_leader()
    }
}
