//! Durations in the format of Go: `5m`, `1h30m`, `90s`, `250ms`.

use std::time::Duration;

/// Longest duration a flag accepts: a year. Longer is a mistake in the unit.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a sequence of whole or decimal numbers with units `ms`, `s`, `m`, `h`, in any order.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(expected());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(expected)?;
        let number: f64 = rest[..digits].parse().map_err(|_| expected())?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        total += number * seconds_of(&rest[digits..unit_end])?;
        rest = &rest[unit_end..];
    }
    match Duration::try_from_secs_f64(total) {
        Ok(span) if span <= SPAN_MAX => Ok(span),
        _ => Err("longer than a year".to_owned()),
    }
}

fn seconds_of(unit: &str) -> Result<f64, String> {
    match unit {
        "ms" => Ok(0.001),
        "s" => Ok(1.0),
        "m" => Ok(60.0),
        "h" => Ok(3600.0),
        _ => Err(format!("unknown unit {unit:?}; {}", expected())),
    }
}

fn expected() -> String {
    "expected a time such as 300s, 5m or 1h30m".to_owned()
}
