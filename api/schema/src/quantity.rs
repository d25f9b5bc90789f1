//! Resource quantities: `0.5` is `500m`, `1024Mi` is `1Gi`.
//!
//! Owns parsing, canonical text, comparison and addition of quantities. A quantity is at most 2^63 - 1 units and no
//! finer than a nano-unit: larger ones are cut, finer ones are rounded away from zero, as the reference does. Sums
//! saturate.

mod amount;

use std::fmt;

pub use amount::Amount;

/// The reason why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is empty, or has other characters than quantities.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Form,
    /// The suffix has the characters of one, and there is none like it.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
/// A thousandth of a unit, in nano-units.
const MILLI: i128 = NANO / 1000;
/// The largest quantity, in units.
const UNITS_MAX: i128 = i64::MAX as i128;
/// Digits that are read of a binary quantity: the largest has 19 before the point, and twenty digits times 2^60 still
/// fit in 128 bits.
const DIGITS_MAX: usize = 20;
/// Digits that are read of a decimal quantity: those of the largest, and nine for nano-units.
const DECIMAL_DIGITS_MAX: usize = 29;

/// A quantity in nano-units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity(0);

    /// Parses `text`; `None` when it is no quantity.
    pub fn parse(text: &str) -> Option<Quantity> {
        text.parse().ok()
    }

    /// Whether the quantity is below zero.
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether the quantity is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether the quantity is a whole number of units.
    pub fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    /// The sum, saturating.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_add(other.0))
    }

    /// The difference, saturating.
    #[must_use]
    pub fn minus(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_sub(other.0))
    }

    /// A whole number of units.
    pub fn of_units(units: i64) -> Quantity {
        Quantity(i128::from(units) * NANO)
    }

    /// The least number of `step`s that reaches the quantity from `start`, added to `start`; the quantity itself where the
    /// step is not above zero.
    #[must_use]
    pub fn rounded_up_from(self, start: Quantity, step: Quantity) -> Quantity {
        if step.0 <= 0 {
            return self;
        }
        let over = self.0.saturating_sub(start.0);
        let rest = over.rem_euclid(step.0);
        if rest == 0 { self } else { Quantity(self.0.saturating_add(step.0 - rest)) }
    }

    /// How often `other` fits into the quantity; not a number where both are zero.
    pub fn ratio_to(self, other: Quantity) -> f64 {
        self.0 as f64 / other.0 as f64
    }

    /// The number of units, rounded up; `None` past 64 bits.
    pub fn units(self) -> Option<i64> {
        self.in_parts_of(NANO)
    }

    /// The number of thousandths of a unit, rounded up; `None` past 64 bits.
    pub fn milli_units(self) -> Option<i64> {
        self.in_parts_of(MILLI)
    }

    fn in_parts_of(self, nano: i128) -> Option<i64> {
        let rounded_up = self.0 / nano + i128::from(self.0 > 0 && self.0 % nano != 0);
        i64::try_from(rounded_up).ok()
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        nano_units(text).map(Quantity)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, suffix) = [(NANO, ""), (MILLI, "m"), (1000, "u")]
            .into_iter()
            // few: the units.
            .find(|(unit, _)| self.0 % unit == 0)
            .map_or((self.0, "n"), |(unit, suffix)| (self.0 / unit, suffix));
        write!(f, "{number}{suffix}")
    }
}

/// The unit that a suffix stands for, and the form of the canonical text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Power of ten, written with a letter.
    Decimal(i32),
    /// Power of ten, written as exponent.
    Exponent(i32),
    /// Power of two, written with two letters.
    Binary(u32),
}

/// The canonical text of the quantity `text`.
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    let (magnitude, scale) = parse(text)?;
    let mut out = String::new();
    if magnitude != 0 && text.starts_with('-') {
        out.push('-');
    }
    write(magnitude, scale, &mut out);
    Ok(out)
}

