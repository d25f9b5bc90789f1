//! A limit on the batches that a sink stores a second.

use std::time::{Duration, Instant};

/// Batches a second, and at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Batches a second; positive.
    pub rate: f64,
    /// Batches at once after a pause; at least 1.
    pub burst: u32,
}

/// A bucket of tokens, one a batch.
#[derive(Debug)]
pub(super) struct Pacer {
    throttle: Throttle,
    tokens: f64,
    seen: Instant,
}

impl Pacer {
    /// A full bucket.
    pub(super) fn new(throttle: Throttle, now: Instant) -> Pacer {
        Pacer { throttle, tokens: f64::from(throttle.burst), seen: now }
    }

    /// Takes a token. Returns how long the batch has to wait for it.
    pub(super) fn delay(&mut self, now: Instant) -> Duration {
        let Throttle { rate, burst } = self.throttle;
        let gained = now.saturating_duration_since(self.seen).as_secs_f64() * rate;
        self.tokens = (self.tokens + gained).min(f64::from(burst)) - 1.0;
        self.seen = now;
        Duration::try_from_secs_f64((-self.tokens).max(0.0) / rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_frequent_as_the_rate_and_the_burst_allow() {
        let start = Instant::now();
        let mut pacer = Pacer::new(Throttle { rate: 10.0, burst: 2 }, start);
        let mut at = |millis| pacer.delay(start + Duration::from_millis(millis)).as_millis();
        assert_eq!([at(0), at(0), at(0), at(0)], [0, 0, 100, 200]);
        assert_eq!([at(10_000), at(10_000), at(10_000)], [0, 0, 100], "a pause fills no more than the burst");
    }
}
