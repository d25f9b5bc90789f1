//! Durations of flags and configuration files: `5m`, `1h30m`, `90s`, `250ms`.
//!
//! Owns the bound of a flag's duration and the texts of its faults. The form is that of [`SignedDuration`], without a sign and
//! with a unit.

use std::time::Duration;

use orch_schema::{DurationFault, SignedDuration};

/// Longest duration a flag accepts: a year. Longer is a mistake in the unit.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a sequence of whole or decimal numbers with units, in any order.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with(['+', '-']) || text == "0" {
        return Err(expected());
    }
    match SignedDuration::parse(text).map(SignedDuration::duration) {
        Ok(span) if span <= SPAN_MAX => Ok(span),
        Ok(_) | Err(DurationFault::Range) => Err("longer than a year".to_owned()),
        Err(DurationFault::UnknownUnit(unit)) => Err(format!("unknown unit {unit:?}; {}", expected())),
        Err(DurationFault::Syntax | DurationFault::MissingUnit) => Err(expected()),
    }
}

fn expected() -> String {
    "expected a time such as 300s, 5m or 1h30m".to_owned()
}
