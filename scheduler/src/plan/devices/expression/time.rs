//! Times and durations as values of expressions.
//!
//! Owns `timestamp()` and `duration()` with their arithmetic and their parts. Durations are nanoseconds in 64 bits, times
//! lie in the years 1 to 9999; what leaves these ranges is an error. Parts of a time are those in UTC, or at an offset
//! such as `-08:00`; names of time zones are not known here.

use std::any::Any;
use std::cmp::Ordering;

use ::time::format_description::well_known::Rfc3339;
use ::time::{Duration, OffsetDateTime, UtcOffset};
use cel::common::traits::{Adder, Comparer, Subtractor};
use cel::common::types::{CelInt, CelString, Kind, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

const DURATION_NAME: &str = "google.protobuf.Duration";
const TIMESTAMP_NAME: &str = "google.protobuf.Timestamp";
static DURATION: Type = Type::simple_type(Kind::Opaque, DURATION_NAME);
static TIMESTAMP: Type = Type::simple_type(Kind::Opaque, TIMESTAMP_NAME);

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
/// Digits of a number that are read. No duration needs more in front of the point, none shows more behind it.
const DIGITS_MAX: usize = 18;

/// A duration, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CelDuration(i64);

/// A time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CelTimestamp(OffsetDateTime);

macro_rules! value {
    ($name:ident, $type:ident) => {
        impl Val for $name {
            fn get_type(&self) -> &Type {
                &$type
            }

            fn cel_type() -> &'static Type {
                &$type
            }

            fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn as_comparer(&self) -> Option<&dyn Comparer> {
                Some(self)
            }

            fn as_subtractor<'b, 'v>(&'b self) -> Option<&'b (dyn Subtractor + 'v)>
            where
                Self: 'v,
            {
                Some(self)
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<$name>() == Some(self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(*self)
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}

        impl Comparer for $name {
            fn compare(&self, right: &dyn Val) -> Result<Ordering, ExecutionError> {
                let other = right.downcast_ref::<$name>();
                other.map(|other| self.cmp(other)).ok_or_else(|| no_overload("compare", self, right))
            }
        }
    };
}

value!(CelDuration, DURATION);
value!(CelTimestamp, TIMESTAMP);

fn no_overload(operator: &str, one: &dyn Val, other: &dyn Val) -> ExecutionError {
    let types = [one, other].into_iter().map(|value| value.get_type().name().to_owned());
    ExecutionError::no_such_overload(operator, types.collect())
}

fn range() -> ExecutionError {
    ExecutionError::function_error("time", "result out of range")
}

impl CelDuration {
    fn length(self) -> Duration {
        Duration::nanoseconds(self.0)
    }

    fn of(length: Duration) -> Result<CelDuration, ExecutionError> {
        i64::try_from(length.whole_nanoseconds()).map(CelDuration).map_err(|_| range())
    }
}

impl CelTimestamp {
    fn of(time: Option<OffsetDateTime>) -> Result<CelTimestamp, ExecutionError> {
        let time = time.map(|time| time.to_offset(UtcOffset::UTC));
        time.filter(|time| (1..=9999).contains(&time.year())).map(CelTimestamp).ok_or_else(range)
    }
}

impl Adder for CelDuration {
    fn add<'b, 'v>(&'b self, right: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(other) = right.downcast_ref::<CelDuration>() {
            return Ok(CowVal::owned(CelDuration(self.0.checked_add(other.0).ok_or_else(range)?)));
        }
        let time = right.downcast_ref::<CelTimestamp>();
        let time = time.ok_or_else(|| no_overload("_+_", self, right))?;
        Ok(CowVal::owned(CelTimestamp::of(time.0.checked_add(self.length()))?))
    }
}

impl Subtractor for CelDuration {
    fn sub<'b, 'v>(&'b self, right: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let other = right.downcast_ref::<CelDuration>();
        let other = other.ok_or_else(|| no_overload("_-_", self, right))?;
        Ok(CowVal::owned(CelDuration(self.0.checked_sub(other.0).ok_or_else(range)?)))
    }
}

impl Adder for CelTimestamp {
    fn add<'b, 'v>(&'b self, right: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let length = right.downcast_ref::<CelDuration>();
        let length = length.ok_or_else(|| no_overload("_+_", self, right))?;
        Ok(CowVal::owned(CelTimestamp::of(self.0.checked_add(length.length()))?))
    }
}

impl Subtractor for CelTimestamp {
    fn sub<'b, 'v>(&'b self, right: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(other) = right.downcast_ref::<CelTimestamp>() {
            return Ok(CowVal::owned(CelDuration::of(self.0 - other.0)?));
        }
        let length = right.downcast_ref::<CelDuration>();
        let length = length.ok_or_else(|| no_overload("_-_", self, right))?;
        Ok(CowVal::owned(CelTimestamp::of(self.0.checked_sub(length.length()))?))
    }
}

/// Adds `timestamp()`, `duration()`, their texts and numbers, and the parts of times.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn duration: (CelString) -> Result<CelDuration>)?;
    cel::add_overload!(env, fn same_duration: (CelDuration) -> CelDuration, name = "duration")?;
    cel::add_overload!(env, fn timestamp: (CelString) -> Result<CelTimestamp>)?;
    cel::add_overload!(env, fn timestamp_of_seconds: (CelInt) -> Result<CelTimestamp>, name = "timestamp")?;
    cel::add_overload!(env, fn same_timestamp: (CelTimestamp) -> CelTimestamp, name = "timestamp")?;
    cel::add_overload!(env, fn seconds_of_timestamp: (CelTimestamp) -> CelInt, name = "int")?;
    cel::add_overload!(env, fn text_of_timestamp: (CelTimestamp) -> Result<CelString>, name = "string")?;
    cel::add_overload!(env, fn text_of_duration: (CelDuration) -> CelString, name = "string")?;
    cel::add_member_overload!(env, fn hours: (CelDuration) -> CelInt, name = "getHours")?;
    cel::add_member_overload!(env, fn minutes: (CelDuration) -> CelInt, name = "getMinutes")?;
    cel::add_member_overload!(env, fn seconds: (CelDuration) -> CelInt, name = "getSeconds")?;
    cel::add_member_overload!(env, fn milliseconds: (CelDuration) -> CelInt, name = "getMilliseconds")?;
    parts(env)?;
    env.add_type(Type::simple_type(Kind::Opaque, DURATION_NAME))?;
    env.add_type(Type::simple_type(Kind::Opaque, TIMESTAMP_NAME))
}

fn duration(text: &CelString<'_>) -> Result<CelDuration, ExecutionError> {
    parse_duration(text.inner())
        .ok_or_else(|| ExecutionError::function_error("duration", "no duration of hours, minutes or seconds"))
}

/// A sign, and numbers with units: `-1h30m`, `1.5s`.
fn parse_duration(text: &str) -> Option<CelDuration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(CelDuration(0));
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let (unit, nanoseconds) = UNITS.into_iter().find(|(unit, _)| behind.starts_with(unit))?;
        sum = sum.checked_add(scaled(number, nanoseconds)?)?;
        rest = &behind[unit.len()..];
    }
    i64::try_from(sum * sign).ok().map(CelDuration)
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

