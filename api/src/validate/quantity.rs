//! Resource quantities as numbers: `100m`, `1Gi`, `2e9`.
//!
//! Owns comparing and adding quantities. Their canonical text is the codec's; here a quantity is a number of
//! nano-units, which is the finest a quantity can say. Values past the range saturate.

use std::fmt;

const NANO: i128 = 1_000_000_000;
/// Past this many digits a number saturates anyway, so the rest is not read.
const DIGITS_MAX: usize = 40;

/// A quantity in nano-units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity(0);

    /// The number that `text` stands for; `None` when it is no quantity.
    pub fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let magnitude = scaled(whole, fraction, Scale::parse(suffix)?);
        Some(Quantity(if negative { magnitude.saturating_neg() } else { magnitude }))
    }

    /// The number of whole units.
    pub fn from_units(units: i64) -> Quantity {
        Quantity(i128::from(units).saturating_mul(NANO))
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

    /// The number of milli-units, rounded up; `None` past 64 bits.
    pub fn milli(self) -> Option<i64> {
        i64::try_from(round_up(self.0, NANO / 1000)).ok()
    }

    /// The number of units, rounded up; `None` past 64 bits.
    pub fn units(self) -> Option<i64> {
        i64::try_from(round_up(self.0, NANO)).ok()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, suffix) = [(NANO, ""), (NANO / 1000, "m"), (1000, "u")]
            .into_iter()
            .find(|(unit, _)| self.0 % unit == 0)
            .map_or((self.0, "n"), |(unit, suffix)| (self.0 / unit, suffix));
        write!(f, "{number}{suffix}")
    }
}

enum Scale {
    Decimal(i32),
    Binary(u32),
}

impl Scale {
    fn parse(suffix: &str) -> Option<Scale> {
        Some(match suffix {
            "n" => Scale::Decimal(-9),
            "u" => Scale::Decimal(-6),
            "m" => Scale::Decimal(-3),
            "" => Scale::Decimal(0),
            "k" => Scale::Decimal(3),
            "M" => Scale::Decimal(6),
            "G" => Scale::Decimal(9),
            "T" => Scale::Decimal(12),
            "P" => Scale::Decimal(15),
            "E" => Scale::Decimal(18),
            "Ki" => Scale::Binary(10),
            "Mi" => Scale::Binary(20),
            "Gi" => Scale::Binary(30),
            "Ti" => Scale::Binary(40),
            "Pi" => Scale::Binary(50),
            "Ei" => Scale::Binary(60),
            exponent => {
                let exponent = exponent.strip_prefix(['e', 'E'])?;
                Scale::Decimal(exponent.parse().ok()?)
            }
        })
    }
}

// whole.fraction at the scale, in nano-units, rounded up.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let mut mantissa: i128 = 0;
    let digits = whole.bytes().chain(fraction.bytes().take(DIGITS_MAX));
    for digit in digits {
        mantissa = mantissa.saturating_mul(10).saturating_add(i128::from(digit.saturating_sub(b'0')));
    }
    let decimals = i32::try_from(fraction.len().min(DIGITS_MAX)).unwrap_or(i32::MAX);
    let (exponent, factor) = match scale {
        Scale::Decimal(exponent) => (exponent.saturating_add(9), 1),
        Scale::Binary(bits) => (9, 1_i128 << bits),
    };
    let exponent = exponent.saturating_sub(decimals);
    let mantissa = mantissa.saturating_mul(factor);
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    match (exponent < 0, power) {
        (false, Some(power)) => mantissa.saturating_mul(power),
        (false, None) if mantissa == 0 => 0,
        (false, None) => i128::MAX,
        (true, Some(power)) => round_up(mantissa, power),
        (true, None) => i128::from(mantissa > 0),
    }
}

fn round_up(value: i128, unit: i128) -> i128 {
    value / unit + i128::from(value > 0 && value % unit != 0)
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
            assert_eq!(Quantity::parse(text).and_then(Quantity::units), None, "{text}");
        }
        assert_eq!(Quantity::parse("0e999"), Some(Quantity::ZERO));
        assert_eq!(Quantity::parse("1e-999").map(|q| q.to_string()).as_deref(), Some("1n"));
    }

    #[test]
    fn rounding_and_text() {
        let parse = |text| Quantity::parse(text).unwrap_or_default();
        assert_eq!(parse("1500m").units(), Some(2));
        assert_eq!(parse("0.0001").milli(), Some(1));
        assert!(parse("2").is_whole() && !parse("2500m").is_whole());
        assert_eq!(parse("1500m").plus(parse("500m")).to_string(), "2");
        assert_eq!(parse("1500m").to_string(), "1500m");
    }
}
