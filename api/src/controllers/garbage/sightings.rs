//! Owners at aggregated servers that were seen there.
//!
//! Owns which uids a server showed, as digests: an owner counts as gone only where this leader once saw it, so that a server that was
//! restored, was reinstalled or lies, and an owner that is yet to come, take no dependents along. One that was seen with the finalizer
//! `orphan` never counts as gone.
//!
//! The bound is that of [`SIGHTINGS_MAX`]; dependents of owners beyond it stay.

use std::collections::{HashMap, VecDeque};

use super::remote_owners::Answer;
use crate::follow::Digest;

/// Owners that are remembered, of 60 bytes each.
const SIGHTINGS_MAX: usize = 1 << 16;

/// How an owner was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sighting {
    WithDependents,
    /// It was being deleted, and its dependents are to stay.
    Orphaning,
}

/// The owners that were seen.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    seen: HashMap<Digest, Sighting>,
    /// The same, oldest first.
    order: VecDeque<Digest>,
}

impl Sightings {
    /// Takes in what the server of the APIService `server` answered about an owner.
    pub(super) fn note(&mut self, server: &str, answer: &Answer) {
        let Answer::Found { uid, is_orphaning, .. } = answer else { return };
        let digest = Digest::of((server, uid.as_str()));
        if *is_orphaning {
            self.seen.insert(digest, Sighting::Orphaning);
        } else if self.seen.contains_key(&digest) {
            return;
        } else {
            self.seen.insert(digest, Sighting::WithDependents);
        }
        self.order.push_back(digest);
        if self.order.len() > SIGHTINGS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }

    /// Whether the object `uid` at `server`, which is absent there now, takes its dependents along.
    pub(super) fn took_along(&self, server: &str, uid: &str) -> bool {
        self.seen.get(&Digest::of((server, uid))) == Some(&Sighting::WithDependents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(uid: &str, is_orphaning: bool) -> Answer {
        Answer::Found { uid: uid.to_owned(), is_waiting: false, is_orphaning }
    }

    #[test]
    fn an_owner_takes_its_dependents_along_where_it_was_seen_and_did_not_orphan() {
        let mut sightings = Sightings::default();
        for answer in [found("a", false), found("b", false), found("b", true), found("b", false)] {
            sightings.note("v1.x", &answer);
        }
        sightings.note("v1.x", &Answer::Missing);
        let took = [("v1.x", "a"), ("v1.x", "b"), ("v1.x", "c"), ("v1.y", "a")];
        assert_eq!(took.map(|(server, uid)| sightings.took_along(server, uid)), [true, false, false, false]);
    }
}