fn same_duration(one: &CelDuration) -> CelDuration {
    *one
}

fn timestamp(text: &CelString<'_>) -> Result<CelTimestamp, ExecutionError> {
    let time = OffsetDateTime::parse(text.inner(), &Rfc3339);
    let time = time.map_err(|_| ExecutionError::function_error("timestamp", "no time of RFC 3339"))?;
    // Beyond these years, an offset may lead out of what can be represented.
    CelTimestamp::of(Some(time).filter(|time| (1..=9998).contains(&time.year()) || time.offset().is_utc()))
}

fn timestamp_of_seconds(seconds: &CelInt) -> Result<CelTimestamp, ExecutionError> {
    CelTimestamp::of(OffsetDateTime::from_unix_timestamp(*seconds.inner()).ok())
}

fn same_timestamp(one: &CelTimestamp) -> CelTimestamp {
    *one
}

fn seconds_of_timestamp(one: &CelTimestamp) -> CelInt {
    CelInt::from(one.0.unix_timestamp())
}

fn text_of_timestamp(one: &CelTimestamp) -> Result<CelString<'static>, ExecutionError> {
    one.0.format(&Rfc3339).map(CelString::from).map_err(|_| range())
}

/// Seconds with as many decimal places as they need.
fn text_of_duration(one: &CelDuration) -> CelString<'static> {
    let sign = if one.0 < 0 { "-" } else { "" };
    let nanoseconds = one.0.unsigned_abs();
    let text = format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    CelString::from(format!("{sign}{text}s"))
}

