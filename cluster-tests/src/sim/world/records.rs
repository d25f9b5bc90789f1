//! What clients of a simulated cluster saw, how far they are told to go, and the first thing that went wrong.
//!
//! Owns putting these down and handing them out. It judges nothing.

use std::sync::atomic::Ordering;

use orch_raft::Revision;

use super::World;
use crate::sim::answers::Answered;
use crate::sim::duties::Duties;
use crate::sim::sightings::{Listed, Watched};

impl World {
    /// Tells clients that watch to stay where they are, and to say so.
    pub fn settle(&self) {
        self.0.settling.store(true, Ordering::Relaxed);
    }

    /// Whether clients that watch are to stay where they are.
    pub fn is_settling(&self) -> bool {
        self.0.settling.load(Ordering::Relaxed)
    }

    /// One client more, or one less, has a watch that it stays with.
    pub fn note_settled(&self, stays: bool) {
        match stays {
            true => self.0.settled.fetch_add(1, Ordering::Relaxed),
            false => self.0.settled.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// How many clients have a watch that they stay with.
    pub fn settled(&self) -> u64 {
        self.0.settled.load(Ordering::Relaxed)
    }

    /// Tells watches to end once they have seen everything up to `revision`.
    pub fn drain(&self, revision: Revision) {
        self.0.drained_at.store(revision.0, Ordering::Relaxed);
    }

    /// Where watches may end, once that is known.
    pub fn drained_at(&self) -> Option<Revision> {
        let revision = self.0.drained_at.load(Ordering::Relaxed);
        (revision > 0).then_some(Revision(revision))
    }

    /// A client was told of `revision`: what is asked from now on may show nothing older.
    pub fn acknowledge(&self, revision: Revision) {
        self.0.acknowledged.fetch_max(revision.0, Ordering::Relaxed);
    }

    /// The newest revision that any client was told.
    pub fn acknowledged(&self) -> Revision {
        Revision(self.0.acknowledged.load(Ordering::Relaxed))
    }

    /// Records what the API answered.
    pub fn record_answer(&self, answered: Answered) {
        self.0.answers.lock().push(answered);
    }

    /// How many answers of the API told an outcome.
    pub fn outcomes(&self) -> usize {
        self.0.answers.lock().iter().filter(|answer| answer.has_outcome()).count()
    }

    /// All answers of the API recorded.
    pub fn answers(&self) -> Vec<Answered> {
        self.0.answers.lock().clone()
    }

    /// What clients asked the cluster to do by itself.
    pub fn duties<R>(&self, work: impl FnOnce(&mut Duties) -> R) -> R {
        work(&mut self.0.duties.lock())
    }

    /// Records a watch.
    pub fn record_watch(&self, watched: Watched) {
        self.0.watched.lock().push(watched);
    }

    /// Records a list.
    pub fn record_list(&self, listed: Listed) {
        self.0.listed.lock().push(listed);
    }

    /// All watches recorded.
    pub fn watched(&self) -> Vec<Watched> {
        self.0.watched.lock().clone()
    }

    /// All lists recorded.
    pub fn listed(&self) -> Vec<Listed> {
        self.0.listed.lock().clone()
    }

    /// Records that something is wrong; only the first counts.
    pub fn fail(&self, what: impl ToString) {
        let mut failure = self.0.failure.lock();
        if failure.is_none() {
            let what = what.to_string();
            self.0.trace.event(format_args!("FAILURE: {what}"));
            *failure = Some(what);
        }
    }

    /// The first thing found wrong.
    pub fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }
}
