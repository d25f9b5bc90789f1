//! Owners at aggregated servers that were seen there.
//!
//! Owns which uids a server showed, as digests: an owner counts as gone only where this process once saw it, so that a server that was
//! restored, was reinstalled or lies, and an owner that is yet to come, take no dependents along. One that was seen with the finalizer
//! `orphan`, or first seen while it was being deleted otherwise than in the foreground, never counts as gone.
//!
//! A sighting counts for [`BLIND_MAX`]: where the server of the owner or that of its dependents was away for longer, the owner may have gone with
//! `orphan` meanwhile. One that was found to be gone in that time stays so.
//!
//! A process that begins to lead, or begins again after an error, keeps of what it saw only the owners that orphan: another member may have
//! led meanwhile, and seen an owner with `orphan` that this one saw without.
//!
//! The bound is that of [`SIGHTINGS_MAX`]; dependents of owners beyond it stay.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::remote_owners::{Answer, Question};
use crate::follow::Digest;

/// Owners that are remembered, of 60 bytes each.
const SIGHTINGS_MAX: usize = 1 << 16;

/// Longest time after an owner was seen last for which its absence means that it took its dependents along: that between two looks of one
/// leader, of which the second takes all of its time.
const BLIND_MAX: Duration = Duration::from_secs(120);

/// How an owner was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sighting {
    /// Last at this time, of `Store::elapsed`.
    WithDependents(Duration),
    /// It was seen with dependents, and absent soon afterwards.
    Gone,
    /// It was being deleted, and its dependents are to stay.
    Orphaning,
}

/// The owners that were seen. All loops of a process share it, whoever asked.
#[derive(Debug, Default)]
pub(in crate::controllers) struct Sightings {
    /// By group, place and uid of those with dependents, by group and uid of those that orphan: a server shows one object in several
    /// versions, and a uid that a dependent names in another place is not the one that was seen.
    seen: HashMap<Digest, Sighting>,
    /// The same, oldest first.
    order: VecDeque<Digest>,
}

impl Sightings {
    /// Begins a time of leading: what was seen before it takes no dependents along.
    pub(super) fn resume(&mut self) {
        let Sightings { seen, order } = self;
        // once: when this process begins to lead.
        seen.retain(|_, sighting| *sighting == Sighting::Orphaning);
        // once: as above.
        order.retain(|digest| seen.contains_key(digest));
    }

    /// Takes in the answer to `question`, which came at `now`.
    pub(super) fn note(&mut self, question: &Question, answer: &Answer, now: Duration) {
        let Answer::Found { uid, is_terminating, is_waiting, is_orphaning } = answer else { return };
        let at = Digest::of((question.place(), uid.as_str()));
        // One that is being deleted when it is first seen, or after a while, may have lost the finalizer `orphan` before.
        let may_have_orphaned = *is_terminating && !is_waiting && !self.is_recent(&at, now);
        if *is_orphaning || may_have_orphaned {
            self.remember(Digest::of((question.group(), uid.as_str())), Sighting::Orphaning);
        } else {
            self.remember(at, Sighting::WithDependents(now));
        }
    }

    /// Whether the object `uid`, which was found at `now` to be absent at the place of `question`, takes its dependents along.
    pub(super) fn took_along(&mut self, question: &Question, uid: &str, now: Duration) -> bool {
        let at = Digest::of((question.place(), uid));
        let of_group = Digest::of((question.group(), uid));
        if !self.is_recent(&at, now) || self.seen.contains_key(&of_group) {
            return false;
        }
        self.remember(at, Sighting::Gone);
        true
    }

    /// Whether the owner was seen with dependents not long before `now`, or was found to be gone.
    fn is_recent(&self, at: &Digest, now: Duration) -> bool {
        match self.seen.get(at) {
            Some(Sighting::WithDependents(last)) => now.saturating_sub(*last) <= BLIND_MAX,
            Some(Sighting::Gone) => true,
            Some(Sighting::Orphaning) | None => false,
        }
    }

