//! Terms and memberships of the entries that the history spans.
//!
//! Owns the two parts of a mark beside its revision: the term and the membership as of that entry.

use std::collections::VecDeque;

use crate::key::Revision;
use crate::member::codec::Mark;
use crate::member::consensus::{LogId, StoredMembership, log_id, term_of};

/// The first entry of each term, and each membership, from the mark of the stored state on. Both change seldom, so there
/// are few.
#[derive(Debug)]
pub(super) struct Lineage {
    /// First entries of their terms, in order.
    terms: VecDeque<LogId>,
    /// Oldest first; the first is that of the mark.
    memberships: VecDeque<StoredMembership>,
    last: Option<LogId>,
}

impl Lineage {
    pub(super) fn starting_at(mark: &Mark) -> Self {
        Lineage {
            terms: mark.log_id.into_iter().collect(),
            memberships: VecDeque::from([mark.membership.clone()]),
            last: mark.log_id,
        }
    }

    /// Notes an applied entry.
    pub(super) fn note(&mut self, id: LogId) {
        if self.terms.back().is_none_or(|newest| term_of(newest) != term_of(&id)) {
            self.terms.push_back(id);
        }
        self.last = Some(id);
    }

    /// Notes the membership that the entry just applied has set.
    pub(super) fn note_membership(&mut self, membership: StoredMembership) {
        self.memberships.push_back(membership);
    }

    /// The newest entry applied.
    pub(super) fn last(&self) -> Option<LogId> {
        self.last
    }

    /// The newest membership applied.
    pub(super) fn membership(&self) -> StoredMembership {
        self.memberships.back().cloned().unwrap_or_default()
    }

    /// The mark of the applied state, without the changes of resources.
    pub(super) fn now(&self) -> Mark {
        Mark { log_id: self.last, membership: self.membership(), changed: None }
    }

    /// The mark at `floor`, without the changes of resources. `floor` must not be before the mark of the stored state.
    pub(super) fn mark_at(&self, floor: Revision) -> Mark {
        let term = self.terms.iter().rev().find(|first| first.index <= floor.0).map(term_of);
        let membership = self.memberships.iter().rev().find(|one| set_at(one) <= floor.0);
        Mark {
            log_id: term.map(|term| log_id(term, floor.0)),
            membership: membership.or(self.memberships.front()).cloned().unwrap_or_default(),
            changed: None,
        }
    }

    /// Drops terms and memberships that no mark from `floor` on needs.
    pub(super) fn forget_before(&mut self, floor: Revision) {
        while self.terms.get(1).is_some_and(|next| next.index <= floor.0) {
            self.terms.pop_front();
        }
        while self.memberships.get(1).is_some_and(|next| set_at(next) <= floor.0) {
            self.memberships.pop_front();
        }
    }
}

fn set_at(membership: &StoredMembership) -> u64 {
    membership.log_id().map_or(0, |id| id.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::consensus::Membership;

    fn set_by(term: u64, index: u64) -> StoredMembership {
        StoredMembership::new(Some(log_id(term, index)), Membership::default())
    }

    #[test]
    fn a_mark_has_the_term_and_membership_of_its_entry() {
        let mut lineage = Lineage::starting_at(&Mark::default());
        for (term, index) in [(0, 0), (1, 1), (1, 2), (3, 3), (3, 4)] {
            lineage.note(log_id(term, index));
            if index == 0 || index == 4 {
                lineage.note_membership(set_by(term, index));
            }
        }
        let now = Mark { log_id: Some(log_id(3, 4)), membership: set_by(3, 4), changed: None };
        assert_eq!(lineage.now(), now);
        for (floor, term, membership) in [(0, 0, (0, 0)), (2, 1, (0, 0)), (3, 3, (0, 0)), (4, 3, (3, 4))] {
            let expected = Mark {
                log_id: Some(log_id(term, floor)),
                membership: set_by(membership.0, membership.1),
                changed: None,
            };
            assert_eq!(lineage.mark_at(Revision(floor)), expected, "floor {floor}");
            lineage.forget_before(Revision(floor));
            assert_eq!(lineage.mark_at(Revision(floor)), expected, "floor {floor}, the rest forgotten");
        }
    }

    #[test]
    fn nothing_applied_has_no_mark() {
        assert_eq!(Lineage::starting_at(&Mark::default()).mark_at(Revision(0)), Mark::default());
    }
}