fn hours(one: &CelDuration) -> CelInt {
    CelInt::from(one.length().whole_hours())
}

fn minutes(one: &CelDuration) -> CelInt {
    CelInt::from(one.length().whole_minutes())
}

fn seconds(one: &CelDuration) -> CelInt {
    CelInt::from(one.length().whole_seconds())
}

fn milliseconds(one: &CelDuration) -> CelInt {
    CelInt::from(one.0 / 1_000_000)
}

/// The time at the offset `zone`.
fn at(time: &CelTimestamp, zone: &CelString<'_>) -> Result<OffsetDateTime, ExecutionError> {
    let unknown = || ExecutionError::function_error("timezone", "no offset from UTC such as -08:00");
    let text = zone.inner();
    if matches!(text, "" | "UTC" | "Z") {
        return Ok(time.0);
    }
    let (hours, minutes) = text.split_once(':').ok_or_else(unknown)?;
    let sign: i8 = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i8 = hours.parse().map_err(|_| unknown())?;
    let minutes: i8 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes)).ok_or_else(unknown)?;
    let offset = UtcOffset::from_hms(hours, minutes * sign, 0).map_err(|_| unknown())?;
    time.0.checked_to_offset(offset).ok_or_else(range)
}

macro_rules! parts {
    ($($name:literal, $plain:ident, $zoned:ident, $part:expr;)*) => {
        $(
            fn $plain(time: &CelTimestamp) -> CelInt {
                let part: fn(OffsetDateTime) -> i64 = $part;
                CelInt::from(part(time.0))
            }

            fn $zoned(time: &CelTimestamp, zone: &CelString<'_>) -> Result<CelInt, ExecutionError> {
                let part: fn(OffsetDateTime) -> i64 = $part;
                Ok(CelInt::from(part(at(time, zone)?)))
            }
        )*

        fn parts(env: &mut Env) -> Result<(), DeclarationError> {
            $(
                cel::add_member_overload!(env, fn $plain: (CelTimestamp) -> CelInt, name = $name)?;
                cel::add_member_overload!(env, fn $zoned: (CelTimestamp, CelString) -> Result<CelInt>,
                    name = $name)?;
            )*
            Ok(())
        }
    };
}

parts! {
    "getFullYear", year, year_at, |time| i64::from(time.year());
    "getMonth", month, month_at, |time| i64::from(u8::from(time.month())) - 1;
    "getDayOfYear", day_of_year, day_of_year_at, |time| i64::from(time.ordinal()) - 1;
    "getDayOfMonth", day_of_month, day_of_month_at, |time| i64::from(time.day()) - 1;
    "getDate", date, date_at, |time| i64::from(time.day());
    "getDayOfWeek", day_of_week, day_of_week_at, |time| i64::from(time.weekday().number_days_from_sunday());
    "getHours", hour, hour_at, |time| i64::from(time.hour());
    "getMinutes", minute, minute_at, |time| i64::from(time.minute());
    "getSeconds", second, second_at, |time| i64::from(time.second());
    "getMilliseconds", millisecond, millisecond_at, |time| i64::from(time.millisecond());
}
