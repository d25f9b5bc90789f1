//! Pauses before a request is sent again, as the reference's clients keep them.
//!
//! Owns the two stages: an answer that names a time is asked again after it, ten times in a row; what fails then, or without
//! a time, comes back after a pause that doubles from 800 ms to half a minute, up to twice as long by chance.

use std::time::Duration;

/// Answers with a time that are asked again in a row.
const TOLD_MAX: u32 = 10;
/// The first pause of those without one.
const PAUSE_MIN: Duration = Duration::from_millis(800);
/// The longest, before chance makes it longer.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The failures of a request in a row.
#[derive(Debug, Default)]
pub(super) struct Retry {
    told: u32,
    failed: u32,
}

impl Retry {
    /// Whether an answer that names a time is asked again after it.
    pub(super) fn may_ask_again(&self) -> bool {
        self.told < TOLD_MAX
    }

    /// The pause after a failure whose answer named the time `after`, if it had one. `part`: a random number from 0 to 1.
    pub(super) fn pause(&mut self, after: Option<Duration>, part: f64) -> Duration {
        if let Some(after) = after.filter(|_| self.told < TOLD_MAX) {
            self.told += 1;
            return after;
        }
        self.told = 0;
        let pause = PAUSE_MIN.saturating_mul(1 << self.failed.min(10)).min(PAUSE_MAX);
        self.failed += 1;
        pause.mul_f64(1.0 + part)
    }
}

/// A random number from 0 to 1.
pub(super) fn random_part() -> f64 {
    rand::random_range(0.0..1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_told_time_is_kept_ten_times_and_pauses_double() {
        let mut retry = Retry::default();
        let told = Some(Duration::from_secs(3));
        let mut longest = Duration::ZERO;
        for at in 0..8 {
            for _ in 0..10 {
                assert_eq!(retry.pause(told, 0.5), Duration::from_secs(3));
            }
            let pause = retry.pause(told, 0.5);
            let least = (PAUSE_MIN * (1 << at)).min(PAUSE_MAX);
            assert!(pause >= least && pause < 2 * least, "{at}: {pause:?}");
            longest = longest.max(pause);
        }
        assert!(longest >= PAUSE_MAX);
        let least = PAUSE_MIN;
        let pause = Retry::default().pause(None, 0.0);
        assert!(pause >= least && pause < 2 * least);
    }
}
