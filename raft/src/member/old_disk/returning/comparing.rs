//! Compares this disk with what the other members remember of it, until every voter that this member knows was asked.
//!
//! Owns the questions and what follows from an answer. What the disk counts and what contradicts it is the parent's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use orch_proto::store as wire;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::identity::ClusterIdentity;
use crate::member::joining::enrolment::Backing;
use crate::member::joining::founding::LISTEN_ALONE;
use crate::member::old_disk::recall::is_proved;
use crate::member::options::StartError;
use crate::member::trust::accusations::Verdict;
use crate::member::trust::standing::Standing;
use crate::member::trust::vouching::Voucher;
use crate::transport::{NodeId, Peer, Transport};

/// Time between two rounds of asking the members that did not answer: short, because an election waits for the answers.
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Time between two checks by a stream that waits for the comparison.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Compares this member's disk with the records of every other member; runs until that is done.
    pub(crate) async fn compare_with_others(self: Arc<Self>) {
        let mut has_listened = false;
        while !self.returning.finished.load(Ordering::Acquire) {
            // The membership is known once the consensus library has read the log.
            let is_known = self.membership().membership().nodes().next().is_some();
            let others = self.others();
            if is_known && others.is_empty() && !has_listened && self.options.listens_alone {
                has_listened = true;
                R::sleep(LISTEN_ALONE).await;
                continue;
            }
            match self.is_accused() {
                true => self.raft.runtime_config().elect(false),
                false if is_known => self.release_elections(),
                false => {}
            }
            // Learners hold no promises, and know no more starts than the voters.
            let is_open =
                |peer: &Peer| self.is_witness(peer.id) && !self.returning.compared.lock().contains(&peer.id);
            let open: Vec<Peer> = others.into_iter().filter(is_open).collect();
            self.returning.finished.store(is_known && open.is_empty(), Ordering::Release);
            if join_all(open.iter().map(|peer| self.compare_with(peer))).await.contains(&false) {
                return;
            }
            R::sleep(ASK_PAUSE).await;
        }
        self.release_elections();
    }

    /// Compares the disk with the records of `peer`. `false`: the disk is an older copy and this member must end.
    async fn compare_with(self: &Arc<Self>, peer: &Peer) -> bool {
        let Some(answer) = self.ask_identity(peer, Backing::OwnState).await else {
            return self.judge_again(peer.id).await != Verdict::Condemned;
        };
        if answer.removed {
            // The member told nothing else, so that there is nothing to compare with. It is asked again until this member ends.
            return true;
        }
        // The peer's own request was compared meanwhile: promises made to it since are not promises of an earlier start.
        if self.returning.compared.lock().contains(&peer.id) {
            return true;
        }
        if let Some(reason) = self.returning.contradicted_by(&answer) {
            // The peer may have been removed: its contradiction ends when a leader has sent the log with the removal.
            return self.judge_older_copy(peer.id, &reason).await != Verdict::Condemned;
        }
        self.drop_accusation(peer.id);
        self.returning.compared.lock().insert(peer.id);
        true
    }

    /// Compares this member's disk with the recall that `from` sent; `false` when `from` must not be answered.
    ///
    /// A contradiction ends this member only if `from` is believed (see accusations). `from` gets no answer in either case.
    pub(crate) async fn compare_with_recall(
        self: &Arc<Self>,
        from: NodeId,
        recall: Option<&wire::Recall>,
        voucher: Voucher,
    ) -> bool {
        let returning = &self.returning;
        if recall.is_some_and(|recall| self.is_of_another_disk(from, recall)) {
            return false;
        }
        if returning.is_new {
            return true;
        }
        if returning.compared.lock().contains(&from) {
            return self.is_compared(from);
        }
        let Some(recall) = recall else { return returning.finished.load(Ordering::Acquire) };
        let Some(reason) = returning.contradiction_now(recall) else {
            returning.compared.lock().insert(from);
            return self.is_compared(from);
        };
        if voucher == Voucher::Another {
            self.watch_accusation(from, reason);
        }
        false
    }

    /// Whether `from` knows this member with another disk. Enrolment checks that, but the members that answered then may have
    /// been wrong. Promises made with the other disk are not on this one.
    fn is_of_another_disk(&self, from: NodeId, recall: &wire::Recall) -> bool {
        let is_other = !recall.directory.is_empty() && !self.joining.is_of_directory(&recall.directory);
        if is_other && self.warnings.may_warn("another disk") {
            tracing::error!(
                peer = %self.name_heard(from),
                "a member knows this one with another disk, and gets no vote and no acknowledgement: if that disk is lost, \
                 remove this member and add one with a new name"
            );
        }
        is_other
    }

    /// Takes the recall of a stranger. The disk of a member that knows no other member may be from before the others joined:
    /// the member ends if the stranger proves that it has the key of its cluster, and the next start listens again. A
    /// certificate alone ends no member: every prepared machine has one.
    pub(crate) fn hear_stranger(&self, from: NodeId, recall: Option<&wire::Recall>) {
        let is_alone = self.others().is_empty() && !self.returning.is_new;
        let Some(recall) = recall.filter(|_| is_alone && self.standing(from) == Standing::Stranger) else {
            return;
        };
        let Some(reason) = self.returning.contradiction_now(recall) else { return };
        let reason = format!("{}, of which it does not know: {reason}", self.name_heard(from));
        let state = self.applied.state();
        // A disk from before the cluster had a key cannot check a proof.
        let is_listening =
            ClusterIdentity::read(&state).is_none() && !self.returning.finished.load(Ordering::Acquire);
        if is_listening || is_proved(&state, from, self.options.id(), recall) {
            self.fatal.report(StartError::RolledBack { name: self.options.node.name.to_string(), reason });
        } else if self.warnings.may_warn("a stranger calls the disk old") {
            tracing::warn!(
                reason,
                "a stranger calls this disk an older copy and proves nothing; it is not believed"
            );
        }
    }

    /// Whether this member's disk was compared with the leader's records, or this member leads.
    pub(crate) fn is_leader_compared(&self) -> bool {
        self.leader().is_some_and(|leader| leader.local || self.is_compared(leader.peer.id))
    }

    /// Keeps a member that knows no other member from electing itself before it has listened.
    pub(crate) fn hold_elections(&self) {
        let own = self.options.id().0;
        let is_alone = self.applied.membership().membership().nodes().all(|(id, _)| *id == own);
        if is_alone && self.options.listens_alone && !self.returning.finished.load(Ordering::Acquire) {
            self.raft.runtime_config().elect(false);
        }
    }

    /// Lets this member stand for election, unless there is another reason against it.
    pub(crate) fn release_elections(&self) {
        if !self.agreement.is_quarantined() && !self.is_accused() {
            self.raft.runtime_config().elect(true);
        }
    }

    /// Ends this member, whose disk is an older copy of itself. Records that on the disk first, so that every later start is
    /// refused as well, whatever the disk counts by then.
    pub(crate) async fn refuse_older_copy(&self, reason: String) {
        if self.change_identity(|identity| identity.older_copy.clone_from(&reason)).await.is_ok() {
            self.fatal.report(StartError::RolledBack { name: self.options.node.name.to_string(), reason });
        }
    }

    /// Whether `from` may be answered: the disk was compared with its records, and no accusation stands. A learner's records do
    /// not count, so it is not asked, and is answered without a comparison.
    pub(crate) fn is_compared(&self, from: NodeId) -> bool {
        let returning = &self.returning;
        let is_compared =
            returning.finished.load(Ordering::Acquire) || returning.compared.lock().contains(&from);
        (is_compared || self.is_learner(from)) && !self.is_accused()
    }

    /// Completes when `from` may be answered.
    pub(crate) async fn wait_compared(&self, from: NodeId) {
        while !self.is_compared(from) {
            R::sleep(LOOK_PAUSE).await;
        }
    }
}
