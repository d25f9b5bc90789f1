//! The result of a failover measurement, and its printed form.

use std::fmt;
use std::time::Duration;

/// The pauses in writing after one kill of the leader.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Time until each survivor acknowledged a write sent after the kill.
    pub(super) pauses: Vec<Duration>,
    /// The longest of those.
    pub(super) slowest: Duration,
}

/// A whole measurement.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub(super) calm: Duration,
    pub(super) calm_writes: usize,
    pub(super) calm_terms: u64,
    pub(super) samples: Vec<Sample>,
    pub(super) writes: usize,
    pub(super) lost: usize,
    pub(super) broken_watches: usize,
    pub(super) failed_writers: usize,
}

impl Report {
    /// No acknowledged write was lost, no watch broke, no good write was refused, and no living leader was replaced.
    pub fn is_good(&self) -> bool {
        [self.lost, self.broken_watches, self.failed_writers] == [0; 3] && self.calm_terms == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { calm, calm_writes, calm_terms, samples, writes, lost, broken_watches, failed_writers } =
            self;
        writeln!(f, "without a kill: {calm:.1?}, {calm_writes} writes, {calm_terms} changes of term")?;
        writeln!(f, "kills: {}", samples.len())?;
        line(
            f,
            "until the first survivor",
            samples.iter().filter_map(|sample| sample.pauses.iter().min().copied()),
        )?;
        line(f, "until every survivor", samples.iter().map(|sample| sample.slowest))?;
        write!(f, "writes acknowledged: {writes}, lost: {lost}, watches broken: {broken_watches}")?;
        write!(f, ", writers failed: {failed_writers}")
    }
}

/// The distribution of `pauses` in milliseconds.
fn line(f: &mut fmt::Formatter<'_>, name: &str, pauses: impl Iterator<Item = Duration>) -> fmt::Result {
    let mut pauses: Vec<u128> = pauses.map(|pause| pause.as_millis()).collect();
    pauses.sort_unstable();
    let Some(last) = pauses.len().checked_sub(1) else { return Ok(()) };
    let at = |per_cent: usize| pauses[last * per_cent / 100];
    writeln!(
        f,
        "{name}: min {} ms, median {} ms, p90 {} ms, p99 {} ms, max {} ms",
        at(0),
        at(50),
        at(90),
        at(99),
        at(100)
    )
}
