//! Attempts at one request to another server: how many, and how long the pauses between them are.
//!
//! Owns the numbers of the reference for reviews. It sends nothing, waits for nothing and draws nothing: callers decide which
//! failures are transient, sleep by their own clock and hand in randomness.

use std::time::Duration;

/// Attempts at one review, as in the reference.
const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first attempt; each later one is half as long again.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The largest part of a pause by which chance may lengthen it: a fifth.
const JITTER_PARTS: u128 = 5;

/// The attempts at one review.
#[derive(Clone, Debug)]
pub struct Attempts {
    left: u32,
    pause: Duration,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { left: ATTEMPTS_MAX, pause: PAUSE_FIRST }
    }
}

impl Attempts {
    /// Counts a failed attempt. Returns the pause before the next one; `None` after the last.
    pub fn next_pause(&mut self) -> Option<Duration> {
        self.left = self.left.saturating_sub(1);
        let pause = self.pause;
        self.pause = pause * 3 / 2;
        (self.left > 0).then_some(pause)
    }
}

/// `pause`, longer by up to a fifth, which `random` chooses.
pub fn jittered(pause: Duration, random: u128) -> Duration {
    let most = pause.as_micros() / JITTER_PARTS;
    let more = random % most.max(1);
    pause + Duration::from_micros(u64::try_from(more).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_growing_pauses_lie_between_five_attempts() {
        let mut attempts = Attempts::default();
        let pauses: Vec<Option<Duration>> = (0..6).map(|_| attempts.next_pause()).collect();
        let pause = |micros| Some(Duration::from_micros(micros));
        let expected = [pause(500_000), pause(750_000), pause(1_125_000), pause(1_687_500), None, None];
        assert_eq!(pauses, expected);
    }

    #[test]
    fn chance_lengthens_a_pause_by_less_than_a_fifth() {
        let pause = Duration::from_millis(500);
        for random in [0, 1, 99_999, 100_000, u128::MAX] {
            let found = jittered(pause, random);
            assert!(found >= pause && found < pause * 6 / 5, "{found:?}");
        }
        assert_eq!(jittered(Duration::ZERO, 7), Duration::ZERO);
    }
}
