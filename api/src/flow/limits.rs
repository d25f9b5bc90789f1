//! The division of all seats among the priority levels.
//!
//! Owns the arithmetic of shares, lending and borrowing; it reads no clock. Each level has a nominal limit by its shares.
//! It lends what it does not need, down to its lower limit, and borrows up to its upper limit. Every ten seconds the
//! current limits follow the demand: each level keeps what it needs of its own seats, and the rest is divided in
//! proportion to the demand.

/// Weight of the past in the smoothed demand, of each adjustment: half of a peak is forgotten in five minutes.
const SMOOTHING: f64 = 0.977;

/// Steps of the bisection that finds the common proportion: more than a double has bits.
const BISECTIONS: usize = 60;

/// The seats of a level, as its configuration states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Its share among all levels.
    pub nominal: u32,
    /// Percent of the nominal limit that others may borrow.
    pub lendable_percent: u32,
    /// Percent of the nominal limit that it may borrow; `None`: as much as there is.
    pub borrowing_limit_percent: Option<u32>,
    /// It has no limit, and only lends.
    pub is_exempt: bool,
}

/// The bounds of a level's current limit, in seats.
///
/// Invariant: `lower <= nominal <= upper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub nominal: u32,
    pub lower: u32,
    pub upper: u32,
}

/// The bounds of levels with these shares of `total` seats, in the same order.
pub(super) fn bounds(total: u32, shares: &[Shares]) -> Vec<Bounds> {
    let sum: u64 = shares.iter().map(|shares| u64::from(shares.nominal)).sum();
    let of = |shares: &Shares| {
        let nominal = (u64::from(total) * u64::from(shares.nominal)).div_ceil(sum.max(1));
        let nominal = u32::try_from(nominal).unwrap_or(total);
        let lower = nominal - percent(nominal, shares.lendable_percent.min(100));
        let borrowing = shares.borrowing_limit_percent.map_or(total, |limit| percent(nominal, limit));
        Bounds { nominal, lower, upper: nominal.saturating_add(borrowing) }
    };
    shares.iter().map(of).collect()
}

/// `percent` percent of `seats`, rounded.
fn percent(seats: u32, percent: u32) -> u32 {
    u32::try_from((u64::from(seats) * u64::from(percent) + 50) / 100).unwrap_or(u32::MAX)
}

/// A level's demand, as [`divide`] divides by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub bounds: Bounds,
    /// The highest demand of the last period.
    pub high: f64,
    /// The smoothed demand.
    pub smoothed: f64,
    pub is_exempt: bool,
}

/// The smoothed demand after a period: a rise counts at once, a fall slowly.
pub(super) fn smooth(before: f64, mean: f64, deviation: f64) -> f64 {
    let envelope = mean + deviation;
    envelope.max(SMOOTHING * before + (1.0 - SMOOTHING) * envelope)
}

/// The division of all seats.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Division {
    /// The current limit of each level.
    pub limits: Vec<u32>,
    /// The part of its target that a level gets which neither its lower nor its upper limit decides.
    pub proportion: f64,
}

/// The division among levels with these demands, in the same order. The sum of the limits is about `total`, more where
/// the lower limits are.
pub(super) fn divide(total: u32, wanted: &[Wanted]) -> Division {
    let least = |level: &Wanted| match level.is_exempt {
        // Exempt requests are not held back. What they use is not there for others.
        true => f64::from(level.bounds.lower).max(level.smoothed),
        false => f64::from(level.bounds.lower).max(level.high.min(f64::from(level.bounds.nominal))),
    };
    let target = |level: &Wanted| least(level).max(level.smoothed);
    let at = |level: &Wanted, proportion: f64| match level.is_exempt {
        true => least(level),
        false => (proportion * target(level)).max(least(level)).min(f64::from(level.bounds.upper)),
    };
    let sum = |proportion: f64| wanted.iter().map(|level| at(level, proportion)).sum::<f64>();
    let total = f64::from(total);
    let (mut low, mut high) = (0.0, total);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if sum(middle) > total { high = middle } else { low = middle }
    }
    // A level that lends all it has keeps a seat, so that its next request does not wait for the next division.
    let limit = |level: &Wanted| seats(at(level, low)).max(u32::from(!level.is_exempt));
    Division { limits: wanted.iter().map(limit).collect(), proportion: low }
}

/// A number of seats, rounded up.
fn seats(number: f64) -> u32 {
    // Bisection may end a hair above a whole number.
    let number = (number - 1e-6).ceil().clamp(0.0, f64::from(u32::MAX));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the type's range"
    )]
    {
        number as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(nominal: u32, lendable_percent: u32) -> Shares {
        Shares { nominal, lendable_percent, borrowing_limit_percent: None, is_exempt: false }
    }

    #[test]
    fn the_suggested_levels_divide_the_seats_as_the_reference_documents() {
        let suggested = [(10, 0), (40, 25), (30, 33), (40, 50), (100, 90), (20, 50), (5, 0)];
        let shares: Vec<_> = suggested.iter().map(|(shares, lendable)| limited(*shares, *lendable)).collect();
        let bounds = bounds(600, &shares);
        let nominal: Vec<_> = bounds.iter().map(|bounds| bounds.nominal).collect();
        assert_eq!(nominal, [25, 98, 74, 98, 245, 49, 13]);
        let lower: Vec<_> = bounds.iter().map(|bounds| bounds.lower).collect();
        assert_eq!(lower, [25, 73, 50, 49, 24, 24, 13]);
        let some = Shares { borrowing_limit_percent: Some(10), ..limited(1, 0) };
        assert_eq!(super::bounds(100, &[some])[0].upper, 110);
    }

    #[test]
    fn idle_levels_lend_to_busy_ones() {
        let bounds = bounds(100, &[limited(1, 50), limited(1, 50)]);
        let wanted =
            |bounds: Bounds, demand: f64| Wanted { bounds, high: demand, smoothed: demand, is_exempt: false };
        for (demands, expected) in [
            ([0.0, 0.0], [50, 50]),
            ([200.0, 0.0], [75, 25]),
            ([200.0, 200.0], [50, 50]),
            ([200.0, 40.0], [60, 40]),
            ([10.0, 10.0], [50, 50]),
        ] {
            let wanted: Vec<_> = bounds.iter().zip(demands).map(|(b, d)| wanted(*b, d)).collect();
            assert_eq!(divide(100, &wanted).limits, expected, "{demands:?}");
        }
    }

    #[test]
    fn a_level_gets_no_less_than_its_lower_and_no_more_than_its_upper_limit() {
        let shares = [Shares { borrowing_limit_percent: Some(20), ..limited(1, 0) }, limited(1, 100)];
        let bounds = bounds(100, &shares);
        let busy = Wanted { bounds: bounds[0], high: 500.0, smoothed: 500.0, is_exempt: false };
        let idle = Wanted { bounds: bounds[1], high: 0.0, smoothed: 0.0, is_exempt: false };
        assert_eq!(divide(100, &[busy, idle]).limits[0], 60);
        let swamped = Wanted { bounds: bounds[0], high: 0.0, smoothed: 0.0, is_exempt: false };
        let other = Wanted { bounds: bounds[1], high: 900.0, smoothed: 900.0, is_exempt: false };
        assert_eq!(divide(100, &[swamped, other]).limits, [50, 50]);
    }

    #[test]
    fn a_rise_counts_at_once_and_a_fall_slowly() {
        assert!((smooth(10.0, 50.0, 5.0) - 55.0).abs() < 1e-9);
        let fallen = smooth(100.0, 0.0, 0.0);
        assert!((97.0..98.0).contains(&fallen), "{fallen}");
    }
}
