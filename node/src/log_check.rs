//! The check `log` of health: whether lines of the log can be written.
//!
//! Owns an attempt to get hold of the log's output, made when a probe asks and none is under way. A thread that writes a
//! line holds the output; where its reader has stopped reading, it holds it for ever, and every request that logs waits
//! behind it. A restart mends that, so that the check is one of liveness.
//!
//! Invariant: at most one attempt is under way, however many probes ask.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// An attempt that takes longer fails the check: the reference's bound.
const BLOCKED_AFTER: Duration = Duration::from_secs(120);

/// The check.
pub struct LogCheck {
    /// Start of the attempt under way.
    begun: Arc<Mutex<Option<Instant>>>,
    flush: Arc<dyn Fn() + Send + Sync>,
}

impl LogCheck {
    /// The check of the standard error, where the log goes.
    pub fn of_stderr() -> LogCheck {
        LogCheck::of(|| {
            // Where it is closed no line blocks.
            let _ = std::io::stderr().lock().flush();
        })
    }

    fn of(flush: impl Fn() + Send + Sync + 'static) -> LogCheck {
        LogCheck { begun: Arc::default(), flush: Arc::new(flush) }
    }

    /// Whether lines can be written, as far as is known at `now`. Called on a thread of a runtime.
    pub fn passes(&self, now: Instant) -> bool {
        let mut begun = self.begun.lock();
        if let Some(begun) = *begun {
            return now.saturating_duration_since(begun) < BLOCKED_AFTER;
        }
        *begun = Some(now);
        let (under_way, flush) = (self.begun.clone(), self.flush.clone());
        tokio::task::spawn_blocking(move || {
            flush();
            *under_way.lock() = None;
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_log_that_takes_no_line_for_minutes_fails_and_recovers() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let held = Arc::new(Mutex::new(()));
        let writer = held.lock();
        let (counted, output) = (attempts.clone(), held.clone());
        let check = LogCheck::of(move || {
            drop(output.lock());
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let start = Instant::now();
        assert!(check.passes(start), "nothing is known yet");
        assert!(check.passes(start + BLOCKED_AFTER / 2));
        assert!(!check.passes(start + BLOCKED_AFTER));
        drop(writer);
        while attempts.load(Ordering::Relaxed) == 0 || check.begun.lock().is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(attempts.load(Ordering::Relaxed), 1, "one attempt for all probes");
        assert!(check.passes(start + BLOCKED_AFTER));
    }
}
