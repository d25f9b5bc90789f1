//! Times of backups: an interval, or a cron expression.
//!
//! Owns the two forms as text, and the next time of each. Cron expressions have five fields and are in UTC: a node has no
//! time zone of its own, and local time has hours that come twice or never.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};

use super::duration::parse_duration;

/// Shortest interval: each backup reads the whole state. Cron expressions cannot name a shorter one.
const EVERY_MIN: Duration = Duration::from_secs(60);

/// Fields of a cron expression: minute, hour, day of month, month, day of week.
const FIELDS: usize = 5;

/// A time at which every expression is tried when it is read: 2026-01-01. A leap day comes within the years that are
/// looked at from there.
const TRIED_AT: u64 = 1_767_225_600;

/// Last time that is looked from, in seconds since 1970: the year 9000. Dates end with the year 9999, so that the library
/// stays within them; no clock that is right comes near.
const LATEST: u64 = 221_845_392_000;

/// When something is due again and again.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// This long after the last time.
    Every(Duration),
    /// At the times of a cron expression.
    Cron(Box<Cron>),
}

/// A cron expression, in UTC.
#[derive(Clone, Debug)]
pub struct Cron {
    text: String,
    crontab: Crontab,
}

impl Cron {
    /// The first time after `time`; `None` where the next years have none.
    pub(crate) fn next_after(&self, time: SystemTime) -> Option<SystemTime> {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().min(LATEST);
        let from = MakeTimestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
        let next = self.crontab.find_next(from).ok()?.timestamp().as_second();
        Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(next).ok()?))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Every(every) => write!(f, "every {} s", every.as_secs()),
            Schedule::Cron(cron) => write!(f, "{} (UTC)", cron.text),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields = text.split_whitespace().count();
        if fields == 1 && text.contains(|c: char| c.is_ascii_digit()) {
            let every = parse_duration(text).map_err(|fault| format!("{fault}, or {}", expected()))?;
            return match every < EVERY_MIN {
                true => Err("the shortest interval is 1m".to_owned()),
                false => Ok(Schedule::Every(every)),
            };
        }
        if fields != FIELDS {
            return Err(format!(
                "it has {fields} fields; expected an interval such as 6h, or {}",
                expected()
            ));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = parse_crontab_with(text, options).map_err(|error| {
            // The library draws a caret below the text, and then says what is wrong.
            let error = error.to_string();
            let (before, fault) = error.rsplit_once("^ ").unwrap_or(("", &error));
            let column = before.rsplit('\n').next().unwrap_or_default().len() + 1;
            format!("at character {column}: {}; expected {}", fault.replace('\n', " "), expected())
        })?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let cron = Cron { text, crontab };
        match cron.next_after(UNIX_EPOCH + Duration::from_secs(TRIED_AT)) {
            Some(_) => Ok(Schedule::Cron(Box::new(cron))),
            None => Err("no day matches it".to_owned()),
        }
    }
}

fn expected() -> &'static str {
    "minute, hour, day of month, month and day of week in UTC, such as \"30 2 * * *\" for half past two each night"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Seconds from 2026-01-01, a Thursday, to the next times of `text` after it.
    fn next(text: &str, count: usize) -> Vec<u64> {
        let Ok(Schedule::Cron(cron)) = text.parse::<Schedule>() else { panic!("{text} is no expression") };
        let mut times = Vec::new();
        let mut time = at(TRIED_AT);
        for _ in 0..count {
            time = cron.next_after(time).unwrap();
            times.push(time.duration_since(at(TRIED_AT)).unwrap().as_secs());
        }
        times
    }

    #[test]
    fn cron_expressions_give_times_in_utc() {
        const DAY: u64 = 86_400;
        for (text, expected) in [
            ("30 2 * * *", [9_000, DAY + 9_000]),
            ("*/15 * * * *", [900, 1_800]),
            ("0  0 * *   SUN", [3 * DAY, 10 * DAY]),
            ("0 0 1 * *", [31 * DAY, 59 * DAY]),
            ("5 4 29 2 *", [789 * DAY + 14_700, 2_250 * DAY + 14_700]),
        ] {
            assert_eq!(next(text, 2), expected, "{text}");
        }
    }

    #[test]
    fn intervals_are_read_as_before() {
        assert!(matches!("6h".parse(), Ok(Schedule::Every(every)) if every == Duration::from_secs(21_600)));
        assert_eq!("59s".parse::<Schedule>().unwrap_err(), "the shortest interval is 1m");
        assert_eq!("90m".parse::<Schedule>().unwrap().to_string(), "every 5400 s");
        assert_eq!("0  3 * * *".parse::<Schedule>().unwrap().to_string(), "0 3 * * * (UTC)");
    }

    #[test]
    fn a_fault_is_told_in_one_line_with_an_example() {
        for (text, expected) in [
            ("", "0 fields"),
            ("daily", "1 fields"),
            ("6 hours", "2 fields"),
            ("0 3 * * * *", "6 fields"),
            ("0 3 * * * Europe/Berlin", "6 fields"),
            ("6x", "unknown unit"),
            ("61 * * * *", "at character 1"),
            ("0 3 * * MOO", "at character 9"),
            ("0 0 31 2 *", "no day matches"),
        ] {
            let told = text.parse::<Schedule>().unwrap_err();
            assert!(told.contains(expected) && !told.contains('\n'), "{text}: {told}");
        }
    }

    #[test]
    fn a_clock_far_in_the_future_ends_nothing() {
        let Ok(Schedule::Cron(cron)) = "0 3 * * *".parse() else { panic!() };
        assert!(cron.next_after(at(u64::from(u32::MAX) * 3_000)).is_some());
        assert!(cron.next_after(UNIX_EPOCH - Duration::from_secs(1)).is_some());
    }
}
