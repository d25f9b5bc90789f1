//! Points in time: RFC 3339 in JSON, seconds and nanoseconds in Protobuf.
//!
//! Owns the two textual forms of the interface. A parsed time is in UTC.

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

/// The two textual forms of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `2006-01-02T15:04:05Z`; a fraction is read and dropped.
    Seconds,
    /// `2006-01-02T15:04:05.000000Z`, always with six digits.
    Micros,
}

/// Seconds since 1970 and nanoseconds of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds above them.
    pub nanos: u32,
}

impl Instant {
    /// 1 January of the year 1: the reference's zero time, which means unset.
    pub const UNSET: Instant = Instant { seconds: -62_135_596_800, nanos: 0 };

    /// Reads a time; `None` where it does not have the form that `precision` asks for.
    pub fn parse(text: &str, precision: Precision) -> Option<Instant> {
        let bytes = text.as_bytes();
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        // few: the separators of a time.
        if bytes.len() < 20 || separators.iter().any(|&(at, byte)| bytes[at] != byte) {
            return None;
        }
        let year = i32::from(digits(&bytes[0..2])?) * 100 + i32::from(digits(&bytes[2..4])?);
        let month = Month::try_from(digits(&bytes[5..7])?).ok()?;
        let date = Date::from_calendar_date(year, month, digits(&bytes[8..10])?).ok()?;
        let clock = (digits(&bytes[11..13])?, digits(&bytes[14..16])?, digits(&bytes[17..19])?);
        let clock = Time::from_hms(clock.0, clock.1, clock.2).ok()?;
        let (nanos, rest) = fraction(&bytes[19..], precision)?;
        let moment = PrimitiveDateTime::new(date, clock).assume_offset(offset(rest)?);
        Some(Instant { seconds: moment.unix_timestamp(), nanos })
    }

    /// The text, or `None` where the year does not have four digits.
    pub fn format(self, precision: Precision) -> Option<String> {
        let moment = OffsetDateTime::from_unix_timestamp(self.seconds).ok()?;
        let (year, month, day) = moment.to_calendar_date();
        let (hour, minute, second) = moment.to_hms();
        if !(0..=9999).contains(&year) {
            return None;
        }
        let month = u8::from(month);
        Some(match precision {
            Precision::Seconds => {
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
            }
            Precision::Micros => {
                let micros = self.nanos / 1000;
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
            }
        })
    }
}

/// The canonical text of the time `text`: `None` where it has not the form, `Some(None)` where it is
/// [`Instant::UNSET`].
pub(crate) fn canonical(text: &str, precision: Precision) -> Option<Option<String>> {
    let instant = Instant::parse(text, precision)?;
    if instant == Instant::UNSET {
        return Some(None);
    }
    let plain_len = match precision {
        Precision::Seconds => 20,
        Precision::Micros => 27,
    };
    if text.len() == plain_len && text.ends_with('Z') {
        return Some(Some(text.to_owned()));
    }
    instant.format(precision).map(Some)
}

/// The value of two digits.
fn digits(two: &[u8]) -> Option<u8> {
    let [tens, ones] = [two[0].wrapping_sub(b'0'), two[1].wrapping_sub(b'0')];
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

/// The fraction of the second at the start of `rest` in nanoseconds, and the text behind it.
fn fraction(rest: &[u8], precision: Precision) -> Option<(u32, &[u8])> {
    let count = match rest {
        [b'.', tail @ ..] => tail.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ if precision == Precision::Seconds => return Some((0, rest)),
        _ => return None,
    };
    match precision {
        Precision::Seconds if count == 0 => None,
        Precision::Seconds => Some((0, &rest[1 + count..])),
        Precision::Micros if count != 6 => None,
        Precision::Micros => {
            let micros = rest[1..7].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            Some((micros * 1000, &rest[7..]))
        }
    }
}

/// `Z` or `+05:30`.
fn offset(rest: &[u8]) -> Option<UtcOffset> {
    match rest {
        b"Z" => Some(UtcOffset::UTC),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
            let seconds = if *sign == b'-' { -seconds } else { seconds };
            (hours < 24 && minutes < 60).then(|| UtcOffset::from_whole_seconds(seconds).ok())?
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, precision: Precision, wanted: Option<&str>) {
        assert_eq!(canonical(given, precision).flatten().as_deref(), wanted, "{given}");
    }

    #[test]
    fn times_are_rewritten_in_utc() {
        for (given, wanted) in [
            ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T05:04:05+02:00", Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.999Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-01T00:00:00+23:59", Some("2025-12-31T00:01:00Z")),
            ("0001-01-01T00:00:00Z", None),
            ("2026-02-30T00:00:00Z", None),
            ("2026-01-02T03:04:60Z", None),
            ("2026-01-02 03:04:05Z", None),
            ("2026-01-02T03:04:05", None),
            ("yesterday", None),
            ("20\u{1}6-01-02T03:04:05Z", None),
            ("2026-~1-02T03:04:05Z", None),
            ("2026-01-02T03:04:05+0200", None),
            ("é026-01-02T03:04:05Z", None),
        ] {
            check(given, Precision::Seconds, wanted);
        }
    }

    #[test]
    fn micro_times_have_exactly_six_digits() {
        for (given, wanted) in [
            ("2026-01-02T03:04:05.123456Z", Some("2026-01-02T03:04:05.123456Z")),
            ("2026-01-02T05:04:05.123456+02:00", Some("2026-01-02T03:04:05.123456Z")),
            ("2026-01-02T03:04:05Z", None),
            ("2026-01-02T03:04:05.1Z", None),
            ("2026-01-02T03:04:05.123456789Z", None),
        ] {
            check(given, Precision::Micros, wanted);
        }
    }
}
