//! The demand for a level's seats over a period: mean, spread and peak.

/// Seats wanted over time: in use and waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    micros: f64,
    sum: f64,
    sum_of_squares: f64,
    high: u32,
    now: u32,
}

impl Demand {
    /// `seats` were wanted for `micros`.
    pub(super) fn add(&mut self, micros: u64, seats: u32) {
        #[expect(clippy::cast_precision_loss, reason = "a minute of microseconds is exact")]
        let micros = micros as f64;
        let wanted = f64::from(seats);
        self.micros += micros;
        self.sum += wanted * micros;
        self.sum_of_squares += wanted * wanted * micros;
        self.high = self.high.max(seats);
        self.now = seats;
    }

    /// The demand so far. The next period begins with what is wanted now.
    pub(super) fn take(&mut self) -> Demand {
        let next = Demand { high: self.now, now: self.now, ..Demand::default() };
        std::mem::replace(self, next)
    }

    /// The most that was wanted.
    pub(super) fn high(&self) -> f64 {
        f64::from(self.high)
    }

    /// The mean over time.
    pub(super) fn mean(&self) -> f64 {
        if self.micros > 0.0 { self.sum / self.micros } else { f64::from(self.now) }
    }

    /// The standard deviation over time.
    pub(super) fn deviation(&self) -> f64 {
        if self.micros == 0.0 {
            return 0.0;
        }
        let mean = self.mean();
        (self.sum_of_squares / self.micros - mean * mean).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_spread_and_peak_are_over_time() {
        let mut demand = Demand::default();
        demand.add(3, 2);
        demand.add(1, 6);
        let taken = demand.take();
        assert_eq!((taken.mean(), taken.high()), (3.0, 6.0));
        assert!((taken.deviation() - 3.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!((demand.mean(), demand.high(), demand.deviation()), (6.0, 6.0, 0.0), "what is wanted now");
    }
}
