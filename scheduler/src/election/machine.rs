//! The lock as a state machine.
//!
//! ```text
//!              Read ──> observe ──┬─ held by another, not lapsed ──> wait a retry period
//!               ^                 └─ free, lapsed, or ours ──> Create / Update ──> written
//!               │                                                                    │
//!               └── the outcome is not known, or another was first ──────────────────┤
//!                   leading: Update straight from what was observed <────────────────┘ done
//! ```
//!
//! Owns the decisions and no clock: the caller says what time it is. Two kinds of time come in: [`Monotonic`], by which
//! all decisions are made, and [`WallTime`], which is only written into the record.

use std::time::Duration;

use super::record::Record;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};
use crate::wall_time::WallTime;

/// Time since some moment of this process, by a clock that never steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Monotonic(pub Duration);

impl Monotonic {
    fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// How much pauses between attempts vary at most, as a part of the retry period.
const JITTER: f64 = 1.2;

/// The three durations of the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    // Invariant: lease_duration > renew_deadline > retry_period * JITTER > 0, lease_duration >= 1 s
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Durations that would break the promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A holder would work longer than others wait.
    #[error("leaseDuration must be greater than renewDeadline")]
    Deadline,
    /// A holder could not try twice before its deadline.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    Retry,
    /// The record counts in whole seconds.
    #[error("leaseDuration must be at least one second")]
    Second,
    /// A pause of no time.
    #[error("retryPeriod must be greater than zero")]
    Zero,
}

impl Timing {
    /// The default of the flags: 15 s, 10 s, 2 s.
    pub const DEFAULT: Timing = Timing {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// How long others wait after they saw a renewal, how long after its last renewal a holder works, and the pause between
    /// attempts.
    ///
    /// # Errors
    /// The first condition that does not hold, in the reference's order.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Timing, TimingError> {
        match () {
            () if lease_duration <= renew_deadline => Err(TimingError::Deadline),
            // The reference's condition. A contender that does not lead waits up to 2.2 periods; the leader, whose deadline
            // this is, renews each period.
            () if renew_deadline <= retry_period.mul_f64(JITTER) => Err(TimingError::Retry),
            () if retry_period.is_zero() => Err(TimingError::Zero),
            () if lease_duration < Duration::from_secs(1) => Err(TimingError::Second),
            () => Ok(Timing { lease_duration, renew_deadline, retry_period }),
        }
    }

    /// How long others wait after they saw a renewal.
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long after its last renewal a holder works.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The pause between attempts.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// The record's `leaseDurationSeconds`: rounded up, so that others never wait for less.
    fn seconds(&self) -> i32 {
        let up = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(up).unwrap_or(i32::MAX)
    }
}

/// The version of the stored lock, which a write is conditional on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub String);

/// The next request for the stored lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// Read it.
    Read,
    /// Create it with this record.
    Create(Record),
    /// Replace its record if it still has this version.
    Update(Version, Record),
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is stored; this is its version.
    Done(Version),
    /// Another write was first, or it may have happened or not: read before the next.
    Unsure,
}

/// The state of a contender.
#[derive(Debug)]
pub struct Machine {
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
    // Until when this contender works. Invariant: the start of a successful write of its own + renew_deadline.
    leads_until: Option<Monotonic>,
}

/// The newest record that was seen.
#[derive(Debug, Clone)]
struct Observed {
    record: Record,
    version: Version,
    // When the record was first seen. Reading the same record again does not move it.
    at: Monotonic,
}

impl Machine {
    /// A contender called `identity`, which no other may be called.
    pub fn new(identity: String, timing: Timing) -> Self {
        Self { identity, timing, observed: None, leads_until: None }
    }

    /// The contender's name.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The durations.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Until when this contender may work; `None` if it does not lead.
    pub fn leads_until(&self) -> Option<Monotonic> {
        self.leads_until
    }

    /// Whether this contender may work at `now`.
    pub fn is_leading(&self, now: Monotonic) -> bool {
        self.leads_until.is_some_and(|until| now < until)
    }

    /// The holder that was last seen; empty for nobody.
    pub fn holder(&self) -> &str {
        self.observed.as_ref().map_or("", |observed| &observed.record.holder)
    }

    /// Begins an attempt at `now`. A leader renews from what it wrote last; anyone else reads first.
    pub fn begin(&self, now: Monotonic, wall: WallTime) -> Attempt {
        match &self.observed {
            Some(observed) if self.is_leading(now) && observed.record.holder == self.identity => {
                Attempt::Update(observed.version.clone(), self.record(Some(&observed.record), wall))
            }
            _ => Attempt::Read,
        }
    }

