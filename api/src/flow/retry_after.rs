//! The `Retry-After` of refused clients.
//!
//! Owns the seconds of `Retry-After` for one level, as in the reference: they double while a level refuses at least three
//! requests for each of them, and fall by one with less than one. Queues come before refusals, so that three in a second
//! mean a level with too much work.

use std::collections::VecDeque;

/// Most seconds, as in the reference.
const SECONDS_MAX: u64 = 32;

/// Refusals in one second, for each second of the answer, from which on it doubles.
const REFUSALS_PER_SECOND: u64 = 3;

/// The refusals of a level.
#[derive(Debug)]
pub(super) struct RetryAfter {
    /// Refusals by second, oldest first. Holds what the next answer may depend on, `SECONDS_MAX` seconds at most.
    history: VecDeque<(u64, u64)>,
    /// The second that is being counted, and its refusals.
    current: (u64, u64),
    seconds: u64,
    /// When the seconds were doubled last, in seconds since 1970.
    raised: u64,
}

impl RetryAfter {
    pub(super) fn new() -> RetryAfter {
        RetryAfter { history: VecDeque::new(), current: (0, 0), seconds: 1, raised: 0 }
    }

    /// A request is refused at `now`, in seconds since 1970. Returns the seconds that it is told.
    pub(super) fn refuse(&mut self, now: u64) -> u32 {
        if self.current.0 == now {
            self.current.1 += 1;
        } else {
            self.history.push_back(self.current);
            self.current = (now, 1);
            self.adjust(now);
            // A clock that was set back leaves seconds that are to come.
            self.history.retain(|(second, _)| *second <= now && now - second <= SECONDS_MAX);
        }
        u32::try_from(self.seconds).unwrap_or(u32::MAX)
    }

    /// Adjusts the seconds by the refusals of the last ones, without those of this second.
    fn adjust(&mut self, now: u64) {
        let recent = |(second, _): &&(u64, u64)| *second < now && now - *second <= self.seconds;
        let refusals: u64 = self.history.iter().filter(recent).map(|(_, refusals)| refusals).sum();
        if now.abs_diff(self.raised) >= self.seconds && refusals >= REFUSALS_PER_SECOND * self.seconds {
            self.seconds = (self.seconds * 2).min(SECONDS_MAX);
            self.raised = now;
        } else if refusals < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_double_under_many_refusals_and_fall_one_by_one_without() {
        let mut retry = RetryAfter::new();
        let mut told = |now: u64, refusals: u64| {
            let mut seconds = 0;
            for _ in 0..refusals {
                seconds = retry.refuse(now);
            }
            seconds
        };
        assert_eq!(told(100, 50), 1, "of the first second nothing is known yet");
        assert_eq!(told(101, 50), 2);
        assert_eq!(told(102, 50), 2, "not twice for one spike");
        assert_eq!(told(103, 50), 4);
        assert_eq!(told(107, 1), 8, "the last second of the spike still counts");
        assert_eq!(told(117, 1), 7);
        for now in 118..250 {
            told(now, 1000);
        }
        assert_eq!(told(250, 1), 32, "the most");
        assert_eq!(told(251, 1), 32);
        let mut now = 252;
        let mut last = 32;
        while last > 1 {
            now += 40;
            let next = told(now, 1);
            assert_eq!(next, last - 1, "at {now}");
            last = next;
        }
        assert_eq!(told(now + 40, 1), 1, "the least");
    }

    #[test]
    fn a_clock_that_is_set_back_does_no_harm() {
        let mut retry = RetryAfter::new();
        for now in [1000, 1001, 500, 501, 1002] {
            assert!((1..=32).contains(&retry.refuse(now)));
        }
        assert!(retry.history.len() <= 5);
    }
}