/// The canonical text of an amount that is finer than a thousandth of a unit, rounded away from zero to thousandths in
/// the form in which it is written; `None` where `text`, which is canonical, needs no rounding.
pub fn in_thousandths(text: &str) -> Option<String> {
    // Canonical text finer than a thousandth ends in `n` or `u`, or has a negative exponent.
    if !text.ends_with(['n', 'u']) && !text.contains("e-") {
        return None;
    }
    let (magnitude, scale) = parse(text).ok()?;
    let rounded = (magnitude + MILLI - 1) / MILLI * MILLI;
    if rounded == magnitude {
        return None;
    }
    let mut out = String::new();
    if text.starts_with('-') {
        out.push('-');
    }
    write(rounded, scale, &mut out);
    Some(out)
}

/// The quantity `text` in nano-units, within 2^63 - 1 units.
fn nano_units(text: &str) -> Result<i128, QuantityError> {
    let (magnitude, _) = parse(text)?;
    Ok(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// The magnitude of the quantity `text` in nano-units, and the scale in which it was written.
fn parse(text: &str) -> Result<(i128, Scale), QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Form);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits_end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    // The reference reads a number without a digit as zero.
    let (whole, rest) = unsigned.split_at(digits_end(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits_end(rest)),
        None => ("", rest),
    };
    let scale = scale(suffix)?;
    Ok((magnitude(whole, fraction, scale), scale))
}

/// The scale in which the quantity `text` is written.
fn scale_of(text: &str) -> Result<Scale, QuantityError> {
    parse(text).map(|(_, scale)| scale)
}

fn scale(suffix: &str) -> Result<Scale, QuantityError> {
    Ok(match suffix {
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
        _ => {
            let error = if has_form(suffix) { QuantityError::Suffix } else { QuantityError::Form };
            let digits = suffix.strip_prefix(['e', 'E']).ok_or(error)?;
            let exponent: i32 = digits.parse().map_err(|_| error)?;
            // Beyond these exponents the quantity is cut or rounded anyway, and the sums below stay far from overflow.
            Scale::Exponent(exponent.clamp(-1_000_000, 1_000_000))
        }
    })
}

/// Whether a suffix is letters of suffixes, a sign and digits, each of which may be missing.
fn has_form(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The magnitude in nano-units, rounded up and cut.
fn magnitude(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let whole = whole.trim_start_matches('0');
    let (power_of_ten, shift, digits_max) = match scale {
        Scale::Decimal(power) | Scale::Exponent(power) => (power, 0, DECIMAL_DIGITS_MAX),
        Scale::Binary(shift) => (0, shift, DIGITS_MAX),
    };
    // The point stands behind this many digits.
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX / 2) + i64::from(power_of_ten);
    let mut digits = whole.bytes().chain(fraction.bytes()).peekable();
    let mut leading_zeros = 0;
    if whole.is_empty() {
        while digits.next_if_eq(&b'0').is_some() {
            leading_zeros += 1;
        }
    }
    if digits.peek().is_none() {
        return 0;
    }
    let point = point - leading_zeros;
    if point > 20 {
        return UNITS_MAX * NANO;
    }
    if point < -30 {
        return 1;
    }
    let mut mantissa: i128 = 0;
    let mut read = 0;
    for digit in digits.by_ref().take(digits_max) {
        mantissa = mantissa * 10 + i128::from(digit - b'0');
        read += 1;
    }
    // once: what is left of the text.
    let is_cut_short = digits.any(|digit| digit != b'0');
    scaled(mantissa << shift, point - read, is_cut_short)
}

/// `mantissa` times ten to the `power`, in nano-units.
fn scaled(mantissa: i128, power: i64, is_cut_short: bool) -> i128 {
    let limit = UNITS_MAX * NANO;
    let ten_to = |power: i64| 10i128.checked_pow(u32::try_from(power).unwrap_or(u32::MAX));
    let power = power + 9;
    if power >= 0 {
        let product = ten_to(power).and_then(|factor| mantissa.checked_mul(factor));
        return product.map_or(limit, |product| product.min(limit));
    }
    let Some(divisor) = ten_to(-power) else { return 1 };
    let inexact = is_cut_short || mantissa % divisor != 0;
    (mantissa / divisor + i128::from(inexact)).min(limit)
}

