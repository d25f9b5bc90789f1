//! Rate limit of the warnings that clients, peers, servers and pods can cause: one per cause in ten seconds, with the number
//! of those left out since the last.
//!
//! Owns the limit of one cause. It does not log. [`WarningLimit::pass`] reads Tokio's clock; [`WarningLimit::pass_at`] takes
//! an instant of the caller's clock, such as that of a simulated member.

use std::ops::Sub;
use std::time::Duration;

use parking_lot::Mutex;

/// Shortest time between two warnings of one cause: clients and peers that cause them must not fill a log.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The limit for one cause. `I` is the instant of the caller's clock.
#[derive(Debug)]
pub struct WarningLimit<I = tokio::time::Instant>(Mutex<Passed<I>>);

#[derive(Debug)]
struct Passed<I> {
    /// `None` before the first warning.
    last: Option<I>,
    /// Warnings left out since the last one that passed.
    left_out: u64,
}

impl<I> WarningLimit<I> {
    /// A limit that lets the first warning pass.
    pub const fn new() -> WarningLimit<I> {
        WarningLimit(Mutex::new(Passed { last: None, left_out: 0 }))
    }
}

impl<I> Default for WarningLimit<I> {
    fn default() -> Self {
        WarningLimit::new()
    }
}

impl<I: Copy + Sub<Output = Duration>> WarningLimit<I> {
    /// `Some` if a warning may be logged at `now`, with the number of warnings left out since the last.
    pub fn pass_at(&self, now: I) -> Option<u64> {
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
    /// `Some` if a warning may be logged now by Tokio's clock, with the number of warnings left out since the last.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(tokio::time::Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_passes_in_ten_seconds_and_says_how_many_did_not() {
        let limit = WarningLimit::<tokio::time::Instant>::new();
        let began = tokio::time::Instant::now();
        let passed =
            [0, 1, 9_999, 10_000, 10_001, 20_000].map(|ms| limit.pass_at(began + Duration::from_millis(ms)));
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_measured_by_the_clock_that_tests_stop() {
        let limit = WarningLimit::default();
        let mut passed = Vec::new();
        for pause_ms in [0, 1, 9_998, 1, 1, 9_999] {
            tokio::time::advance(Duration::from_millis(pause_ms)).await;
            passed.push(limit.pass());
        }
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
