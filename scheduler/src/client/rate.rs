//! A limit of requests per second: a token bucket.
//!
//! Owns the arithmetic, with time as an argument, and the wait at its rim. A caller reserves a place and waits for it,
//! so that places are given in the order of asking.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::config::{BURST_DEFAULT, QPS_DEFAULT};

/// Tokens that fill at a rate up to a burst. Reserving more than there are goes into debt, which the wait pays.
#[derive(Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    // Invariant: tokens <= burst. Negative: that many callers wait.
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `qps` a second; `None` for no limit (negative `qps`).
    pub fn new(qps: f32, burst: u32, now: Instant) -> Option<Self> {
        if qps < 0.0 {
            return None;
        }
        let per_second = f64::from(if qps == 0.0 { QPS_DEFAULT } else { qps });
        let burst = f64::from(if burst == 0 { BURST_DEFAULT } else { burst });
        Some(Self { per_second, burst, state: Mutex::new(State { tokens: burst, filled: now }) })
    }

    /// Takes a token at `now` and returns how long to wait before it may be used.
    pub fn reserve(&self, now: Instant) -> Duration {
        let mut state = self.state.lock();
        let gained = now.saturating_duration_since(state.filled).as_secs_f64() * self.per_second;
        state.tokens = (state.tokens + gained).min(self.burst) - 1.0;
        state.filled = state.filled.max(now);
        if state.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-state.tokens / self.per_second).unwrap_or(Duration::MAX)
    }

    /// Waits for a token.
    pub(super) async fn take(&self) {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let bucket = TokenBucket::new(10.0, 3, start).unwrap();
        let waits: Vec<_> = (0..5).map(|_| bucket.reserve(start)).collect();
        assert_eq!(waits[..3], [Duration::ZERO; 3]);
        assert_eq!(waits[3..], [Duration::from_millis(100), Duration::from_millis(200)]);
        assert_eq!(bucket.reserve(start + Duration::from_millis(300)), Duration::ZERO);
        let rested = start + Duration::from_secs(60);
        let waits: Vec<_> = (0..4).map(|_| bucket.reserve(rested)).collect();
        assert_eq!(waits[..3], [Duration::ZERO; 3]);
        assert!(waits[3] > Duration::ZERO, "a long rest does not fill above the burst");
    }

    #[test]
    fn a_negative_rate_is_no_limit_and_zero_the_default() {
        let now = Instant::now();
        assert!(TokenBucket::new(-1.0, 0, now).is_none());
        let bucket = TokenBucket::new(0.0, 0, now).unwrap();
        assert!((0..BURST_DEFAULT).all(|_| bucket.reserve(now).is_zero()));
        assert_eq!(bucket.reserve(now), Duration::from_millis(20));
    }

    #[test]
    fn a_clock_that_steps_back_gives_no_tokens() {
        let now = Instant::now() + Duration::from_secs(10);
        let bucket = TokenBucket::new(1.0, 1, now).unwrap();
        assert!(bucket.reserve(now).is_zero());
        assert_eq!(bucket.reserve(now - Duration::from_secs(5)), Duration::from_secs(1));
        assert_eq!(bucket.reserve(now), Duration::from_secs(2));
    }
}
