//! Resource quantities as numbers: `100m`, `1Gi`, `2e9`.
//!
//! Owns comparing and adding quantities. Reading them and their canonical text are the codec's; here a quantity is a
//! number of nano-units, which is the finest a quantity can say. Sums saturate.

use std::fmt;

use crate::schema::quantity;

const NANO: i128 = 1_000_000_000;

/// A quantity in nano-units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity(0);

    /// The number that `text` stands for; `None` when it is no quantity.
    pub fn parse(text: &str) -> Option<Quantity> {
        quantity::nano_units(text).ok().map(Quantity)
    }

    /// Below zero.
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// A whole number of units.
    pub fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_add(other.0))
    }

    /// The number of units, rounded up; `None` past 64 bits.
    pub fn units(self) -> Option<i64> {
        let rounded_up = self.0 / NANO + i128::from(self.0 > 0 && self.0 % NANO != 0);
        i64::try_from(rounded_up).ok()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, suffix) = [(NANO, ""), (NANO / 1000, "m"), (1000, "u")]
            .into_iter()
            // few: the units.
            .find(|(unit, _)| self.0 % unit == 0)
            .map_or((self.0, "n"), |(unit, suffix)| (self.0 / unit, suffix));
        write!(f, "{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_value() {
        for (a, b) in [
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2e9", "2G"),
            ("1", "+1.000"),
            ("1E3", "1k"),
            ("-1", "-1000m"),
            ("0.0000000001", "1n"),
            (".5", "500m"),
        ] {
            assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
            assert!(Quantity::parse(a).is_some());
        }
        assert!(Quantity::parse("1Ki") > Quantity::parse("1k"));
    }

    #[test]
    fn what_is_no_quantity() {
        for text in ["", "-", "abc", "1x", "1.2.3", "1e", "1 Gi", "Gi", ".", "1ee3", "+-1", "1KiB"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn huge_numbers_saturate() {
        let many = "9".repeat(5000);
        for text in [many.as_str(), "9e999999999", "99999999999999999999Ei"] {
            assert_eq!(Quantity::parse(text).unwrap().units(), Some(i64::MAX), "{text}");
        }
        assert_eq!(Quantity::parse("0e999"), Some(Quantity::ZERO));
        assert_eq!(Quantity::parse("1e-999").map(|q| q.to_string()).as_deref(), Some("1n"));
    }

    #[test]
    fn rounding_and_text() {
        let parse = |text| Quantity::parse(text).unwrap_or_default();
        assert_eq!(parse("1500m").units(), Some(2));
        assert_eq!(parse("0.0001").units(), Some(1));
        assert!(parse("2").is_whole() && !parse("2500m").is_whole());
        assert_eq!(parse("1500m").plus(parse("500m")).to_string(), "2");
        assert_eq!(parse("1500m").to_string(), "1500m");
    }
}
