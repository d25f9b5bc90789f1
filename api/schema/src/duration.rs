//! Durations as the reference writes them: `15s`, `1h30m`, `250ms`, `-5s`.
//!
//! Owns the only parser of this form in the workspace, and its canonical text. The range of a flag or field is the caller's:
//! a negative duration parses. Errors hold no text of their own, because callers quote a client's text in different ways.

use std::fmt;
use std::time::Duration;

const NANOSECONDS: i128 = 1;
const MICROSECONDS: i128 = 1_000;
const MILLISECONDS: i128 = 1_000_000;
const SECONDS: i128 = 1_000_000_000;

/// Digits of a fraction that are counted: 1e-18 h is below a nanosecond.
const FRACTION_DIGITS_MAX: usize = 18;

/// A signed duration of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignedDuration(i64);

/// The fault of a text that is no duration, by the cases that the reference tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationFault<'t> {
    /// It has no number where one belongs.
    Syntax,
    /// A number has no unit.
    MissingUnit,
    /// This is no unit.
    UnknownUnit(&'t str),
    /// It does not fit 63 bits of nanoseconds, which are 292 years. The reference words this as a fault of syntax.
    Range,
}

impl DurationFault<'_> {
    /// The reference's message about `text`, whose parts `quote` makes showable.
    pub fn message(self, text: &str, quote: impl Fn(&str) -> String) -> String {
        match self {
            DurationFault::Syntax | DurationFault::Range => format!("time: invalid duration {}", quote(text)),
            DurationFault::MissingUnit => format!("time: missing unit in duration {}", quote(text)),
            DurationFault::UnknownUnit(unit) => {
                format!("time: unknown unit {} in duration {}", quote(unit), quote(text))
            }
        }
    }
}

impl SignedDuration {
    /// A duration of whole seconds.
    pub const fn from_secs(seconds: u32) -> SignedDuration {
        SignedDuration(seconds as i64 * 1_000_000_000)
    }

    /// Parses a sign, and decimal numbers with units `ns`, `us`, `ms`, `s`, `m`, `h`. Only zero needs no unit.
    ///
    /// # Errors
    /// The first fault of `text`, from left to right.
    pub fn parse(text: &str) -> Result<SignedDuration, DurationFault<'_>> {
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(SignedDuration(0));
        }
        if rest.is_empty() {
            return Err(DurationFault::Syntax);
        }
        let is_negative = text.starts_with('-');
        let limit = i128::from(i64::MAX) + i128::from(is_negative);
        let mut total = 0_i128;
        while !rest.is_empty() {
            let (part, behind) = part(rest)?;
            total = total.checked_add(part).filter(|total| *total <= limit).ok_or(DurationFault::Range)?;
            rest = behind;
        }
        let signed = if is_negative { -total } else { total };
        i64::try_from(signed).map(SignedDuration).map_err(|_| DurationFault::Range)
    }

    /// Whether it is longer than nothing.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Nanoseconds, negative for a duration into the past.
    pub fn nanoseconds(self) -> i64 {
        self.0
    }

    /// The duration without its sign; a negative one counts as none.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

/// The nanoseconds of the number and unit at the start of `text`, and the rest.
fn part(text: &str) -> Result<(i128, &str), DurationFault<'_>> {
    let (whole, behind) = split_digits(text);
    let (fraction, behind) = behind.strip_prefix('.').map_or(("", behind), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationFault::Syntax);
    }
    let whole = amount(whole).filter(|whole| *whole <= 1 << 63).ok_or(DurationFault::Range)?;
    let unit_end = behind.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(behind.len());
    let (unit, rest) = behind.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationFault::MissingUnit);
    }
    let scale = scale_of(unit).ok_or(DurationFault::UnknownUnit(unit))?;
    // More digits are below a nanosecond.
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let places = fraction.bytes().fold(1_i128, |places, _| places * 10);
    let below = amount(fraction).unwrap_or(0) * scale / places;
    Ok((whole * scale + below, rest))
}

/// The digits at the start of `text`, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len()))
}

/// The number that `digits` write, 0 for none; `None` beyond 127 bits.
fn amount(digits: &str) -> Option<i128> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Nanoseconds of a unit. Two letters look alike: the micro sign and the Greek letter.
fn scale_of(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => NANOSECONDS,
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECONDS,
        "ms" => MILLISECONDS,
        "s" => SECONDS,
        "m" => 60 * SECONDS,
        "h" => 3600 * SECONDS,
        _ => return None,
    })
}

impl fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanoseconds = i128::from(self.0).abs();
        if nanoseconds == 0 {
            return f.write_str("0s");
        }
        if nanoseconds < SECONDS {
            let (unit, scale) = if nanoseconds < MICROSECONDS {
                ("ns", NANOSECONDS)
            } else if nanoseconds < MILLISECONDS {
                ("\u{b5}s", MICROSECONDS)
            } else {
                ("ms", MILLISECONDS)
            };
            return write!(f, "{sign}{}{unit}", decimal(nanoseconds, scale));
        }
        let seconds = nanoseconds / SECONDS;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        f.write_str(sign)?;
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(nanoseconds % (60 * SECONDS), SECONDS))
    }
}

/// `amount / scale` as a decimal number without trailing zeros. `scale` is a power of ten.
fn decimal(amount: i128, scale: i128) -> String {
    let (whole, rest) = (amount / scale, amount % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let places = scale.to_string().len() - 1;
    let fraction = format!("{rest:0places$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_alike() {
        for (text, nanoseconds, written) in [
            ("15s", 15_000_000_000_i64, "15s"),
            ("5m", 300_000_000_000, "5m0s"),
            ("10m0s", 600_000_000_000, "10m0s"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("250ms", 250_000_000, "250ms"),
            ("1500us", 1_500_000, "1.5ms"),
            ("12ns", 12, "12ns"),
            ("-5s", -5_000_000_000, "-5s"),
            ("0", 0, "0s"),
            ("+1s", 1_000_000_000, "1s"),
            (".5m", 30_000_000_000, "30s"),
            ("1.0000000000000000001s", 1_000_000_000, "1s"),
            ("3\u{3bc}s", 3_000, "3\u{b5}s"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let parsed = SignedDuration::parse(text).unwrap();
            assert_eq!((parsed.nanoseconds(), parsed.to_string().as_str()), (nanoseconds, written), "{text}");
            assert_eq!(SignedDuration::parse(written), Ok(parsed));
        }
    }

    #[test]
    fn each_fault_has_the_message_of_the_reference() {
        let (syntax, unit) = (DurationFault::Syntax, DurationFault::MissingUnit);
        for (text, fault, message) in [
            ("15", unit, "time: missing unit in duration \"15\""),
            ("1.5.2h", unit, "time: missing unit in duration \"1.5.2h\""),
            ("", syntax, "time: invalid duration \"\""),
            ("-", syntax, "time: invalid duration \"-\""),
            ("s", syntax, "time: invalid duration \"s\""),
            ("5x", DurationFault::UnknownUnit("x"), "time: unknown unit \"x\" in duration \"5x\""),
            (
                "9223372036854775808ns",
                DurationFault::Range,
                "time: invalid duration \"9223372036854775808ns\"",
            ),
            ("99999999999h", DurationFault::Range, "time: invalid duration \"99999999999h\""),
            ("99999999999999999999", DurationFault::Range, "time: invalid duration \"99999999999999999999\""),
        ] {
            let found = SignedDuration::parse(text).unwrap_err();
            assert_eq!(found, fault, "{text}");
            assert_eq!(found.message(text, |text| format!("{text:?}")), message);
        }
    }
}
