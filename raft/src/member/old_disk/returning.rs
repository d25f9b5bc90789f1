//! Detects that a member restarts with an older copy of its disk.
//!
//! A disk can be an older copy of itself: a virtual machine's snapshot was rolled back, a backup restored. It has a log
//! and a vote, but lacks the member's later promises: with such a disk a member would vote twice, or help to elect a leader
//! without entries that it helped to commit. Two records disclose such a disk:
//!
//! - starts: each start is counted on the disk before any answer, and registered in the cluster's state. A disk that
//!   counts fewer starts than the state is older;
//! - promises: the receiver of a vote or an acknowledgement of this member remembers it (see promises).
//!
//! So a restarted member compares its disk with the records of each other member, and before that it gives that member
//! neither a vote nor an acknowledgement. It asks the members that it knows; members that were added since send their
//! records with the request (see recall). A member that knows no other member listens first: its disk may be from before
//! they joined. The comparison needs no quorum, so that a whole cluster can start again: its members do not contradict each
//! other. docs/decisions/0016 lists older copies that cannot be detected.
//!
//! Owns the set of members compared with. Invariant: no member gets a vote or an acknowledgement of this member before this
//! one was compared with that member's records.

mod comparing;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use orch_proto::store as wire;
use parking_lot::Mutex;

use crate::member::codec::log_id_from_wire;
use crate::member::consensus::LogId;
use crate::member::old_disk::promises::Promise;
use crate::transport::NodeId;

/// The disk's vote, log end and start count when the process started, and the members compared with since.
pub(crate) struct Returning {
    /// Starts counted on the disk before this one.
    starts: u64,
    /// The random number of this start, which may be registered before every member was asked.
    incarnation: u64,
    /// The term of the vote on the disk; 0 for none.
    term: u64,
    /// The last entry of the log; `None` for an empty log.
    last: Option<LogId>,
    /// Members whose records do not contradict the disk.
    compared: Mutex<BTreeSet<NodeId>>,
    /// Every voter that this member knows was compared with, or the disk was empty.
    finished: AtomicBool,
    /// The disk was empty: there can be no records of it.
    is_new: bool,
}

impl Returning {
    /// A disk on which `starts` starts are counted, this one included. `is_first`: the disk was empty before this start.
    pub(crate) fn at(is_first: bool, starts: u64, incarnation: u64, term: u64, last: Option<LogId>) -> Self {
        match is_first {
            true => Returning::first_start(),
            false => Returning::after(starts.saturating_sub(1), incarnation, term, last),
        }
    }

    /// A disk that was first used by this start.
    fn first_start() -> Self {
        let (compared, finished) = (Mutex::default(), AtomicBool::new(true));
        Returning { starts: 0, incarnation: 0, term: 0, last: None, compared, finished, is_new: true }
    }

    /// A disk on which `starts` starts are counted before this one, whose random number is `incarnation`.
    fn after(starts: u64, incarnation: u64, term: u64, last: Option<LogId>) -> Self {
        let (compared, finished) = (Mutex::default(), AtomicBool::new(false));
        Returning { starts, incarnation, term, last, compared, finished, is_new: false }
    }

    /// Whether every voter that this member knows was asked.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// The evidence in the answer of a peer that the disk is an older copy.
    pub(crate) fn contradicted_by(&self, answer: &wire::IdentityResponse) -> Option<String> {
        self.contradiction(&wire::Recall {
            directory: answer.directory.clone(),
            starts: answer.starts,
            incarnation: answer.incarnation,
            promised: answer.promised,
            ..wire::Recall::default()
        })
    }

    /// The most starts of this disk that can be registered, without the present one. A start is registered only after the
    /// log is on the disk: without log and vote, none can be.
    pub(crate) fn starts_counted(&self) -> u64 {
        if self.term == 0 && self.last.is_none() { 0 } else { self.starts }
    }

    /// The evidence in a peer's count of starts that the disk is an older copy.
    fn missed_start(&self, known: &wire::Recall) -> Option<String> {
        let counted = self.starts_counted();
        let is_missed = known.starts > counted && known.incarnation != self.incarnation;
        is_missed.then(|| format!("it counts {counted} starts, the cluster {}", known.starts))
    }

    /// The evidence in a peer's recall, received now, that the disk is an older copy. Once every voter was compared with, only
    /// starts count: the peer's record of promises may be from the present start.
    fn contradiction_now(&self, known: &wire::Recall) -> Option<String> {
        if self.finished.load(Ordering::Acquire) {
            self.missed_start(known)
        } else {
            self.contradiction(known)
        }
    }

    /// The evidence in a peer's recall that the disk is an older copy.
    fn contradiction(&self, known: &wire::Recall) -> Option<String> {
        let missed = self.missed_start(known);
        if missed.is_some() {
            return missed;
        }
        let promised = known.promised.unwrap_or_default();
        let promise = Promise { term: promised.term, log_id: promised.log_id.map(log_id_from_wire) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::log_id;

    #[test]
    fn a_disk_that_counts_fewer_starts_or_promised_more_is_an_older_copy() {
        let answer = |starts: u64, term: u64, index: u64| wire::Recall {
            starts,
            promised: Some(wire::Promise { term, log_id: Some(wire::LogId { term, index }) }),
            ..wire::Recall::default()
        };
        let disk = Returning::after(5, 77, 3, Some(log_id(3, 40)));
        assert_eq!(disk.contradiction(&wire::Recall::default()), None, "a peer that just started");
        assert_eq!(disk.contradiction(&answer(5, 3, 40)), None);
        assert_eq!(disk.contradiction(&answer(5, 2, 90)), None, "cut by a later leader");
        assert!(disk.contradiction(&answer(6, 3, 40)).is_some());
        let own = wire::Recall { incarnation: 77, ..answer(6, 3, 40) };
        assert_eq!(disk.contradiction(&own), None, "this start, registered while the peer was not asked yet");
        assert!(disk.contradiction(&answer(5, 4, 1)).is_some());
        assert!(disk.contradiction(&answer(5, 3, 41)).is_some());

        let waiting = Returning::after(2, 77, 0, None);
        let founded = wire::Recall { directory: "d".into(), ..wire::Recall::default() };
        assert_eq!(waiting.contradiction(&founded), None, "founded meanwhile");
        assert!(waiting.contradiction(&wire::Recall { starts: 1, ..founded }).is_some(), "it had a log");
    }
}
