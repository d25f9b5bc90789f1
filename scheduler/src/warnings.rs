//! Rate limit of the warnings that clients, servers and pods can cause: one per cause in ten seconds, with the number of
//! those left out since the last.
//!
//! Owns the limit of one cause. It does not log. [`WarningLimit::pass`] reads Tokio's clock; cores pass the time that they
//! are given.

use std::ops::Sub;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Shortest time between two warnings of one cause: whoever can cause them must not be able to fill the log.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The limit for one cause. `I` is an instant of the caller's clock.
#[derive(Debug)]
pub(crate) struct WarningLimit<I = Instant>(Mutex<Passed<I>>);

#[derive(Debug)]
struct Passed<I> {
    /// `None` before the first warning.
    last: Option<I>,
    /// Warnings left out since the last one that passed.
    left_out: u64,
}

impl<I> Default for WarningLimit<I> {
    fn default() -> Self {
        WarningLimit(Mutex::new(Passed { last: None, left_out: 0 }))
    }
}

impl<I: Copy + Sub<Output = Duration>> WarningLimit<I> {
    /// `Some` if a warning may be logged at `now`, with the number of warnings left out since the last.
    pub(crate) fn pass_at(&self, now: I) -> Option<u64> {
        let mut passed = self.0.lock();
        if passed.last.is_some_and(|last| now - last < WARNING_PAUSE) {
            passed.left_out += 1;
            return None;
        }
        passed.last = Some(now);
        Some(std::mem::take(&mut passed.left_out))
    }
}

impl WarningLimit {
    /// `Some` if a warning may be logged now, with the number of warnings left out since the last.
    pub(crate) fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_warning_passes_in_ten_seconds_and_says_how_many_did_not() {
        let limit = WarningLimit::<Instant>::default();
        let mut passed = Vec::new();
        for pause_ms in [0, 1, 9_998, 1, 1, 9_999] {
            tokio::time::advance(Duration::from_millis(pause_ms)).await;
            passed.push(limit.pass());
        }
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
