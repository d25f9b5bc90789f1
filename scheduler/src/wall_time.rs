//! Wall time, as objects hold it.
//!
//! Owns its two forms in the API, messages and texts. It is for people, and decides nothing between machines: their
//! clocks differ. Durations are measured by the monotonic clock.

use std::ops::RangeInclusive;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::meta::v1::MicroTime;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Seconds since 1970 of the years 0 to 9999.
const RFC3339_SECONDS: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WallTime(pub i64);

impl WallTime {
    /// The present time.
    pub fn now() -> Self {
        Self(crate::ambient::wall_micros())
    }

    /// The time `seconds` after 1970.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(MICROS_PER_SECOND))
    }

    /// The time of a message.
    pub fn from_micro_time(time: &MicroTime) -> Self {
        Self(Self::from_seconds(time.seconds).0.saturating_add(i64::from(time.nanos) / 1_000))
    }

    /// The time of a text in RFC 3339, to the second; `None` for other texts.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        Some(Self::from_seconds(time.unix_timestamp()))
    }

    /// Whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_SECOND)
    }

    fn micros(self) -> i32 {
        let micros = i32::try_from(self.0.rem_euclid(MICROS_PER_SECOND));
        micros.expect("a remainder of a million fits")
    }

    /// The message.
    pub fn micro_time(self) -> MicroTime {
        MicroTime { seconds: self.seconds(), nanos: self.micros() * 1_000 }
    }

    /// RFC 3339 to the second. The form has years of four digits: a time outside of them is written as the nearest one
    /// within, since no writer of these texts can do without a time.
    pub fn rfc3339(self) -> String {
        let seconds = self.seconds().clamp(*RFC3339_SECONDS.start(), *RFC3339_SECONDS.end());
        let time = OffsetDateTime::from_unix_timestamp(seconds).expect("a date has years of four digits");
        time.format(&Rfc3339).expect("a year of four digits has this form")
    }

    /// RFC 3339 with exactly six digits of the second, the form of [`MicroTime`] in JSON.
    pub fn rfc3339_micro(self) -> String {
        format!("{}.{:06}Z", self.rfc3339().trim_end_matches('Z'), self.micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_messages_and_texts() {
        for (time, message, text, micro_text) in [
            (WallTime(1_500), (0, 1_500_000), "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.001500Z"),
            (WallTime(-1), (-1, 999_999_000), "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999999Z"),
            (
                WallTime(1_700_000_000_000_000),
                (1_700_000_000, 0),
                "2023-11-14T22:13:20Z",
                "2023-11-14T22:13:20.000000Z",
            ),
        ] {
            assert_eq!(time.micro_time(), MicroTime { seconds: message.0, nanos: message.1 });
            assert_eq!(WallTime::from_micro_time(&time.micro_time()), time);
            assert_eq!((time.rfc3339().as_str(), time.rfc3339_micro().as_str()), (text, micro_text));
            assert_eq!(WallTime::from_rfc3339(text).unwrap().seconds(), time.seconds());
        }
        assert_eq!(WallTime::from_rfc3339("soon"), None);
    }

    #[test]
    fn a_time_that_the_form_has_no_year_for_is_written_as_the_nearest() {
        for (time, text) in
            [(WallTime(i64::MAX), "9999-12-31T23:59:59Z"), (WallTime(i64::MIN), "0000-01-01T00:00:00Z")]
        {
            assert_eq!(time.rfc3339(), text);
            assert!(WallTime::from_rfc3339(text).is_some());
        }
    }
}
