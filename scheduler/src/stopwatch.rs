//! A stopwatch for metrics: the only clock that pure code may read.
//!
//! Owns the only way in which planner, queue and executor see time pass while they work: a function that the rim gives
//! them. Its durations go into metrics and decide nothing, so that the cores stay deterministic. Without a function
//! nothing is measured, and measuring costs one comparison.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures durations. Clones share the clock.
#[derive(Clone, Default)]
pub struct Stopwatch(Option<Arc<dyn Fn() -> Duration + Send + Sync>>);

/// A moment from which a duration is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started(Duration);

impl Stopwatch {
    /// Measures by the clock of the system.
    #[expect(clippy::disallowed_methods, reason = "the rim's clock of the cores; it decides nothing")]
    pub fn system() -> Stopwatch {
        let origin = Instant::now();
        Stopwatch::new(move || origin.elapsed())
    }

    /// Measures by `clock`, the time since any fixed moment.
    pub fn new(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Stopwatch {
        Stopwatch(Some(Arc::new(clock)))
    }

    /// Whether anything is measured.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The present moment; `None` where nothing is measured.
    pub fn start(&self) -> Option<Started> {
        self.0.as_ref().map(|clock| Started(clock()))
    }

    /// The time since `started`; `None` where nothing is measured.
    pub fn since(&self, started: Option<Started>) -> Option<Duration> {
        let (clock, Started(started)) = (self.0.as_ref()?, started?);
        Some(clock().saturating_sub(started))
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopwatch").field(&self.is_on()).finish()
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A stopwatch whose clock goes on by a millisecond with each look at it.
    pub(crate) fn ticking() -> Stopwatch {
        let ticks = AtomicU64::default();
        Stopwatch::new(move || Duration::from_millis(ticks.fetch_add(1, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_the_difference_of_two_looks_at_the_clock() {
        let watch = testing::ticking();
        let started = watch.start();
        assert_eq!(watch.since(started), Some(Duration::from_millis(1)));
        assert_eq!(watch.since(started), Some(Duration::from_millis(2)));
    }

    #[test]
    fn without_a_clock_nothing_is_measured() {
        let watch = Stopwatch::default();
        assert!(!watch.is_on());
        assert_eq!((watch.start(), watch.since(testing::ticking().start())), (None, None));
    }
}
