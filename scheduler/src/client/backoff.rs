//! Pauses between attempts that fail: doubling, bounded, and spread at random.
//!
//! Owns the arithmetic. The random number is an argument, so that tests choose it.

use std::time::Duration;

use rand::Rng;

use crate::ambient;

/// Pauses that double from `first` to `last`. A success starts anew.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        assert!(
            first <= last && !first.is_zero(),
            "the first pause is not zero, and not longer than the last"
        );
        Self { first, last, next: first }
    }

    /// The next pause: between one and two times its size, by `random` from 0 to 1, so that many clients whose server
    /// went away do not come back at once.
    pub(crate) fn pause(&mut self, random: f64) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.last);
        pause.mul_f64(1.0 + random.clamp(0.0, 1.0))
    }

    /// The next pause, spread by the process's own randomness.
    pub(crate) fn random_pause(&mut self) -> Duration {
        self.pause(ambient::rng().random())
    }

    /// Starts anew after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_last_and_start_anew_after_a_success() {
        let millis = Duration::from_millis;
        let mut backoff = Backoff::new(millis(100), millis(350));
        let pauses: Vec<_> = [0.0, 0.0, 1.0, 0.5].map(|random| backoff.pause(random)).into();
        assert_eq!(pauses, [millis(100), millis(200), millis(700), millis(525)]);
        backoff.reset();
        assert_eq!(backoff.pause(0.0), millis(100));
    }
}
