//! Ranges of sizes and costs. Sums and products saturate.

use super::tenths;

/// From `min` to `max`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Range {
    /// Nothing is known.
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    /// From `min` to `max`.
    pub const fn new(min: u64, max: u64) -> Range {
        Range { min, max }
    }

    /// One number.
    pub const fn exactly(number: u64) -> Range {
        Range { min: number, max: number }
    }

    pub(crate) fn plus(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(crate) fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(crate) fn or(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Both ends times `many` tenths, rounded up.
    pub(crate) fn tenths(self, many: u64) -> Range {
        Range { min: tenths(self.min, many), max: tenths(self.max, many) }
    }

    /// Both ends divided, rounded up.
    pub(crate) fn quarter(self) -> Range {
        Range { min: self.min.div_ceil(4), max: self.max.div_ceil(4) }
    }
}
