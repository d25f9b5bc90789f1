//! Ages as tables show them: `5s`, `3m20s`, `7d`, `2y64d`.
//!
//! Owns the conversion of two recorded times into an age; it reads no clock.

use orch_schema::value::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::validate::tree::Tree;

/// The age of the object at `now` (RFC 3339); `<unknown>` without a creation time.
pub fn age(object: &Value, now: &str) -> String {
    since(object.at("metadata").text("creationTimestamp"), now)
}

/// The time from `then` to `now`, both RFC 3339; `<unknown>` when `then` is empty or no time.
pub fn since(then: &str, now: &str) -> String {
    match seconds_between(then, now) {
        Some(seconds) => human_duration(seconds),
        None => "<unknown>".to_owned(),
    }
}

/// The longest duration that the reference holds: 2^63 - 1 nanoseconds, 292 years. A longer one is shown as this one.
const SECONDS_MAX: i64 = i64::MAX / 1_000_000_000;

/// Seconds from one RFC 3339 time to another, rounded towards zero.
fn seconds_between(then: &str, now: &str) -> Option<i64> {
    let parse = |text| OffsetDateTime::parse(text, &Rfc3339).ok();
    Some((parse(now)? - parse(then)?).whole_seconds().min(SECONDS_MAX))
}

/// A duration in two or three significant figures.
pub(crate) fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds / MINUTE % 60, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds / HOUR % 24, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds / DAY % 365, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_their_figures() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (9 * 3600, "9h"),
            (50 * 3600, "2d2h"),
            (8 * 86_400, "8d"),
            (322 * 86_400 + 5, "322d"),
            (2 * 365 * 86_400 + 64 * 86_400, "2y64d"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn unknown_times() {
        assert_eq!(since("", "2026-01-02T03:04:05Z"), "<unknown>");
        assert_eq!(since("yesterday", "2026-01-02T03:04:05Z"), "<unknown>");
        assert_eq!(since("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:10Z"), "4s");
    }
}
