//! Compares the members' states, and quarantines and repairs this member where its state is wrong.
//!
//! Owns the comparison in the background, the report, and the quarantine. Every member asks every other for its
//! checkpoints and judges for itself; no member is told by another that it is wrong.
//!
//!   serving -- differs from a majority --> quarantined -- repaired, or agrees again --> serving
//!
//! A quarantined member serves no reads, watches or writes of clients, hands over the lead and does not stand for
//! election; its log is sound, so it goes on voting and acknowledging entries. Its watches end, and clients must begin
//! them anew. It takes a state from a member of the majority (see `repair`) and serves again once it agrees with a
//! majority. Where no majority agrees, no member is quarantined: which one is wrong cannot be known, and the operator is
//! told (docs/decisions/0013).
//!
//! Invariant: the quarantine is on the disk before the lead is handed over or a state is taken: a restart does not
//! end it.

mod comparison;
mod pause;
mod quarantine;
mod repair;
pub(crate) mod rounds;
pub(crate) mod serving;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use orch_proto::store as wire;
use parking_lot::Mutex;

pub(crate) use self::comparison::Comparison;
use self::pause::Pause;
use crate::disk::{Disk, MetaKey};
use crate::key::Revision;
use crate::member::log::{LogError, read_meta};
use crate::store::ReadError;
use crate::transport::NodeId;

/// The result of the comparison on one member, as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgreementStatus {
    /// The newest revision at which this member and a majority were seen to agree; 0 before the first.
    pub agreed: Revision,
    /// Members that differ from a majority, or, when there is none, from each other. Empty while all agree.
    pub differing: BTreeSet<NodeId>,
    /// Members differ and none of their states has a majority.
    pub split: bool,
    /// The reason of the quarantine; `None` while this member may serve.
    pub quarantine: Option<String>,
    /// How often this member found members that differ, since it started.
    pub divergences: u64,
    /// How often it replaced its own state, since it started.
    pub repairs: u64,
}

/// The result of the comparison and the quarantine, shared with all parts that ask whether this member may serve.
#[derive(Default)]
pub(crate) struct Agreement {
    is_quarantined: AtomicBool,
    /// The revision at which this member's state was found to differ.
    differs_at: AtomicU64,
    /// The members that agreed at that revision.
    judged_by: Mutex<BTreeSet<u64>>,
    /// Rounds in a row in which this quarantined member found no leader; else 0.
    leaderless_rounds: AtomicU32,
    /// See [`crate::Store::revocations`]. Rises at the start of a quarantine, when a peer's state has taken the place of the
    /// wrong one, and before the quarantine ends.
    revocations: AtomicU64,
    status: Mutex<AgreementStatus>,
    /// The pause between attempts to take a state.
    pause: Pause,
    /// Held while a state is sent to a member that repairs itself: one at a time, since each is read in whole.
    sending: tokio::sync::Mutex<()>,
}

impl Agreement {
    /// Loads the quarantine from the disk, if there is one: it outlasts a restart.
    pub(crate) fn load(disk: &impl Disk) -> Result<Self, LogError> {
        let agreement = Agreement::default();
        let found = read_meta::<wire::Quarantine>(disk, MetaKey::Quarantine, "quarantine")?;
        if let Some(found) = found.filter(|found| !found.reason.is_empty()) {
            agreement.suspend(found.reason, Revision(found.revision), found.majority.into_iter().collect());
        }
        Ok(agreement)
    }

    /// Whether this member's state may be served; the error has the reason of the quarantine.
    pub(crate) fn may_serve(&self) -> Result<(), ReadError> {
        if !self.is_quarantined() {
            return Ok(());
        }
        let reason = self.status.lock().quarantine.clone().unwrap_or_default();
        Err(ReadError { reason: format!("this member is quarantined: {reason}") })
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.is_quarantined.load(Ordering::Acquire)
    }

    pub(crate) fn status(&self) -> AgreementStatus {
        self.status.lock().clone()
    }

    pub(crate) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Acquire)
    }

    fn suspend(&self, reason: String, differs_at: Revision, judged_by: BTreeSet<u64>) {
        self.status.lock().quarantine = Some(reason);
        *self.judged_by.lock() = judged_by;
        self.differs_at.store(differs_at.0, Ordering::Release);
        // A watch reads the count and then asks whether it may start: one that may has a count from before the rise.
        self.is_quarantined.store(true, Ordering::Release);
        self.revoke();
    }

    /// Raises the count: nothing that was derived under an earlier one is used again.
    fn revoke(&self) {
        self.revocations.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the quarantine. Values that were derived from the wrong state during it are older than the count that clients
    /// are served under.
    fn resume(&self) {
        self.revoke();
        self.is_quarantined.store(false, Ordering::Release);
        self.status.lock().quarantine = None;
    }

    /// Notes the result of a round in the status; `true` when other members differ than before.
    fn note(&self, comparison: &Comparison, own: u64) -> bool {
        let mut status = self.status.lock();
        let differing = match comparison {
            // No member answered: the last finding stays.
            Comparison::Unknown => return false,
            Comparison::Agreed { revision } => {
                status.agreed = status.agreed.max(*revision);
                BTreeSet::new()
            }
            Comparison::OthersDiffer { members, .. } => members.clone(),
            Comparison::Split { groups, .. } => groups.iter().flatten().copied().collect(),
            Comparison::OwnDiffers { .. } => BTreeSet::from([own]),
        };
        status.split = matches!(comparison, Comparison::Split { .. });
        let differing: BTreeSet<NodeId> = differing.into_iter().map(NodeId).collect();
        let is_new = status.differing != differing;
        if is_new && !differing.is_empty() {
            status.divergences += 1;
        }
        status.differing = differing;
        is_new
    }
}
