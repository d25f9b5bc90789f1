//! A member that comes back with its data: whether that is the data it left with.
//!
//! A disk can be an older copy of itself: a virtual machine's snapshot was rolled back, a backup restored. It has a log
//! and a vote, but lacks what the member promised since: taking part with it, the member would vote twice or vote away
//! what it helped to commit. Two things give such a disk away:
//!
//! - starts: each start is counted on the disk before anything is answered and registered in the cluster's state. A
//!   disk that counts fewer starts than the state is older;
//! - promises: whoever was granted a vote or an acknowledgement by this member remembers it (see promises).
//!
//! So a member that comes back compares itself with each other member, and answers none of them before that: neither
//! votes nor entries. It needs no quorum for it, so that a whole cluster can start again: nobody contradicts anybody then.
//! What cannot be told from a good disk is listed in docs/decisions/0016.
//!
//! Owns who was compared with. Invariant: a member known from the membership gets no vote and no acknowledgement of this
//! one before it was asked what it knows of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use orch_proto::store as wire;
use parking_lot::Mutex;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::codec::log_id_from_wire;
use crate::member::consensus::LogId;
use crate::member::core::Core;
use crate::member::identity::save;
use crate::member::options::StartError;
use crate::member::promises::Promise;
use crate::transport::{NodeId, Peer, Transport};

/// Between two rounds of asking those that did not answer: an election waits for it.
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Between two looks of a stream that waits to be served.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// What this disk held when the process started, and who has been asked about it.
pub(crate) struct Returning {
    /// Starts counted on the disk before this one.
    starts: u64,
    /// The random number of this start, which may be registered before every member was asked.
    incarnation: u64,
    /// The term of its vote.
    term: u64,
    /// The end of its log.
    last: Option<LogId>,
    /// Members that were asked and do not contradict.
    compared: Mutex<BTreeSet<NodeId>>,
    /// All have been, or the disk was empty: members that are added later know this one with the disk it has now.
    finished: AtomicBool,
}

impl Returning {
    /// A disk that was first used by this start.
    pub(crate) fn first_start() -> Self {
        let (compared, finished) = (Mutex::default(), AtomicBool::new(true));
        Returning { starts: 0, incarnation: 0, term: 0, last: None, compared, finished }
    }

    /// A disk on which `starts` starts are counted before this one, whose random number is `incarnation`.
    pub(crate) fn after(starts: u64, incarnation: u64, term: u64, last: Option<LogId>) -> Self {
        let (compared, finished) = (Mutex::default(), AtomicBool::new(false));
        Returning { starts, incarnation, term, last, compared, finished }
    }

    /// What shows that the disk is an older copy, in the answer of a peer.
    fn contradiction(&self, answer: &wire::IdentityResponse) -> Option<String> {
        let promised = answer.promised.clone().unwrap_or_default();
        let promise = Promise { term: promised.term, log_id: promised.log_id.map(log_id_from_wire) };
        if answer.starts > self.starts && answer.incarnation != self.incarnation {
            return Some(format!("it counts {} starts, the cluster {}", self.starts, answer.starts));
        }
        promise.is_broken_by(self.term, self.last).then(|| {
            let end = |last: Option<LogId>| last.map_or(0, |last| last.index);
            format!(
                "it voted in term {} and ends at {}, but promised term {} and {}",
                self.term,
                end(self.last),
                promise.term,
                end(promise.log_id)
            )
        })
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Compares this member's disk with what every other member knows of it.
    pub(crate) async fn compare_with_others(self: Arc<Self>) {
        while !self.returning.finished.load(Ordering::Acquire) {
            let is_known = self.membership().membership().nodes().next().is_some();
            let others = self.others().into_iter();
            let open: Vec<Peer> = others.filter(|peer| !self.is_compared(peer.id)).collect();
            // The membership is known once the consensus library has read the log.
            self.returning.finished.store(is_known && open.is_empty(), Ordering::Release);
            if join_all(open.iter().map(|peer| self.compare_with(peer))).await.contains(&false) {
                return;
            }
            R::sleep(ASK_PAUSE).await;
        }
    }

    /// Returns `false` when this member must not go on.
    async fn compare_with(&self, peer: &Peer) -> bool {
        let Some(answer) = self.ask_identity(peer, true).await else { return true };
        if let Some(reason) = self.returning.contradiction(&answer) {
            self.refuse_older_copy(format!("{}: {reason}", peer.name)).await;
            return false;
        }
        self.returning.compared.lock().insert(peer.id);
        true
    }

    /// Ends this member, whose disk is an older copy of itself, and sees to it that no later start passes: a start that was
    /// refused is counted like any other.
    pub(crate) async fn refuse_older_copy(&self, reason: String) {
        let mut identity = self.identity();
        identity.older_copy.clone_from(&reason);
        let saved = save(&*self.disk, &identity).await;
        if self.fatal.disk(saved).is_ok() {
            self.fatal.report(StartError::RolledBack { name: self.options.node.name.to_string(), reason });
        }
    }

    /// Whether `from` may be answered: it contradicts nothing that this disk holds, or nobody knows where to ask it.
    pub(crate) fn is_compared(&self, from: NodeId) -> bool {
        if self.returning.finished.load(Ordering::Acquire) || self.returning.compared.lock().contains(&from) {
            return true;
        }
        let membership = self.membership();
        let mut members = membership.membership().nodes().peekable();
        let cannot_be_asked = match members.peek() {
            // Not read from the log yet, if there is a log.
            None => self.returning.last.is_none(),
            Some(_) => members.all(|(id, _)| *id != from.0),
        };
        if cannot_be_asked {
            // What it is promised from now on is no promise of an earlier start.
            self.returning.compared.lock().insert(from);
        }
        cannot_be_asked
    }

    /// Completes when `from` may be answered.
    pub(crate) async fn wait_compared(&self, from: NodeId) {
        while !self.is_compared(from) {
            R::sleep(LOOK_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::log_id;

    #[test]
    fn a_disk_that_counts_fewer_starts_or_promised_more_is_an_older_copy() {
        let answer = |starts: u64, term: u64, index: u64| wire::IdentityResponse {
            starts,
            promised: Some(wire::Promise { term, log_id: Some(wire::LogId { term, index }) }),
            ..wire::IdentityResponse::default()
        };
        let disk = Returning::after(5, 77, 3, Some(log_id(3, 40)));
        assert_eq!(disk.contradiction(&wire::IdentityResponse::default()), None, "a peer that just started");
        assert_eq!(disk.contradiction(&answer(5, 3, 40)), None);
        assert_eq!(disk.contradiction(&answer(5, 2, 90)), None, "cut by a later leader");
        assert!(disk.contradiction(&answer(6, 3, 40)).is_some());
        let own = wire::IdentityResponse { incarnation: 77, ..answer(6, 3, 40) };
        assert_eq!(disk.contradiction(&own), None, "this start, registered while the peer was not asked yet");
        assert!(disk.contradiction(&answer(5, 4, 1)).is_some());
        assert!(disk.contradiction(&answer(5, 3, 41)).is_some());
    }
}
