//! Durations and times: nanoseconds, a calendar that counts days, and the rules of a few zones.
//!
//! Owns what the definition says of them: texts of durations are a sign and decimals with units, texts of times are those of
//! RFC 3339 with capital letters, and keep their offset; a duration has 64 bits, a time lies in the years 1 to 9999 of UTC.

use super::calls::Called;
use super::plain::Plain;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400;
/// The days from the first one of the year 1 to the first one of 1970.
const DAYS_TO_1970: i128 = 719_162;
const MONTHS: [i128; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

fn is_leap(year: i128) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i128, month: usize) -> i128 {
    MONTHS[month] + i128::from(month == 1 && is_leap(year))
}

/// Days from 1970 to the first one of a year.
fn days_before(year: i128) -> i128 {
    let past = year - 1;
    past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - DAYS_TO_1970
}

/// Seconds since 1970 of a date and a clock, or nothing where there is no such day; months begin with 0.
fn seconds(year: i128, month: usize, day: i128, clock: [i128; 3]) -> Option<i128> {
    if month > 11 || day < 1 || day > days_of(year, month) {
        return None;
    }
    let days = days_before(year) + (0..month).map(|month| days_of(year, month)).sum::<i128>() + day - 1;
    Some(days * DAY + clock[0] * 3600 + clock[1] * 60 + clock[2])
}

/// A date and what belongs to it; days and months begin with 0, and so do weekdays, with Sunday.
struct Date {
    year: i128,
    month: i128,
    day: i128,
    day_of_year: i128,
    weekday: i128,
}

fn date(seconds: i128) -> Date {
    let days = seconds.div_euclid(DAY);
    let mut year = 1970 + days.div_euclid(366);
    while days_before(year) > days {
        year -= 1;
    }
    while days_before(year + 1) <= days {
        year += 1;
    }
    let day_of_year = days - days_before(year);
    let (mut month, mut day) = (0, day_of_year);
    while day >= days_of(year, month) {
        day -= days_of(year, month);
        month += 1;
    }
    // The first day of 1970 was a Thursday.
    Date { year, month: i128::try_from(month).unwrap(), day, day_of_year, weekday: (days + 4).rem_euclid(7) }
}

/// The nanoseconds of a duration's text.
pub(super) fn duration(text: &str) -> Option<i128> {
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum = 0;
    loop {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, behind) = rest.split_at(digits(rest));
        let (fraction, behind) = match behind.strip_prefix('.') {
            Some(behind) => behind.split_at(digits(behind)),
            None => ("", behind),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = behind.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
        sum += number(whole)? * unit;
        sum += number(fraction)? * unit / 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    let sum = if is_negative { -sum } else { sum };
    i64::try_from(sum).ok().map(i128::from)
}

/// Nanoseconds since 1970, and seconds east of UTC where the time is told.
pub(super) type Time = (i128, i128);

/// A time from its text, in any year.
fn any_time(text: &str) -> Option<Time> {
    let (main, rest) = text.split_at_checked(19)?;
    let number = |from: usize, to: usize| {
        let part = &main[from..to];
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i128>().ok())?
    };
    let signs = [(4, '-'), (7, '-'), (10, 'T'), (13, ':'), (16, ':')];
    if !main.is_ascii() || signs.iter().any(|(at, sign)| main.as_bytes()[*at] != *sign as u8) {
        return None;
    }
    let clock = [number(11, 13)?, number(14, 16)?, number(17, 19)?];
    if clock[0] > 23 || clock[1] > 59 || clock[2] > 59 {
        return None;
    }
    let month = usize::try_from(number(5, 7)? - 1).ok()?;
    let mut seconds = seconds(number(0, 4)?, month, number(8, 10)?, clock)?;
    let (nanoseconds, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let digits: String = rest[..end].chars().chain("000000000".chars()).take(9).collect();
            (if end == 0 { return None } else { digits.parse::<i128>().ok()? }, &rest[end..])
        }
        None => (0, rest),
    };
    let mut east = 0;
    if zone != "Z" {
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        let offset = zone.strip_prefix(['+', '-']).filter(|offset| offset.len() == 5)?;
        let (hours, minutes) = offset.split_once(':').filter(|(hours, _)| hours.len() == 2)?;
        east = sign * (hours.parse::<i128>().ok()? * 3600 + minutes.parse::<i128>().ok()? * 60);
        seconds -= east;
    }
    Some((seconds * SECOND + nanoseconds, east))
}

fn is_in_range(time: i128) -> bool {
    (days_before(1)..days_before(10_000)).contains(&time.div_euclid(SECOND * DAY))
}

/// A time from its text.
pub(super) fn time(text: &str) -> Option<Time> {
    any_time(text).filter(|(time, _)| is_in_range(*time))
}

/// The text of a duration: its seconds as the double that they are.
pub(super) fn text_of_duration(nanoseconds: i128) -> String {
    #[expect(clippy::cast_precision_loss, reason = "the reference rounds")]
    let seconds = (nanoseconds / SECOND) as f64 + (nanoseconds % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

/// The text of a time with its offset.
pub(super) fn text_of_time((nanoseconds, east): Time) -> String {
    let sign = if east < 0 { '-' } else { '+' };
    let zone = match east.abs() / 60 {
        0 => "Z".to_owned(),
        minutes => format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60),
    };
    let nanoseconds = nanoseconds + east * SECOND;
    let (seconds, fraction) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
    let (of, clock) = (date(seconds), seconds.rem_euclid(DAY));
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:09}") };
    let fraction = fraction.trim_end_matches('0');
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{zone}",
        of.year,
        of.month + 1,
        of.day + 1,
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    )
}

