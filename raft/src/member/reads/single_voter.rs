//! Linearizable reads of a leader that is the only member: they need no quorum round.
//!
//! Owns the check that this member is alone, now. If it is, this process acknowledged every acknowledged write, after it
//! had published the state with that write. So the published state is as new as a linearizable read requires.
//! A learner applies committed entries by itself and may be ahead of its leader in that, as may a voter until it is
//! removed. So a member is alone only when its membership, applied here, has no other member, learners included: members
//! outside the membership are sent no entry from that of the membership on, and all that they acknowledged before is
//! applied here.
//!
//! Why that is safe. No other member can be elected or commit an entry before this member has appended a membership with
//! other voters: an election needs a majority of the voters of the newest membership in the candidate's log, every log
//! that differs from this one came from it, and while that membership is the last in this log every majority includes
//! this member. The log notes a membership before it can be read from there (see `Log::newest_membership`), so a delay of
//! the library's metrics opens no gap. Writes of earlier terms are acknowledged, too: the first read of a term takes a
//! quorum round (see barrier), and the published state has to reach the commit index that the round found.

mod reading;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::member::consensus::{LogId, term_of};

/// The commit index found by the first quorum round for reads of a term.
#[derive(Debug, Default)]
pub(crate) struct FirstRead {
    /// The term of the round; zero before the first. Written after `index`.
    term: AtomicU64,
    index: AtomicU64,
}

impl FirstRead {
    /// Notes that a quorum has confirmed the leader of `found`'s term, which had committed through `found`. One task alone
    /// notes the rounds of a term.
    pub(crate) fn note(&self, found: &LogId) {
        if self.term.load(Ordering::Acquire) != term_of(found) {
            self.term.store(0, Ordering::Release);
            self.index.store(found.index, Ordering::Release);
            self.term.store(term_of(found), Ordering::Release);
        }
    }

    /// The leader's commit index at the first read of `term`; `None` before that read.
    fn index(&self, term: u64) -> Option<u64> {
        // The term first: an index that is read after its term is that of the term or a newer one, never an older one.
        let is_noted = term != 0 && self.term.load(Ordering::Acquire) == term;
        is_noted.then(|| self.index.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::log_id;

    const TERMS: u64 = 300_000;

    #[test]
    fn an_index_is_never_older_than_its_term() {
        let (first, newest) = (FirstRead::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for term in 1..=TERMS {
                    newest.store(term, Ordering::Release);
                    first.note(&log_id(term, term * 10));
                }
            });
            loop {
                let term = newest.load(Ordering::Acquire);
                if let Some(index) = first.index(term) {
                    assert!(index >= term * 10, "index {index} for term {term}");
                }
                if term == TERMS {
                    break;
                }
            }
        });
        assert_eq!((first.index(TERMS), first.index(TERMS - 1)), (Some(TERMS * 10), None));
    }
}
