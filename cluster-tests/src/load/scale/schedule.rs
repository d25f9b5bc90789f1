//! Times of what a kubelet repeats: its lease and its status, each at a time of its own.

use std::time::{Duration, Instant};

use rand::Rng;

/// Part of the period by which a renewal of a lease comes later at most, as with kubelets.
pub(super) const LEASE_LATER: f64 = 0.04;

/// Part of the period by which a status comes earlier or later at most, as with kubelets.
pub(super) const STATUS_AROUND: f64 = 0.5;

/// Jitter of a period.
#[derive(Debug, Clone, Copy)]
pub(super) enum Jitter {
    /// The period, or up to this part of it longer.
    Later(f64),
    /// Up to this part of the period shorter or longer.
    Around(f64),
}

/// Repeated times. The first is anywhere in the first period: kubelets started at other times.
#[derive(Debug)]
pub(super) struct Schedule {
    period: Duration,
    jitter: Jitter,
    next: Instant,
}

impl Schedule {
    /// A schedule from `now` on.
    pub(super) fn new(period: Duration, jitter: Jitter, now: Instant, random: &mut impl Rng) -> Self {
        Self { period, jitter, next: now + period.mul_f64(random.random_range(0.0..1.0)) }
    }

    /// The next time. The one after that counts from it, or from `now` where that is later: what was missed is not made up
    /// for.
    pub(super) fn next(&mut self, now: Instant, random: &mut impl Rng) -> Instant {
        let due = self.next;
        let part = match self.jitter {
            Jitter::Later(most) => 1.0 + random.random_range(0.0..=most),
            Jitter::Around(most) => 1.0 + random.random_range(-most..=most),
        };
        self.next = due.max(now) + self.period.mul_f64(part);
        due
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    /// The times of a schedule whose holder is always in time.
    fn times(jitter: Jitter, seed: u64, count: usize) -> (Instant, Vec<Instant>) {
        let (mut random, began) = (StdRng::seed_from_u64(seed), Instant::now());
        let mut schedule = Schedule::new(Duration::from_secs(10), jitter, began, &mut random);
        let mut now = began;
        let times = (0..count).map(|_| {
            now = schedule.next(now, &mut random);
            now
        });
        (began, times.collect())
    }

    fn check(jitter: Jitter, low: f64, high: f64) {
        let mut firsts = Vec::new();
        for seed in 0..50 {
            let (began, times) = times(jitter, seed, 100);
            firsts.push((times[0] - began).as_secs_f64());
            let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
            assert!(gaps.iter().all(|gap| (low - 1e-6..=high + 1e-6).contains(gap)), "{gaps:?}");
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            assert!((mean - (low + high) / 2.0).abs() < (high - low) / 5.0, "{mean}");
        }
        assert!(firsts.iter().all(|first| (0.0..10.0).contains(first)));
        let early = firsts.iter().filter(|first| **first < 5.0).count();
        assert!((10..=40).contains(&early), "the first times are spread over the period: {firsts:?}");
    }

    #[test]
    fn leases_come_later_and_statuses_around_their_period() {
        check(Jitter::Later(LEASE_LATER), 10.0, 10.4);
        check(Jitter::Around(STATUS_AROUND), 5.0, 15.0);
    }

    #[test]
    fn missed_times_are_not_made_up_for() {
        let (mut random, began) = (StdRng::seed_from_u64(7), Instant::now());
        let period = Duration::from_secs(10);
        let mut schedule = Schedule::new(period, Jitter::Later(0.0), began, &mut random);
        let late = began + period * 100;
        schedule.next(late, &mut random);
        assert_eq!(schedule.next(late, &mut random), late + period);
    }
}