/// Seconds east of UTC in the zone `name` at a time in seconds.
fn offset(name: &str, at: i128) -> Result<i128, String> {
    let hour = 3600;
    if let Some((hours, minutes)) = name.split_once(':') {
        let number = |text: &str| {
            text.parse::<i128>().map_err(|_| format!("strconv.Atoi: parsing \"{text}\": invalid syntax"))
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        return Ok(60 * (if name.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes }));
    }
    let year = date(at).year;
    // The second in which the Sunday after `weeks` whole weeks of a month begins, or the last Sunday of the month.
    let sunday = |month: usize, weeks: Option<i128>| {
        let first = seconds(year, month, 1 + weeks.unwrap_or(0) * 7, [0; 3]).unwrap();
        let (start, step) = match weeks {
            Some(_) => (first, 1),
            None => (first + (days_of(year, month) - 1) * DAY, -1),
        };
        (0..7).map(|day| start + step * day * DAY).find(|at| date(*at).weekday == 0).unwrap()
    };
    match name {
        "" | "UTC" => Ok(0),
        "Asia/Tokyo" => Ok(9 * hour),
        "Asia/Kolkata" => Ok(5 * hour + hour / 2),
        // Since 1996, from one o'clock in UTC on.
        "Europe/Berlin" => {
            let is_summer = at >= sunday(2, None) + hour && at < sunday(9, None) + hour;
            Ok(if is_summer { 2 * hour } else { hour })
        }
        // Since 2007, from two o'clock there on.
        "America/New_York" => {
            let is_summer = at >= sunday(2, Some(1)) + 7 * hour && at < sunday(10, Some(0)) + 6 * hour;
            Ok(if is_summer { -4 * hour } else { -5 * hour })
        }
        other => Err(format!("unknown time zone {other}")),
    }
}

fn int(number: i128) -> Called {
    Ok((Plain::Int(i64::try_from(number).unwrap()), 1))
}

fn in_64_bits(nanoseconds: i128) -> Called {
    i64::try_from(nanoseconds).map_err(|_| "integer overflow".to_owned())?;
    Ok((Plain::Duration(nanoseconds), 1))
}

fn in_range(time: i128, east: i128) -> Called {
    if is_in_range(time) { Ok((Plain::Time((time, east)), 1)) } else { Err("timestamp overflow".to_owned()) }
}

/// Calls with durations and times.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    let no_conversion =
        |to: &str| Err(format!("type conversion error from 'string' to 'google.protobuf.{to}'"));
    Some(match (name, arguments) {
        ("duration", [Plain::Text(text)]) => match duration(text) {
            Some(nanoseconds) => Ok((Plain::Duration(nanoseconds), 1)),
            None => no_conversion("Duration"),
        },
        ("timestamp", [Plain::Text(text)]) => match any_time(text) {
            Some((time, east)) => in_range(time, east),
            None => no_conversion("Timestamp"),
        },
        ("timestamp", [Plain::Int(seconds)]) => in_range(i128::from(*seconds) * SECOND, 0),
        ("duration" | "timestamp", [own @ (Plain::Duration(_) | Plain::Time(_))]) => Ok((own.clone(), 1)),
        ("int", [Plain::Duration(nanoseconds)]) => int(*nanoseconds),
        ("int", [Plain::Time((time, _))]) => int(time.div_euclid(SECOND)),
        ("_+_", [Plain::Duration(one), Plain::Duration(other)]) => in_64_bits(one + other),
        ("_-_", [Plain::Duration(one), Plain::Duration(other)]) => in_64_bits(one - other),
        (
            "_+_",
            [Plain::Time((one, east)), Plain::Duration(other)]
            | [Plain::Duration(other), Plain::Time((one, east))],
        ) => in_range(one + other, *east),
        // The duration is negated before it is added.
        ("_-_", [Plain::Time((one, east)), Plain::Duration(other)]) => {
            in_64_bits(-other).and_then(|_| in_range(one - other, *east))
        }
        ("_-_", [Plain::Time((one, _)), Plain::Time((other, _))]) => in_64_bits(one - other),
        (name, [Plain::Duration(nanoseconds)]) if name.starts_with("get") => {
            let unit = match name {
                "getHours" => 3600 * SECOND,
                "getMinutes" => 60 * SECOND,
                "getSeconds" => SECOND,
                "getMilliseconds" => SECOND / 1000,
                other => panic!("durations have no {other}"),
            };
            int(nanoseconds / unit)
        }
        (name, [Plain::Time((time, _))]) if name.starts_with("get") => part(name, *time),
        (name, [Plain::Time((time, _)), Plain::Text(zone)]) if name.starts_with("get") => {
            match offset(zone, time.div_euclid(SECOND)) {
                Ok(offset) => part(name, time + offset * SECOND),
                Err(text) => Err(text),
            }
        }
        _ => return None,
    })
}

fn part(name: &str, time: i128) -> Called {
    let seconds = time.div_euclid(SECOND);
    let (of, clock) = (date(seconds), seconds.rem_euclid(DAY));
    int(match name {
        "getFullYear" => of.year,
        "getMonth" => of.month,
        "getDate" => of.day + 1,
        "getDayOfMonth" => of.day,
        "getDayOfYear" => of.day_of_year,
        "getDayOfWeek" => of.weekday,
        "getHours" => clock / 3600,
        "getMinutes" => clock / 60 % 60,
        "getSeconds" => clock % 60,
        "getMilliseconds" => time.rem_euclid(SECOND) / 1_000_000,
        other => panic!("times have no {other}"),
    })
}
