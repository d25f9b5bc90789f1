//! Rate limit of the warnings that clients of the port can cause: one per cause in ten seconds, with the number of those
//! left out since the last.
//!
//! Owns the limit of one cause, by Tokio's clock. It does not log.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Shortest time between two warnings of one cause: whoever can connect must not be able to fill the log.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The limit for one cause.
#[derive(Debug, Default)]
pub(super) struct WarningLimit(Mutex<Passed>);

#[derive(Debug, Default)]
struct Passed {
    /// `None` before the first warning.
    last: Option<Instant>,
    /// Warnings left out since the last one that passed.
    left_out: u64,
}

impl WarningLimit {
    /// `Some` if a warning may be logged now, with the number of warnings left out since the last.
    pub(super) fn pass(&self) -> Option<u64> {
        let now = Instant::now();
        let mut passed = self.0.lock();
        if passed.last.is_some_and(|last| now.duration_since(last) < WARNING_PAUSE) {
            passed.left_out += 1;
            return None;
        }
        passed.last = Some(now);
        Some(std::mem::take(&mut passed.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_warning_passes_in_ten_seconds_and_says_how_many_did_not() {
        let limit = WarningLimit::default();
        let mut passed = Vec::new();
        for pause_ms in [0, 1, 9_998, 1, 1, 9_999] {
            tokio::time::advance(Duration::from_millis(pause_ms)).await;
            passed.push(limit.pass());
        }
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