    /// When the attempt after one that ended at `now` begins. A leader renews evenly. A contender spreads its reads by
    /// `random` from 0 to 1, and reads at the moment at which the record that it saw lapses, so that a dead leader is
    /// replaced no later than its lease duration after the contender saw its last renewal.
    pub fn next_attempt(&self, now: Monotonic, random: f64) -> Monotonic {
        let period = self.timing.retry_period;
        if self.leads_until.is_some() {
            return now.after(period);
        }
        let retry = now.after(period.mul_f64(1.0 + JITTER * random));
        let lapse = self.observed.as_ref().map(|seen| seen.at.after(lifetime(&seen.record)));
        // One that has lapsed already was not taken: another was first, or the API does not answer.
        lapse.filter(|lapse| *lapse > now).map_or(retry, |lapse| lapse.min(retry))
    }

    /// Takes what an [`Attempt::Read`] found, at `now`: `None` if the lock is not stored yet. Returns the write that
    /// takes or renews the lock, or `None` if another holds it.
    pub fn observe(
        &mut self,
        now: Monotonic,
        wall: WallTime,
        found: Option<(Record, Version)>,
    ) -> Option<Attempt> {
        let Some((record, version)) = found else {
            self.observed = None;
            return Some(Attempt::Create(self.record(None, wall)));
        };
        let at = match &self.observed {
            Some(seen) if seen.record == record => seen.at,
            _ => now,
        };
        let is_ours = record.holder == self.identity;
        let is_free = record.holder.is_empty() || now >= at.after(lifetime(&record));
        #[cfg(test)]
        let is_free = is_free || (plant::is(Plant::TakesOverEarly) && now >= at.after(lifetime(&record) / 2));
        let next =
            (is_ours || is_free).then(|| Attempt::Update(version.clone(), self.record(Some(&record), wall)));
        self.observed = Some(Observed { record, version, at });
        next
    }

    /// Takes the outcome of a write of `record` that began at `began`. `now` is the time of its end.
    pub fn wrote(&mut self, began: Monotonic, now: Monotonic, record: Record, outcome: Written) {
        match outcome {
            Written::Unsure => {
                // Forget only what a write is conditional on: the time of the last observation still counts, since
                // it is of the same record if the write did not happen.
                if self.observed.as_ref().is_some_and(|seen| seen.record.holder == self.identity) {
                    self.observed = None;
                }
            }
            Written::Done(version) => {
                assert_eq!(record.holder, self.identity, "contenders write only themselves");
                #[cfg(test)]
                let began = if plant::is(Plant::RenewsFromEnd) { now } else { began };
                self.observed = Some(Observed { record, version, at: now });
                self.leads_until = Some(began.after(self.timing.renew_deadline));
            }
        }
    }

    /// Stops leading, for good or until the lock is taken again. The lock itself stays as it is.
    pub fn stop(&mut self) {
        self.leads_until = None;
    }

    /// Stops leading and returns the write that lets others in at once; `None` if this contender did not hold the
    /// lock.
    pub fn release(&mut self, wall: WallTime) -> Option<Attempt> {
        self.leads_until.take()?;
        let observed = self.observed.take()?;
        let record = Record {
            holder: String::new(),
            lease_duration_seconds: 1,
            acquired: wall,
            renewed: wall,
            transitions: observed.record.transitions,
        };
        (observed.record.holder == self.identity).then_some(Attempt::Update(observed.version, record))
    }

    /// The record with which this contender holds the lock after `before`.
    fn record(&self, before: Option<&Record>, wall: WallTime) -> Record {
        let kept = before.filter(|before| before.holder == self.identity);
        let transitions = match (kept, before) {
            (Some(kept), _) => kept.transitions,
            (None, Some(before)) => before.transitions.saturating_add(1),
            (None, None) => 0,
        };
        Record {
            holder: self.identity.clone(),
            lease_duration_seconds: self.timing.seconds(),
            acquired: kept.map_or(wall, |kept| kept.acquired),
            renewed: wall,
            transitions,
        }
    }
}

/// How long others respect `record` after they first saw it.
fn lifetime(record: &Record) -> Duration {
    Duration::from_secs(u64::try_from(record.lease_duration_seconds).unwrap_or_default())
}
