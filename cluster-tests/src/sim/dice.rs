//! Seeded chance: one stream for each concern, all derived from the run's seed.
//!
//! Separate streams keep one concern's draws from shifting another's, so that a changed client workload still meets the
//! same faults. The simulation has no other source of randomness.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A stream of random numbers. Clones share it.
#[derive(Clone, Debug)]
pub struct Dice(Arc<Mutex<StdRng>>);

impl Dice {
    /// The stream of `concern` under `seed`.
    pub fn new(seed: u64, concern: &str) -> Self {
        // FNV-1a: spreads the name over the seed; quality comes from the generator.
        let mixed = concern.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Dice(Arc::new(Mutex::new(StdRng::seed_from_u64(mixed))))
    }

    /// A number in `range`.
    pub fn number(&self, range: Range<u64>) -> u64 {
        self.0.lock().random_range(range)
    }

    /// A random index of a list of `len` items. Panics if `len` is 0.
    pub fn index(&self, len: usize) -> usize {
        self.0.lock().random_range(0..len)
    }

    /// `true` with a probability of `percent` in a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.number(0..100) < percent
    }

    /// A random duration between two, in steps of a microsecond.
    pub fn duration(&self, from: Duration, to: Duration) -> Duration {
        let (from, to) = (from.as_micros(), to.as_micros());
        let micros = if from < to { self.0.lock().random_range(from..to) } else { from };
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// A random duration, `range` in milliseconds.
    pub fn millis(&self, range: Range<u64>) -> Duration {
        self.duration(Duration::from_millis(range.start), Duration::from_millis(range.end))
    }

    /// One of `choices`, in proportion to its weight. At least one weight is above zero.
    pub fn weighted<T: Copy>(&self, choices: &[(T, u64)]) -> T {
        let total: u64 = choices.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.number(0..total.max(1));
        for (choice, weight) in choices {
            if drawn < *weight {
                return *choice;
            }
            drawn -= weight;
        }
        choices[0].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_by_seed_and_differ_by_concern() {
        let draw = |seed, concern| {
            let dice = Dice::new(seed, concern);
            (0..8).map(|_| dice.number(0..1 << 40)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, "disk"), draw(7, "disk"));
        assert_ne!(draw(7, "disk"), draw(7, "net"));
        assert_ne!(draw(7, "disk"), draw(8, "disk"));
    }

    #[test]
    fn weights_of_zero_are_never_chosen() {
        let dice = Dice::new(1, "w");
        assert!((0..200).all(|_| dice.weighted(&[('a', 0), ('b', 3), ('c', 0)]) == 'b'));
    }
}
