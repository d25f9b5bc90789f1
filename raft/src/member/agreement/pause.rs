//! The pause between attempts to take another member's state.
//!
//! Owns how many rounds of the comparison are left out after failures. It knows no clock: rounds are counted.

use std::sync::atomic::{AtomicU32, Ordering};

/// Longest pause between two attempts, in rounds of the comparison: a minute. Each failure doubles the pause, because an
/// attempt makes each member asked read its state.
const ROUNDS_BETWEEN_MAX: u32 = 30;

/// Failures in a row before the pause grows: a connection broke, or a member had just started.
const FAILURES_AT_ONCE: u32 = 2;

/// The pause after failed attempts, counted in rounds of the comparison.
#[derive(Debug, Default)]
pub(super) struct Pause {
    failures: AtomicU32,
    rounds_left: AtomicU32,
}

impl Pause {
    /// Counts a round; `true` while the pause lasts.
    pub(super) fn is_on(&self) -> bool {
        let counted =
            self.rounds_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        counted.is_ok()
    }

    pub(super) fn lengthen(&self) {
        let failures = self.failures.fetch_add(1, Ordering::AcqRel);
        let doublings = failures.saturating_sub(FAILURES_AT_ONCE);
        let rounds = 1u32.checked_shl(doublings).unwrap_or(ROUNDS_BETWEEN_MAX).min(ROUNDS_BETWEEN_MAX);
        self.rounds_left.store(rounds - 1, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.failures.store(0, Ordering::Release);
        self.rounds_left.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_and_never_cease() {
        let pause = Pause::default();
        let left_out = || {
            pause.lengthen();
            std::iter::repeat_with(|| pause.is_on()).take_while(|is_on| *is_on).count()
        };
        let all: Vec<usize> = (0..40).map(|_| left_out()).collect();
        assert_eq!(all[..9], [0, 0, 0, 1, 3, 7, 15, 29, 29]);
        assert_eq!(all[39], 29);
        pause.end();
        assert!(!pause.is_on());
    }
}