fn write(nano: i128, scale: Scale, out: &mut String) {
    use std::fmt::Write as _;
    let mut result = Ok(());
    match scale {
        _ if nano == 0 => out.push('0'),
        Scale::Binary(_) if nano >= 1024 * NANO && nano % NANO == 0 => {
            let (number, thousands) = divided(nano / NANO, 1024);
            result = write!(out, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][thousands.min(6)]);
        }
        Scale::Exponent(_) => {
            let (number, power) = thousands(nano);
            result = if power == 0 { write!(out, "{number}") } else { write!(out, "{number}e{power}") };
        }
        Scale::Binary(_) | Scale::Decimal(_) => {
            let (number, power) = thousands(nano);
            let suffix = match power {
                -9 => "n",
                -6 => "u",
                -3 => "m",
                3 => "k",
                6 => "M",
                9 => "G",
                12 => "T",
                15 => "P",
                18 => "E",
                _ => "",
            };
            result = write!(out, "{number}{suffix}");
        }
    }
    result.expect("writing to a string does not fail");
}

/// The shortest integer and the power of ten, a multiple of three, that make up `nano` nano-units.
fn thousands(nano: i128) -> (i128, i32) {
    let (number, steps) = divided(nano, 1000);
    (number, i32::try_from(steps).unwrap_or(0) * 3 - 9)
}

/// `number` divided by `base` as often as it divides evenly, and how often that was.
fn divided(mut number: i128, base: i128) -> (i128, usize) {
    let mut times = 0;
    while number % base == 0 {
        number /= base;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_rewritten_as_the_reference_does() {
        for (given, wanted) in [
            ("0", "0"),
            ("0.0", "0"),
            ("-0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2e9", "2e9"),
            ("2E9", "2e9"),
            ("1000", "1k"),
            ("1073741824", "1073741824"),
            ("100000", "100k"),
            ("0.1Gi", "107374182400m"),
            ("1Ki", "1Ki"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1.25", "1250m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("-1.5", "-1500m"),
            ("8E", "8E"),
            ("10E", "9223372036854775807"),
            ("16Ei", "9223372036854775807"),
            ("1e3", "1e3"),
            ("1e2", "100"),
            ("100e1", "1e3"),
            ("12e-4", "1200e-6"),
            (".5", "500m"),
            ("5.", "5"),
            ("1e400", "9223372036854775807"),
            ("1e-400", "1e-9"),
            ("4Ti", "4Ti"),
            ("1025Ki", "1025Ki"),
            ("-1Gi", "-1Gi"),
        ] {
            assert_eq!(canonical(given).as_deref(), Ok(wanted), "{given}");
        }
    }

    #[test]
    fn text_that_is_no_quantity_is_refused() {
        for given in ["", "1.2.3", "abc", "1 Gi", "1e5.0", "1KiB", "+-1x"] {
            assert_eq!(canonical(given), Err(QuantityError::Form), "{given}");
        }
        for given in ["1ki", "1KI", "1e", "1e+", "1mm", "1e99999999999", "--1", "+-1", "E5k"] {
            let is_form = given == "1KI" || given == "E5k";
            let error = if is_form { QuantityError::Form } else { QuantityError::Suffix };
            assert_eq!(canonical(given), Err(error), "{given}");
        }
    }

    /// The reference's parser takes nothing before a suffix for zero.
    #[test]
    fn a_number_without_a_digit_is_zero() {
        for given in ["-", ".", "Gi", "e3", "-m", "+.k"] {
            assert_eq!(canonical(given).as_deref(), Ok("0"), "{given}");
        }
    }

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
    fn text_that_is_no_quantity_has_no_value() {
        for text in ["", "abc", "1x", "1.2.3", "1e", "1 Gi", "1ee3", "+-1", "1KiB"] {
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

    #[test]
    fn quantities_are_taken_from_each_other_and_rounded_to_steps() {
        let of = |text| Quantity::parse(text).unwrap();
        assert_eq!(of("1").minus(of("250m")), of("750m"));
        assert_eq!(of("1").minus(of("2")), of("-1"));
        assert_eq!(Quantity::of_units(-3), of("-3"));
        for (value, start, step, expected) in [
            ("7", "1", "3", "7"),
            ("8", "1", "3", "10"),
            ("1", "1", "3", "1"),
            ("1500m", "1", "1", "2"),
            ("5", "1", "0", "5"),
        ] {
            assert_eq!(
                of(value).rounded_up_from(of(start), of(step)),
                of(expected),
                "{value} from {start} by {step}"
            );
        }
    }
}
