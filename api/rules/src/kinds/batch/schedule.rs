//! Schedules of cron jobs: five fields, or a descriptor such as `@daily`.
//!
//! Owns the check of a schedule's syntax, with the messages of the reference's parser. Its times are the controller's.

use orch_schema::shown::quoted;

struct Bounds {
    low: u32,
    high: u32,
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
const UNITS: [&str; 6] = ["ns", "us", "µs", "ms", "s", "m"];

/// The error of a schedule; `None` when it is valid.
pub(super) fn schedule_error(schedule: &str) -> Option<String> {
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
        .find_map(|(field, bounds)| field.split(',').find_map(|part| range_error(part, bounds)))
}

fn descriptor_error(schedule: &str) -> Option<String> {
    if DESCRIPTORS.contains(&schedule) {
        return None;
    }
    if let Some(duration) = schedule.strip_prefix("@every ") {
        let valid = is_duration(duration);
        let problem = format!("time: invalid duration {}", quoted(duration));
        return (!valid).then(|| format!("failed to parse duration {schedule}: {problem}"));
    }
    Some(format!("unrecognized descriptor: {schedule}"))
}

fn range_error(part: &str, bounds: &Bounds) -> Option<String> {
    let mut pieces = part.split('/');
    let (range, step) = (pieces.next().unwrap_or_default(), pieces.next());
    if pieces.next().is_some() {
        return Some(format!("too many slashes: {part}"));
    }
    let mut ends = range.split('-');
    let (first, second) = (ends.next().unwrap_or_default(), ends.next());
    if ends.next().is_some() && first != "*" && first != "?" {
        return Some(format!("too many hyphens: {part}"));
    }
    let (start, end) = if first == "*" || first == "?" {
        (bounds.low, bounds.high)
    } else {
        let start = match number(first, bounds) {
            Ok(start) => start,
            Err(problem) => return Some(problem),
        };
        match second.map(|second| number(second, bounds)) {
            Some(Ok(end)) => (start, end),
            Some(Err(problem)) => return Some(problem),
            None if step.is_some() => (start, bounds.high),
            None => (start, start),
        }
    };
    match step.map(|step| number(step, &Bounds { low: 0, high: u32::MAX, names: &[] })) {
        Some(Err(problem)) => return Some(problem),
        Some(Ok(0)) => return Some(format!("step of range should be a positive number: {part}")),
        Some(Ok(_)) | None => {}
    }
    if start < bounds.low {
        Some(format!("beginning of range ({start}) below minimum ({}): {part}", bounds.low))
    } else if end > bounds.high {
        Some(format!("end of range ({end}) above maximum ({}): {part}", bounds.high))
    } else if start > end {
        Some(format!("beginning of range ({start}) beyond end of range ({end}): {part}"))
    } else {
        None
    }
}

fn number(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    // few: months or days.
    if let Some(at) = bounds.names.iter().position(|name| *name == lower) {
        return Ok(u32::try_from(at).unwrap_or(u32::MAX).saturating_add(bounds.low));
    }
    match text.parse::<i64>() {
        Ok(value) if value < 0 => Err(format!("negative number ({value}) not allowed: {text}")),
        Ok(value) => Ok(u32::try_from(value).unwrap_or(u32::MAX)),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax",
            quoted(text)
        )),
    }
}

// A sequence of numbers with units: `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit_end = rest[digits..]
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .map_or(rest.len(), |at| digits + at);
        let (number, unit) = (&rest[..digits], &rest[digits..unit_end]);
        if number.parse::<f64>().is_err() || !(UNITS.contains(&unit) || unit == "h") {
            return false;
        }
        any = true;
        rest = &rest[unit_end..];
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for schedule in ["*/5 * * * *", "0 0 1 jan mon-fri", "@hourly", "@every 1h30m", "1,2-5/2 ? * * 6"] {
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
            ("@often", "unrecognized descriptor: @often"),
            ("@every soon", "failed to parse duration @every soon: time: invalid duration \"soon\""),
        ] {
            assert_eq!(schedule_error(schedule).as_deref(), Some(expected), "{schedule}");
        }
    }
}
