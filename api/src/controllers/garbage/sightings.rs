//! Owners at aggregated servers that were seen there.
//!
//! Owns which uids a server showed, as digests: an owner counts as gone only where a leader once saw it, so that a server that was
//! restored, was reinstalled or lies, and an owner that is yet to come, take no dependents along. One that was seen with the finalizer
//! `orphan`, or first seen while it was being deleted otherwise than in the foreground, never counts as gone.
//!
//! A sighting counts for [`BLIND_MAX`]: where the server of the owner or that of its dependents was away for longer, the owner may have gone with
//! `orphan` meanwhile. One that was found to be gone in that time stays so.
//!
//! A leader keeps a record of all that in the store ([`record`]), from which the next one begins. A process that begins to lead, or begins again after an
//! error, keeps of its own memory the owners that orphan alone: the record has what counts, and what other leaders saw meanwhile.
//!
//! The bound is that of [`SIGHTINGS_MAX`]; dependents of owners beyond it stay.

mod record;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::Notify;

pub(super) use self::record::Recorder;
use super::remote_owners::{Answer, Question};

/// Owners that are remembered, of 80 bytes each.
const SIGHTINGS_MAX: usize = 1 << 16;

/// Longest time after an owner was seen last for which its absence means that it took its dependents along: that between two looks of one
/// leader, of which the second takes all of its time.
const BLIND_MAX: Duration = Duration::from_secs(120);

/// An owner: a digest that is the same on all members. Clients choose what goes into it, and find no two inputs with one digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark([u8; 16]);

impl Mark {
    fn of(parts: &[&str]) -> Mark {
        let mut hash = Sha256::new();
        for part in parts {
            // The lengths keep parts apart that are equal together.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash = hash.finalize();
        let (mark, _) = hash.split_first_chunk().expect("a digest of 32 bytes");
        Mark(*mark)
    }

    /// Of an owner with its dependents: a uid that a dependent names in another place is not the one that was seen.
    fn of_place(question: &Question, uid: &str) -> Mark {
        let [group, kind, namespace, name] = question.place();
        Mark::of(&[group, kind, namespace, name, uid])
    }

    /// Of an owner that orphans: a server shows one object in several versions.
    fn of_group(question: &Question, uid: &str) -> Mark {
        Mark::of(&[question.group(), uid])
    }
}

/// How an owner was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sighting {
    /// With dependents; this counts until the time of `Store::elapsed`.
    WithDependents(Duration),
    /// It was seen with dependents, and absent soon afterwards.
    Gone,
    /// It was being deleted, and its dependents are to stay.
    Orphaning,
}

/// The state of the record in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Recorded {
    /// It has all that was seen.
    #[default]
    All,
    /// It lacks sightings, of this time and later ones.
    LacksSince(Duration),
    /// It lacks an owner that orphans.
    LacksOrphaning,
}

/// The owners that were seen. All loops of a process share it, whoever asked.
#[derive(Debug, Default)]
pub(in crate::controllers) struct Sightings {
    seen: HashMap<Mark, Sighting>,
    /// The same, oldest first.
    order: VecDeque<Mark>,
    recorded: Recorded,
    /// Wakes the one that writes the record.
    news: Arc<Notify>,
}

impl Sightings {
    /// Begins a time of leading: of what was seen before it, only owners that orphan count.
    fn resume(&mut self, now: Duration) {
        let Sightings { seen, order, .. } = self;
        // once: when this process begins to lead.
        seen.retain(|_, sighting| *sighting == Sighting::Orphaning);
        // once: as above.
        order.retain(|mark| seen.contains_key(mark));
        self.recorded = if self.seen.is_empty() { Recorded::All } else { Recorded::LacksSince(now) };
    }

    /// Takes in the answer to `question`, which came at `now`.
    pub(super) fn note(&mut self, question: &Question, answer: &Answer, now: Duration) {
        let Answer::Found { uid, is_terminating, is_waiting, is_orphaning } = answer else { return };
        let at = Mark::of_place(question, uid);
        // An owner that is being deleted when it is first seen, or after a while, may have lost the finalizer `orphan` before.
        let may_have_orphaned = *is_terminating && !is_waiting && !self.is_recent(&at, now);
        if *is_orphaning || may_have_orphaned {
            // The mark of the place changes, too: a record that has room for only one of both marks must not say `WithDependents`.
            self.seen.entry(at).and_modify(|sighting| *sighting = Sighting::Orphaning);
            let of_group = Mark::of_group(question, uid);
            let before = self.remember(of_group, Sighting::Orphaning);
            if before != Some(Sighting::Orphaning) {
                self.recorded = Recorded::LacksOrphaning;
                self.news.notify_one();
            }
        } else {
            self.remember(at, Sighting::WithDependents(now + BLIND_MAX));
            self.lacks(now);
        }
    }

    /// Whether the object `uid`, which was found at `now` to be absent at the place of `question`, takes its dependents along.
    pub(super) fn took_along(&mut self, question: &Question, uid: &str, now: Duration) -> bool {
        let at = Mark::of_place(question, uid);
        if !self.is_recent(&at, now) || self.seen.contains_key(&Mark::of_group(question, uid)) {
            return false;
        }
        if self.remember(at, Sighting::Gone) != Some(Sighting::Gone) {
            self.lacks(now);
        }
        true
    }

    /// Whether the owner was seen with dependents not long before `now`, or was found to be gone.
    fn is_recent(&self, at: &Mark, now: Duration) -> bool {
        match self.seen.get(at) {
            Some(Sighting::WithDependents(until)) => now <= *until,
            Some(Sighting::Gone) => true,
            Some(Sighting::Orphaning) | None => false,
        }
    }

    /// Remembers a sighting, and returns the one before.
    fn remember(&mut self, mark: Mark, sighting: Sighting) -> Option<Sighting> {
        let before = self.seen.insert(mark, sighting);
        if before.is_some() {
            return before;
        }
        self.order.push_back(mark);
        if self.order.len() > SIGHTINGS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        None
    }

    /// Notes that the record lacks what was seen at `now`.
    fn lacks(&mut self, now: Duration) {
        if self.recorded == Recorded::All {
            self.recorded = Recorded::LacksSince(now);
            self.news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn question(server: &str, namespace: &str) -> Question {
        Question::about(server, "Widget", namespace, "w")
    }

    pub(super) fn found(uid: &str, [is_terminating, is_waiting, is_orphaning]: [bool; 3]) -> Answer {
        Answer::Found { uid: uid.to_owned(), is_terminating, is_waiting, is_orphaning }
    }

    pub(super) const NOW: Duration = Duration::from_secs(1_000);

    pub(super) const LIVE: [bool; 3] = [false; 3];
    const LEAVING: [bool; 3] = [true, false, false];
    const FOREGROUND: [bool; 3] = [true, true, false];
    pub(super) const ORPHANING: [bool; 3] = [true, false, true];

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
        sightings.resume(NOW);
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
