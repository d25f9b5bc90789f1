//! Times and durations.
//!
//! Owns `timestamp()` and `duration()` with their arithmetic and their parts. Durations are nanoseconds in 64 bits, times
//! lie in the years 1 to 9999; what leaves these ranges is a fault. Parts of a time are those in UTC, or in a zone.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime, UtcOffset};

use super::zones::in_zone;
use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// Nanoseconds of the units of durations, longer names first.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1000),
    ("\u{b5}s", 1000),
    ("\u{3bc}s", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Nanoseconds of a second.
const NANOSECONDS: i64 = 1_000_000_000;
/// Digits of a number that are read. No duration needs more in front of the point, none shows more behind it.
const DIGITS_MAX: usize = 18;

fn time_range() -> Failure {
    fault("timestamp overflow")
}

/// A duration that was computed.
pub(super) fn of_nanoseconds<'v>(nanoseconds: Option<i64>) -> Outcome<'v> {
    nanoseconds.map(Val::Duration).ok_or_else(|| fault("duration overflow"))
}

/// The time in UTC, if it lies in the years of the language.
fn in_range(time: OffsetDateTime) -> Option<OffsetDateTime> {
    let time = time.checked_to_offset(UtcOffset::UTC)?;
    Some(time).filter(|time| (1..=9999).contains(&time.year()))
}

fn of_time<'v>(time: Option<OffsetDateTime>) -> Outcome<'v> {
    time.and_then(in_range).map(Val::Timestamp).ok_or_else(time_range)
}

/// `time` and `length` nanoseconds.
pub(super) fn moved<'v>(time: OffsetDateTime, length: i64) -> Outcome<'v> {
    of_time(time.checked_add(Duration::nanoseconds(length)))
}

/// `time` without `length` nanoseconds.
pub(super) fn moved_back<'v>(time: OffsetDateTime, length: i64) -> Outcome<'v> {
    of_time(time.checked_sub(Duration::nanoseconds(length)))
}

/// The duration from `other` to `one`.
pub(super) fn between<'v>(one: OffsetDateTime, other: OffsetDateTime) -> Outcome<'v> {
    of_nanoseconds(i64::try_from((one - other).whole_nanoseconds()).ok())
}

/// A sign, and numbers with units: `-1h30m`, `1.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i128;
    while !rest.is_empty() {
        // once: each turn takes a number with its unit.
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        // few: the units.
        let (unit, nanoseconds) = UNITS.into_iter().find(|(unit, _)| behind.starts_with(unit))?;
        sum = sum.checked_add(scaled(number, nanoseconds)?)?;
        rest = &behind[unit.len()..];
    }
    i64::try_from(sum * sign).ok()
}

/// The decimal `number` times `unit`, rounded down.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > DIGITS_MAX {
        return None;
    }
    let digits = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = digits(fraction)?.checked_mul(unit)? / scale;
    digits(whole)?.checked_mul(unit)?.checked_add(part)
}

/// A time of RFC 3339 with capital letters and without leap seconds, in the years of the language.
pub(crate) fn parse_timestamp(text: &str) -> Option<OffsetDateTime> {
    parse_any_year(text).and_then(in_range)
}

/// The same in any year that has four digits.
fn parse_any_year(text: &str) -> Option<OffsetDateTime> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    // The library also reads small letters, and a leap second as the last nanosecond before it.
    let has_form = text.get(10..11) == Some("T") && text.get(17..19) != Some("60") && !text.ends_with('z');
    has_form.then_some(time)
}

pub(crate) fn duration<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Duration(nanoseconds)] | [Val::Int(nanoseconds)] => Ok(Val::Duration(*nanoseconds)),
        [Val::Text(text)] => {
            run.read_bytes(text.len())?;
            let parsed = parse_duration(text).map(Val::Duration);
            parsed.ok_or_else(|| fault("type conversion error from 'string' to 'google.protobuf.Duration'"))
        }
        _ => Err(no_overload()),
    }
}

pub(crate) fn timestamp<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Timestamp(time)] => Ok(Val::Timestamp(*time)),
        [Val::Int(seconds)] => of_time(OffsetDateTime::from_unix_timestamp(*seconds).ok()),
        [Val::Text(text)] => {
            run.read_bytes(text.len())?;
            match parse_any_year(text) {
                Some(time) => of_time(Some(time)),
                None => Err(fault("type conversion error from 'string' to 'google.protobuf.Timestamp'")),
            }
        }
        _ => Err(no_overload()),
    }
}

/// The text of a time.
pub(crate) fn text_of_timestamp(time: OffsetDateTime) -> Result<String, Failure> {
    time.format(&Rfc3339).map_err(|_| time_range())
}

/// Seconds with as many decimal places as the nearest double needs: the reference writes its durations as doubles.
#[expect(clippy::cast_precision_loss, reason = "the reference rounds")]
pub(crate) fn text_of_duration(nanoseconds: i64) -> String {
    let seconds =
        (nanoseconds / NANOSECONDS) as f64 + (nanoseconds % NANOSECONDS) as f64 / NANOSECONDS as f64;
    format!("{seconds}s")
}

/// A part of a time.
fn part<'v>(arguments: &[Val<'v>], of: fn(OffsetDateTime) -> i64) -> Outcome<'v> {
    let time = match arguments {
        [Val::Timestamp(time)] => *time,
        [Val::Timestamp(time), Val::Text(zone)] => in_zone(*time, zone)?,
        _ => return Err(no_overload()),
    };
    Ok(Val::Int(of(time)))
}

/// A part of a time, or a duration in `unit` nanoseconds.
fn part_or_length<'v>(arguments: &[Val<'v>], of: fn(OffsetDateTime) -> i64, unit: i64) -> Outcome<'v> {
    match arguments {
        [Val::Duration(nanoseconds)] => Ok(Val::Int(nanoseconds / unit)),
        _ => part(arguments, of),
    }
}

pub(crate) fn full_year<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |time| i64::from(time.year()))
}

pub(crate) fn month<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |time| i64::from(u8::from(time.month())) - 1)
}

pub(crate) fn day_of_year<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |time| i64::from(time.ordinal()) - 1)
}

pub(crate) fn day_of_month<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |time| i64::from(time.day()) - 1)
}

pub(crate) fn date<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |time| i64::from(time.day()))
}

pub(crate) fn day_of_week<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(arguments, |time| i64::from(time.weekday().number_days_from_sunday()))
}

pub(crate) fn hours<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part_or_length(arguments, |time| i64::from(time.hour()), 3_600_000_000_000)
}

pub(crate) fn minutes<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part_or_length(arguments, |time| i64::from(time.minute()), 60_000_000_000)
}

pub(crate) fn seconds<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part_or_length(arguments, |time| i64::from(time.second()), 1_000_000_000)
}

/// Milliseconds: of a time those of its second, of a duration all.
pub(crate) fn milliseconds<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part_or_length(arguments, |time| i64::from(time.millisecond()), 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_form_of_the_reference() {
        assert!(parse_timestamp("2024-01-01T00:00:00.5-14:00").is_some());
        for text in [
            "2024-01-01t00:00:00Z",
            "2024-01-01T00:00:00z",
            "2024-01-01T23:59:60Z",
            "2024-01-01T24:00:00Z",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_doubles() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (-1_500_000_000, "-1.5s"),
            (1, "0.000000001s"),
            (93_600_250_000_000, "93600.25s"),
            // The double has no room for the last digits.
            (i64::MAX, "9223372036.854776s"),
        ] {
            assert_eq!(text_of_duration(nanoseconds), text);
        }
    }
}
