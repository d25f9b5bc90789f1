//! Records of a run: the clients' observations, the signals to end, and the first failure.
//!
//! It checks nothing.

use std::sync::atomic::Ordering;

use orch_raft::Revision;

use super::World;
use crate::sim::answers::Answered;
use crate::sim::duties::Duties;
use crate::sim::sightings::{Listed, Watched};

impl World {
    /// Tells watching clients to stay on their members and to report it.
    pub fn settle(&self) {
        self.0.settling.store(true, Ordering::Relaxed);
    }

    /// Watching clients must stay on their members.
    pub fn is_settling(&self) -> bool {
        self.0.settling.load(Ordering::Relaxed)
    }

    /// Counts a client that stays with its watch, or no longer does.
    pub fn note_settled(&self, stays: bool) {
        match stays {
            true => self.0.settled.fetch_add(1, Ordering::Relaxed),
            false => self.0.settled.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Number of clients that stay with their watch.
    pub fn settled(&self) -> u64 {
        self.0.settled.load(Ordering::Relaxed)
    }

    /// Tells watches to end once they have seen everything up to `revision`.
    pub fn drain(&self, revision: Revision) {
        self.0.drained_at.store(revision.0, Ordering::Relaxed);
    }

    /// Revision at which watches may end, once it is known.
    pub fn drained_at(&self) -> Option<Revision> {
        let revision = self.0.drained_at.load(Ordering::Relaxed);
        (revision > 0).then_some(Revision(revision))
    }

    /// Records that a client knows `revision`: later requests may show nothing older.
    pub fn acknowledge(&self, revision: Revision) {
        self.0.acknowledged.fetch_max(revision.0, Ordering::Relaxed);
    }

    /// The newest revision that any client knows.
    pub fn acknowledged(&self) -> Revision {
        Revision(self.0.acknowledged.load(Ordering::Relaxed))
    }

    /// Records a response of the API.
    pub fn record_answer(&self, answered: Answered) {
        self.0.answers.lock().push(answered);
    }

    /// Number of the API's responses that tell an outcome.
    pub fn outcomes(&self) -> usize {
        self.0.answers.lock().iter().filter(|answer| answer.has_outcome()).count()
    }

    /// All recorded responses of the API.
    pub fn answers(&self) -> Vec<Answered> {
        self.0.answers.lock().clone()
    }

    /// Calls `work` with the controllers' duties.
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

    /// All recorded watches.
    pub fn watched(&self) -> Vec<Watched> {
        self.0.watched.lock().clone()
    }

    /// All recorded lists.
    pub fn listed(&self) -> Vec<Listed> {
        self.0.listed.lock().clone()
    }

    /// Records a failure; only the first counts.
    pub fn fail(&self, what: impl ToString) {
        let mut failure = self.0.failure.lock();
        if failure.is_none() {
            let what = what.to_string();
            self.0.trace.event(format_args!("FAILURE: {what}"));
            *failure = Some(what);
        }
    }

    /// The first failure.
    pub fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }
}
