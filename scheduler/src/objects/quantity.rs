//! Quantities as integers: milli-units of CPU, units of everything else, rounded up as the reference does.
//!
//! Owns what becomes of a text that is no quantity: it counts as zero, since the API server stores none; and of what
//! does not fit 64 bits: it counts as the most that does.

use orch_schema::quantity::Quantity;

/// Thousandths of a unit, rounded up. Saturates.
pub fn milli(text: &str) -> i64 {
    parsed(text).milli_units().unwrap_or(i64::MAX)
}

/// Whole units, rounded up. Saturates.
pub fn units(text: &str) -> i64 {
    parsed(text).units().unwrap_or(i64::MAX)
}

fn parsed(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{milli, units};

    #[test]
    fn quantities_become_integers_rounded_up() {
        for (text, in_milli, in_units) in [
            ("1", 1000, 1),
            ("500m", 500, 1),
            ("1.5", 1500, 2),
            ("0.0001", 1, 1),
            ("2Gi", 2_147_483_648_000, 2_147_483_648),
            ("128974848", 128_974_848_000, 128_974_848),
            ("129e6", 129_000_000_000, 129_000_000),
            ("129M", 129_000_000_000, 129_000_000),
            ("1E", i64::MAX, 1_000_000_000_000_000_000),
            ("9223372036854775808", i64::MAX, i64::MAX),
            ("1u", 1, 1),
            ("5e-1", 500, 1),
            ("-1", -1000, -1),
            ("0", 0, 0),
            ("x", 0, 0),
            ("1.2.3", 0, 0),
        ] {
            assert_eq!(milli(text), in_milli, "{text} in milli-units");
            assert_eq!(units(text), in_units, "{text} in units");
        }
    }
}
