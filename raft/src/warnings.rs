//! Warnings that somebody outside can cause: one for each cause in ten seconds, with the number of those left out.
//!
//! Owns the count of one cause. It never writes to the log itself, and reads no clock but where the caller runs on tokio:
//! simulations bring the instant of their runtime.

use std::ops::Sub;
use std::time::Duration;

use parking_lot::Mutex;

/// Between two warnings of one cause: somebody who causes them must not fill a log.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// One cause of warnings. `I` is the instant of the clock that its user goes by.
#[derive(Debug)]
pub struct WarningLimit<I = tokio::time::Instant>(Mutex<Passed<I>>);

#[derive(Debug)]
struct Passed<I> {
    /// `None` before the first warning.
    last: Option<I>,
    /// Since the last one.
    left_out: u64,
}

impl<I> WarningLimit<I> {
    /// A cause that was not warned of yet.
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
    /// Whether to warn at `now`: `Some` with the number of warnings that were left out since the last.
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
    /// Whether to warn now, in a program that runs on tokio: `Some` with the number of warnings that were left out.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(tokio::time::Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_passes_in_ten_seconds_and_says_how_many_did_not() {
        let limit = WarningLimit::<tokio::time::Instant>::new();
        let began = tokio::time::Instant::now();
        let passed =
            [0, 1, 9_999, 10_000, 10_001, 20_000].map(|ms| limit.pass_at(began + Duration::from_millis(ms)));
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
