//! Times and durations.
//!
//! Owns `timestamp()` and `duration()` with their arithmetic and their parts. Durations are nanoseconds in 64 bits, times
//! lie in the years 1 to 9999 of UTC; what leaves these ranges is a fault. A time keeps the offset that its text has, and is written
//! with it. Parts of a time are those in UTC, or in a zone.

use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

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

/// A duration that was computed. The reference's words for one out of range are those for integers.
pub(super) fn of_nanoseconds<'v>(nanoseconds: Option<i64>) -> Outcome<'v> {
    nanoseconds.map(Val::Duration).ok_or_else(|| fault("integer overflow"))
}

/// The time, if it lies in the years of the language.
fn in_range(time: OffsetDateTime) -> Option<OffsetDateTime> {
    let in_utc = time.checked_to_offset(UtcOffset::UTC)?;
    (1..=9999).contains(&in_utc.year()).then_some(time)
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
    let back = length.checked_neg().ok_or_else(|| fault("integer overflow"))?;
    moved(time, back)
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

/// A time of RFC 3339 in the years of the language, as the reference reads it: with capital letters and without leap seconds, but with
/// hours of one digit and a comma before the fraction.
pub(crate) fn parse_timestamp(text: &str) -> Option<OffsetDateTime> {
    parse_any_year(text).and_then(in_range)
}

/// The same in any year that has four digits.
fn parse_any_year(text: &str) -> Option<OffsetDateTime> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    let month = digits(after(&mut rest, '-')?, 2)?;
    let day = digits(after(&mut rest, '-')?, 2)?;
    let hours = after(&mut rest, 'T')?;
    let has_two = hours.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let hour = digits(hours, if has_two { 2 } else { 1 })?;
    let minute = digits(after(&mut rest, ':')?, 2)?;
    let second = digits(after(&mut rest, ':')?, 2)?;
    let nanosecond = fraction(&mut rest)?;
    let offset = offset(rest)?;
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    let part = |part: u32| u8::try_from(part).ok();
    let clock = Time::from_hms_nano(part(hour)?, part(minute)?, part(second)?, nanosecond).ok()?;
    Some(PrimitiveDateTime::new(date, clock).assume_offset(offset))
}

/// The number of the first `many` digits of `rest`, which it loses.
fn digits(rest: &mut &str, many: usize) -> Option<u32> {
    let number = rest.get(..many).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    *rest = &rest[many..];
    number.parse().ok()
}

/// `rest` behind the sign that it begins with.
fn after<'r, 't>(rest: &'r mut &'t str, sign: char) -> Option<&'r mut &'t str> {
    *rest = rest.strip_prefix(sign)?;
    Some(rest)
}

/// The nanoseconds of a fraction, if `rest` begins with one. Digits behind the ninth have no meaning.
fn fraction(rest: &mut &str) -> Option<u32> {
    let Some(behind) = rest.strip_prefix(['.', ',']) else { return Some(0) };
    let many = behind.bytes().take_while(u8::is_ascii_digit).count();
    *rest = behind.get(many..).filter(|_| many > 0)?;
    format!("{:0<9}", &behind[..many.min(9)]).parse().ok()
}

/// `Z`, or hours and minutes: at most 24 and 60, as in the reference.
fn offset(text: &str) -> Option<UtcOffset> {
    let (sign, mut rest) = match text.split_at_checked(1)? {
        ("Z", "") => return Some(UtcOffset::UTC),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let hours = digits(&mut rest, 2).filter(|hours| *hours <= 24)?;
    let minutes = digits(after(&mut rest, ':')?, 2).filter(|minutes| *minutes <= 60)?;
    let seconds = i32::try_from(hours * 3600 + minutes * 60).ok().filter(|_| rest.is_empty())?;
    UtcOffset::from_whole_seconds(sign * seconds).ok()
}

/// The time so many seconds after 1970, in the years of the language.
pub(crate) fn of_seconds(seconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds).ok().and_then(in_range)
}

pub(crate) fn duration<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Duration(nanoseconds)] => Ok(Val::Duration(*nanoseconds)),
        // The reference declares this conversion, and has none.
        [Val::Int(_)] => Err(fault("type conversion error from 'int' to 'google.protobuf.Duration'")),
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
        [Val::Int(seconds)] => of_time(of_seconds(*seconds)),
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
        [Val::Timestamp(time)] => time.checked_to_offset(UtcOffset::UTC).ok_or_else(time_range)?,
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
        for (text, written) in [
            ("2024-01-01T00:00:00.5-14:00", "2024-01-01T00:00:00.5-14:00"),
            ("2024-01-01T1:00:00,25Z", "2024-01-01T01:00:00.25Z"),
            ("2024-01-01T01:00:00.1234567891+00:00", "2024-01-01T01:00:00.123456789Z"),
            ("2024-01-01T01:00:00+05:60", "2024-01-01T01:00:00+06:00"),
        ] {
            let time = parse_timestamp(text).map(|time| text_of_timestamp(time).unwrap());
            assert_eq!(time.as_deref(), Some(written), "{text}");
        }
        for text in [
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+25:00",
            "2024-01-01T00:00:00+0500",
            "2024-01-01T0:0:00Z",
            "2024-1-01T00:00:00Z",
            "2024-01-01T00:00:00Zz",
            "é",
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
