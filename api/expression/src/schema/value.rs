//! Documents, read by their declaration.
//!
//! Owns how each part of a document becomes a value. A part that does not fit is a value that is a fault, which an
//! expression meets when it reads it. Nothing is copied but bytes, which stand in base64.

use orch_schema::excerpt::{part, quoted};
use orch_schema::value::{Number, Value};

use super::dates::parse_date;
use super::durations::duration_refusal;
use super::{Declared, Kind, base64};
use crate::library::times;
use crate::value::{Blob, List, Map, Val};

impl Declared {
    /// `value` as an expression sees it.
    pub fn read<'v>(&'v self, value: &'v Value) -> Val<'v> {
        match (&self.kind, value) {
            (_, Value::Null) if self.is_nullable => Val::Null,
            (_, Value::Null) => Val::fault("invalid data, got null for schema with nullable=false"),
            (Kind::IntOrString, Value::Number(_) | Value::String(_))
            | (Kind::Text, Value::String(_))
            | (Kind::Bool, Value::Bool(_)) => Val::json(value),
            (Kind::Int, Value::Number(number)) => integer(number),
            (Kind::Double, Value::Number(number)) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            (Kind::Bytes, Value::String(text)) => match base64::decode(text) {
                Ok(bytes) => Val::Bytes(Blob::Shared(bytes.into())),
                Err(at) => Val::fault(format!(
                    "Invalid byte formatted string {}: illegal base64 data at input byte {at}",
                    part(text)
                )),
            },
            (Kind::Duration, Value::String(text)) => {
                let fault = || format!("Invalid duration {}: {}", part(text), duration_refusal(text));
                super::parse_duration(text).map_or_else(|| Val::fault(fault()), Val::Duration)
            }
            (Kind::Date, Value::String(text)) => match parse_date(text) {
                Ok(date) => Val::Timestamp(date),
                Err(reason) => Val::fault(format!("Invalid date formatted string {}: {reason}", part(text))),
            },
            (Kind::DateTime, Value::String(text)) => {
                let fault =
                    || format!("Invalid date-time formatted string {}: {}", part(text), no_time(text));
                times::parse_timestamp(text).map_or_else(|| Val::fault(fault()), Val::Timestamp)
            }
            (Kind::List(shape), Value::Array(items)) => Val::List(List::Declared(shape, items)),
            (Kind::Map(of), Value::Object(map)) => Val::Map(Map::Declared(of, map)),
            (Kind::Object(shape), Value::Object(map)) => Val::Map(Map::Shaped(shape, map)),
            (kind, _) => Val::fault(misfit(kind)),
        }
    }
}

/// The number as an integer. One with a fraction of zero is one, where the reference has a fault.
fn integer<'v>(number: &Number) -> Val<'v> {
    let whole = || match number.as_f64() {
        Some(double) => crate::value::whole(double),
        None => None,
    };
    let integer = number.as_i64().or_else(whole);
    integer.map_or_else(|| Val::fault(misfit(&Kind::Int)), Val::Int)
}

/// Why a text that has the format `date-time` is no time, in the words of the reference, whose last attempt is a time without a zone.
fn no_time(text: &str) -> String {
    let parsing = format!("parsing time {}", quoted(text));
    let Some((_, clock)) = text.split_at_checked("2006-01-02".len()) else { return parsing };
    let Some(clock) = clock.strip_prefix('T') else {
        return format!("{parsing} as \"2006-01-02T15:04:05\": cannot parse {} as \"T\"", quoted(clock));
    };
    for (at, name, end) in [(0, "hour", 24), (3, "minute", 60), (6, "second", 60)] {
        let number = clock.get(at..at + 2).and_then(|digits| digits.parse::<u8>().ok());
        if number.is_none_or(|number| number >= end) {
            return format!("{parsing}: {name} out of range");
        }
    }
    let behind = clock.get("15:04:05".len()..).unwrap_or_default();
    let zone = match behind.strip_prefix(['.', ',']) {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => behind,
    };
    format!("{parsing}: extra text: {}", quoted(zone))
}

/// The text of the fault of a value with another shape.
fn misfit(kind: &Kind) -> &'static str {
    match kind {
        Kind::IntOrString => "invalid data, expected XIntOrString value to be either a string or integer",
        Kind::Bool => "invalid data, expected a bool for the provided schema with type=boolean",
        Kind::Int => "invalid data, expected an int for the provided schema with type=integer",
        Kind::Double => "invalid data, expected a double for the provided schema with type=number",
        Kind::Text | Kind::Bytes | Kind::Duration | Kind::Date | Kind::DateTime => {
            "invalid data, expected a string for the provided schema with type=string"
        }
        Kind::List(_) => "invalid data, expected an array for the provided schema with type=array",
        Kind::Map(_) | Kind::Object(_) => {
            "invalid data, expected a map for the provided schema with type=object"
        }
    }
}
