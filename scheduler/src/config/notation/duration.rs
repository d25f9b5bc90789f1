//! Durations in the reference's form: `15s`, `1h30m`, `250ms`, `-5s`.

use std::fmt;
use std::time::Duration;

use super::{Reason, quote};

const NANOSECONDS: i128 = 1;
const MICROSECONDS: i128 = 1_000;
const MILLISECONDS: i128 = 1_000_000;
const SECONDS: i128 = 1_000_000_000;

/// A signed duration of nanoseconds. Negative ones can be written and are refused where they make no sense, by the rule
/// of the flag or field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// A span of whole seconds.
    pub const fn from_secs(seconds: u32) -> Span {
        Span(seconds as i64 * 1_000_000_000)
    }

    /// Whether it is longer than nothing.
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Nanoseconds, negative for a span into the past.
    pub fn nanoseconds(self) -> i64 {
        self.0
    }

    /// The span as a duration; a negative one counts as none.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Parses a sequence of decimal numbers with units `ns`, `us`, `ms`, `s`, `m`, `h`.
    pub fn parse(text: &str) -> Result<Span, Reason> {
        let invalid = || Reason::new(format!("time: invalid duration {}", quote(text)));
        let (is_negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Span(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_i128;
        while !rest.is_empty() {
            let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
            let number = &rest[..digits];
            if number.is_empty() || number == "." || number.matches('.').count() > 1 {
                return Err(invalid());
            }
            rest = &rest[digits..];
            let end = rest.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(rest.len());
            let unit = &rest[..end];
            if unit.is_empty() {
                return Err(Reason::new(format!("time: missing unit in duration {}", quote(text))));
            }
            let scale = scale_of(unit).ok_or_else(|| {
                Reason::new(format!("time: unknown unit {} in duration {}", quote(unit), quote(text)))
            })?;
            total = scaled(number, scale).and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
            rest = &rest[end..];
        }
        let signed = if is_negative { -total } else { total };
        i64::try_from(signed).map(Span).map_err(|_| invalid())
    }
}

/// `number` units of `scale` nanoseconds; digits below a nanosecond are dropped.
fn scaled(number: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(15)];
    let mut total = whole.checked_mul(scale)?;
    if !fraction.is_empty() {
        let parts: i128 = fraction.parse().ok()?;
        let places = u32::try_from(fraction.len()).ok()?;
        total += parts * scale / 10_i128.pow(places);
    }
    Some(total)
}

fn scale_of(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => NANOSECONDS,
        "us" | "µs" | "μs" => MICROSECONDS,
        "ms" => MILLISECONDS,
        "s" => SECONDS,
        "m" => 60 * SECONDS,
        "h" => 3600 * SECONDS,
        _ => return None,
    })
}

impl fmt::Display for Span {
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
                ("µs", MICROSECONDS)
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
