//! The pause of an extender that kept the scheduling thread waiting and failed.
//!
//! Owns that span alone. Pods that no extender sees wait for the same thread: an extender that hangs takes a fifth of it at most,
//! or a third where its time limit is long.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A failure that took less keeps nobody waiting.
const SLOW_MIN: Duration = Duration::from_secs(1);
/// The pause in times of the failed call.
const FACTOR: u32 = 4;
/// Longest span: an extender that was mended is asked again within a minute.
const SPAN_MAX: Duration = Duration::from_secs(60);

/// The end of the span, if there is one.
#[derive(Debug, Default)]
pub(super) struct Silence(Mutex<Option<Instant>>);

impl Silence {
    /// Whether the extender is left alone at `now`.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|end| now < end)
    }

    /// Notes that a call failed at `now`, after `took`.
    pub(super) fn failed(&self, took: Duration, now: Instant) {
        if took >= SLOW_MIN {
            *self.0.lock() = Some(now + (took * FACTOR).min(SPAN_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extender_that_hangs_takes_a_fifth_of_the_thread() {
        let (silence, start) = (Silence::default(), Instant::now());
        assert!(!silence.lasts(start));
        silence.failed(SLOW_MIN / 2, start);
        assert!(!silence.lasts(start), "a failure that was told at once");
        let call = Duration::from_secs(5);
        let (mut now, mut waited) = (start, Duration::ZERO);
        // A pod that it sees is planned each second.
        while now < start + Duration::from_secs(1000) {
            if silence.lasts(now) {
                now += Duration::from_secs(1);
                continue;
            }
            (now, waited) = (now + call, waited + call);
            silence.failed(call, now);
        }
        assert!(waited <= Duration::from_secs(205), "{waited:?}");
        silence.failed(Duration::from_secs(600), now);
        assert!(silence.lasts(now + SPAN_MAX / 2) && !silence.lasts(now + SPAN_MAX));
    }
}
