//! The result of an upgrade, and its printed form.

use std::fmt;
use std::time::Duration;

/// One member that was stopped and started with another program.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The member and the purpose.
    pub(super) what: String,
    /// Time from the signal until it was ready again.
    pub(super) away: Duration,
    /// Time from the signal until both others had acknowledged a write that was sent after it.
    pub(super) pause: Duration,
}

/// The end of the attempt to go back to the older program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The cluster had agreed on a level that it lacks, and it refused the data.
    Refused,
    /// It supports the agreed level, and took part again.
    LetIn,
}

/// A whole upgrade.
#[derive(Clone, Debug)]
pub struct Report {
    /// The older program's, then the newer one's.
    pub(super) versions: [String; 2],
    /// The feature level of the older program.
    pub(super) level: u32,
    pub(super) steps: Vec<Step>,
    pub(super) ending: Ending,
    pub(super) writes: usize,
    /// Acknowledged numbers that a watcher has not seen, over all watchers.
    pub(super) lost: usize,
    /// Writers whose last acknowledged number a member does not read, over all members.
    pub(super) unread: usize,
    /// Watches of members that were not being replaced, and that ended or broke a rule.
    pub(super) broken_watches: usize,
    pub(super) failed_writers: usize,
}

impl Report {
    /// No acknowledged write was lost, no watch broke and no good write was refused.
    pub fn is_good(&self) -> bool {
        [self.lost, self.unread, self.broken_watches, self.failed_writers] == [0; 4] && self.writes > 0
    }

    /// Whether the older program could not start again.
    pub fn refused_older(&self) -> bool {
        self.ending == Ending::Refused
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [old, new] = &self.versions;
        writeln!(f, "from `{old}`, feature level {}, to `{new}`", self.level)?;
        for Step { what, away, pause } in &self.steps {
            writeln!(f, "{what}: away for {away:.1?}, the others wrote after {pause:.1?}")?;
        }
        let back = match self.ending {
            Ending::Refused => "refused, and the newer one went on",
            Ending::LetIn => "let in, as both support the same feature level",
        };
        writeln!(f, "the older program afterwards: {back}")?;
        let Report { writes, lost, unread, broken_watches, failed_writers, .. } = self;
        write!(
            f,
            "writes acknowledged: {writes}, not seen by a watcher: {lost}, not read by a member: {unread}"
        )?;
        write!(f, ", watches broken: {broken_watches}, writers failed: {failed_writers}")
    }
}