    fn remember(&mut self, digest: Digest, sighting: Sighting) {
        if self.seen.insert(digest, sighting).is_some() {
            return;
        }
        self.order.push_back(digest);
        if self.order.len() > SIGHTINGS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(server: &str, namespace: &str) -> Question {
        Question::about(server, "Widget", namespace, "w")
    }

    fn found(uid: &str, [is_terminating, is_waiting, is_orphaning]: [bool; 3]) -> Answer {
        Answer::Found { uid: uid.to_owned(), is_terminating, is_waiting, is_orphaning }
    }

    const NOW: Duration = Duration::from_secs(1_000);

    const LIVE: [bool; 3] = [false; 3];
    const LEAVING: [bool; 3] = [true, false, false];
    const FOREGROUND: [bool; 3] = [true, true, false];
    const ORPHANING: [bool; 3] = [true, false, true];

    /// Whether an owner that was seen in this order takes its dependents along.
    fn takes_along(seen: &[[bool; 3]]) -> bool {
        let mut sightings = Sightings::default();
        seen.iter().for_each(|state| sightings.note(&question("v1.x", "n"), &found("u", *state), NOW));
        sightings.note(&question("v1.x", "n"), &Answer::Missing, NOW);
        sightings.took_along(&question("v1.x", "n"), "u", NOW)
    }

    #[test]
    fn an_owner_takes_its_dependents_along_where_it_was_seen_and_did_not_orphan() {
        assert!(takes_along(&[LIVE]) && takes_along(&[LIVE, LEAVING]) && takes_along(&[FOREGROUND]));
        assert!(!takes_along(&[]), "it was never seen");
        assert!(!takes_along(&[LIVE, ORPHANING]) && !takes_along(&[ORPHANING, LEAVING]));
        assert!(!takes_along(&[LEAVING]), "orphan may have been taken away before");
    }

    #[test]
    fn a_sighting_is_one_of_a_place_and_an_orphaning_one_of_the_group() {
        let mut sightings = Sightings::default();
        sightings.note(&question("v1.x", "n"), &found("a", LIVE), NOW);
        assert!(!sightings.took_along(&question("v1.x", "m"), "a", NOW), "it was seen in another namespace");
        assert!(!sightings.took_along(&question("v1.y", "n"), "a", NOW));
        sightings.note(&question("v1beta1.x", "n"), &found("a", ORPHANING), NOW);
        assert!(
            !sightings.took_along(&question("v1.x", "n"), "a", NOW),
            "another version showed it orphaning"
        );
    }

    #[test]
    fn an_owner_that_is_seen_again_and_again_takes_one_place() {
        let mut sightings = Sightings::default();
        (0..100).for_each(|_| sightings.note(&question("v1.x", "n"), &found("a", ORPHANING), NOW));
        assert_eq!((sightings.order.len(), sightings.seen.len()), (1, 1));
    }

    #[test]
    fn a_time_of_leading_begins_with_the_owners_that_orphan_alone() {
        let mut sightings = Sightings::default();
        sightings.note(&question("v1.x", "n"), &found("a", LIVE), NOW);
        sightings.note(&question("v1.x", "n"), &found("b", ORPHANING), NOW);
        assert!(sightings.took_along(&question("v1.x", "n"), "a", NOW));
        sightings.resume();
        assert!(
            !sightings.took_along(&question("v1.x", "n"), "a", NOW),
            "another leader may have seen it orphaning"
        );
        assert_eq!((sightings.order.len(), sightings.seen.len()), (1, 1));
        sightings.note(&question("v1.x", "n"), &found("a", LIVE), NOW);
        sightings.note(&question("v1.x", "n"), &found("b", FOREGROUND), NOW);
        assert!(sightings.took_along(&question("v1.x", "n"), "a", NOW));
        assert!(!sightings.took_along(&question("v1.x", "n"), "b", NOW), "it orphaned before");
    }

    #[test]
    fn an_owner_that_was_not_seen_for_long_takes_nothing_along() {
        let (at, soon) = (question("v1.x", "n"), NOW + BLIND_MAX);
        let late = soon + Duration::from_secs(1);
        let seen_once = || {
            let mut sightings = Sightings::default();
            sightings.note(&at, &found("a", LIVE), NOW);
            sightings
        };
        assert!(!seen_once().took_along(&at, "a", late), "it may have orphaned since");
        let mut sightings = seen_once();
        sightings.note(&at, &Answer::Unknown, soon);
        assert!(!sightings.took_along(&at, "a", late), "its server is away");
        let mut sightings = seen_once();
        assert!(sightings.took_along(&at, "a", soon) && sightings.took_along(&at, "a", late), "it is gone");
        let mut sightings = seen_once();
        sightings.note(&at, &found("a", LEAVING), late);
        assert!(!sightings.took_along(&at, "a", late), "orphan may have been taken away before");
    }
}
