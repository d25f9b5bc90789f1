//! Checks of peers' answers: neither a certificate nor membership proves good faith.
//!
//! Requests are checked where they arrive (see service). Answers to this member's own requests go to the consensus library,
//! which believes them: it adopts their terms, counts their votes and commits by their acknowledgements. So answers are
//! checked here first, and an answer that cannot be true is treated as lost.
//!
//! A leader sends its commit index in heartbeats only while a majority follows it: followers take that index for contact
//! with the cluster (see vouching).
//!
//! Owns the rules, and how links reach them: links are made before the member that they belong to.

mod own_state;

use std::sync::{Arc, OnceLock, Weak};

use crate::member::consensus::LogId;

/// How far the term of a request may be ahead of the term of the last entry applied here. Terms grow by elections, at most
/// a few in a second, and not at all where no majority answers. A made-up term must not use up the range of terms.
const TERMS_AHEAD_MAX: u64 = 1 << 20;

/// The same bound for a sender that no other member vouches for, and for answers. Half as far, so that the other members
/// still accept the terms that follow a term accepted here.
const DOUBTFUL_TERMS_AHEAD_MAX: u64 = TERMS_AHEAD_MAX / 2;

/// How far a term may be ahead of this member's own term, whatever the term of its log: elections of some minutes.
const ELECTIONS_AHEAD_MAX: u64 = 1 << 10;

/// The rules for answers, as links see them.
pub(crate) trait Scrutiny: Send + Sync {
    /// Whether a promise of `peer` counts: this member's disk was compared with the records of `peer`.
    fn may_promise(&self, peer: u64) -> bool;

    /// Whether elections can have led to `term`, which an answer carries.
    fn is_term_possible(&self, term: u64) -> bool;

    /// Whether this member leads and a majority acknowledged that lately.
    fn is_followed(&self) -> bool;

    /// Whether the rate limit allows another warning of this cause.
    fn may_warn(&self, cause: &'static str) -> bool;
}

/// The rules, set once the member has started. Until then every answer is refused.
#[derive(Clone, Default)]
pub(crate) struct Scrutinized(Arc<OnceLock<Weak<dyn Scrutiny>>>);

impl Scrutinized {
    /// Has answers judged by `member`, once.
    pub(crate) fn by(&self, member: Weak<dyn Scrutiny>) {
        // A second call would be of the same member.
        drop(self.0.set(member));
    }

    fn ask(&self, rule: impl FnOnce(&dyn Scrutiny) -> bool) -> bool {
        self.0.get().and_then(Weak::upgrade).is_some_and(|member| rule(&*member))
    }
}

impl Scrutiny for Scrutinized {
    fn may_promise(&self, peer: u64) -> bool {
        self.ask(|member| member.may_promise(peer))
    }

    fn is_term_possible(&self, term: u64) -> bool {
        self.ask(|member| member.is_term_possible(term))
    }

    fn is_followed(&self) -> bool {
        self.ask(|member| member.is_followed())
    }

    fn may_warn(&self, cause: &'static str) -> bool {
        self.ask(|member| member.may_warn(cause))
    }
}

/// Whether a follower that was sent entries after `previous` through `last` can have acknowledged them through `through`.
pub(crate) fn is_within(through: Option<LogId>, previous: Option<LogId>, last: Option<LogId>) -> bool {
    let is_position = |id: LogId, sent: LogId| id.index != sent.index || id == sent;
    previous <= through
        && through <= last
        && through.is_none_or(|id| last.is_none_or(|last| id.index <= last.index && is_position(id, last)))
        && through
            .is_none_or(|id| previous.is_none_or(|first| id.index >= first.index && is_position(id, first)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::log_id;

    #[test]
    fn entries_that_were_not_sent_are_not_acknowledged() {
        let (previous, last) = (Some(log_id(2, 10)), Some(log_id(3, 15)));
        let within = |term, index| is_within(Some(log_id(term, index)), previous, last);
        assert!(within(2, 10) && within(3, 15) && within(2, 12) && within(3, 12));
        for (term, index) in
            [(3, 16), (3, u64::MAX), (2, 15), (4, 15), (4, 12), (1, 12), (3, 10), (2, 9), (0, 0)]
        {
            assert!(!within(term, index), "{term} {index}");
        }
        assert!(!is_within(None, previous, last));
        assert!(is_within(None, None, last) && is_within(last, None, last) && is_within(None, None, None));
    }
}
