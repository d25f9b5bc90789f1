//! Documents, read by their declaration.
//!
//! Owns how each part of a document becomes a value. A part that does not fit is a value that is a fault, which an
//! expression meets when it reads it. Nothing is copied but bytes, which stand in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::{Number, Value};
use time::{Date, Month, PrimitiveDateTime, Time};

use super::{Declared, Kind, ListShape, Topology};
use crate::error::Failure;
use crate::evaluate::Run;
use crate::library::times;
use crate::value::{Blob, Equality, List, Map, TooLong, Val, equal};

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
            (Kind::Bytes, Value::String(text)) => match STANDARD.decode(&**text) {
                Ok(bytes) => Val::Bytes(Blob::Shared(bytes.into())),
                Err(error) => Val::fault(format!("Invalid byte formatted string {}: {error}", part(text))),
            },
            (Kind::Duration, Value::String(text)) => {
                let fault =
                    || format!("Invalid duration {}: time: invalid duration {}", part(text), quoted(text));
                times::parse_duration(text).map_or_else(|| Val::fault(fault()), Val::Duration)
            }
            (Kind::Date, Value::String(text)) => {
                let fault = || format!("Invalid date formatted string {}: no date", part(text));
                date(text).map_or_else(|| Val::fault(fault()), Val::Timestamp)
            }
            (Kind::DateTime, Value::String(text)) => {
                let fault = || format!("Invalid date-time formatted string {}: no time", part(text));
                times::parse_timestamp(text).map_or_else(|| Val::fault(fault()), Val::Timestamp)
            }
            (Kind::List(shape), Value::Array(items)) => Val::List(List::Declared(shape, items)),
            (Kind::Map(of), Value::Object(map)) => Val::Map(Map::Declared(of, map)),
            (Kind::Object(shape), Value::Object(map)) => Val::Map(Map::Shaped(shape, map)),
            (kind, _) => Val::fault(misfit(kind)),
        }
    }
}

/// The number as an integer; one with a fraction of zero is one.
fn integer<'v>(number: &Number) -> Val<'v> {
    let whole = || match number.as_f64() {
        Some(double) => crate::value::whole(double),
        None => None,
    };
    let integer = number.as_i64().or_else(whole);
    integer.map_or_else(|| Val::fault(misfit(&Kind::Int)), Val::Int)
}

/// Midnight of a date `2026-01-31`.
fn date(text: &str) -> Option<time::OffsetDateTime> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    Some(PrimitiveDateTime::new(date, Time::MIDNIGHT).assume_utc())
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

impl ListShape {
    /// Whether items are told apart by more than their place.
    pub(crate) fn has_identity(&self) -> bool {
        self.topology != Topology::Atomic
    }

    /// Whether two lists are equal in any order: the first has this declaration, and items with an identity.
    pub(crate) fn equal<'v>(
        &self,
        one: &List<'v>,
        other: &List<'v>,
        steps: &mut dyn Equality,
    ) -> Result<bool, TooLong> {
        if one.len() != other.len() {
            return Ok(false);
        }
        for item in one.iter() {
            let mut is_there = false;
            for found in other.iter() {
                steps.take(1)?;
                if self.is_same(&item, &found, steps)? {
                    is_there = self.topology == Topology::Set || equal(&item, &found, steps)?;
                    break;
                }
            }
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether two items are the same: equal in a set, with equal keys in a list with keys.
    fn is_same<'v>(&self, one: &Val<'v>, other: &Val<'v>, steps: &mut dyn Equality) -> Result<bool, TooLong> {
        let Topology::Keyed(keys) = &self.topology else { return equal(one, other, steps) };
        // few: the keys of a list.
        for key in keys {
            let is_equal = match (key_of(one, key), key_of(other, key)) {
                (Some(one), Some(other)) => equal(&one, &other, steps)?,
                (one, other) => one.is_none() && other.is_none(),
            };
            if !is_equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sum of two lists, the first of which has this declaration and items with an identity: those of the first, in the places of which
    /// stand those of the second with their keys, and behind them those that are new.
    pub(crate) fn joined<'v>(
        &self,
        run: &mut Run<'v>,
        one: &List<'v>,
        other: &List<'v>,
    ) -> Result<Vec<Val<'v>>, Failure> {
        let mut values: Vec<Val<'v>> = one.iter().collect();
        for value in other.iter() {
            // Two new items with the same keys are both added, as in the reference.
            let known = if self.topology == Topology::Set { values.len() } else { one.len() };
            let mut place = None;
            for at in 0..known {
                run.tick(1)?;
                let is_same = self.is_same(&values[at], &value, run);
                if is_same.map_err(|_| Box::new(crate::error::EvaluationError::Cost))? {
                    place = Some(at);
                    break;
                }
            }
            match place {
                Some(place) if self.topology != Topology::Set => values[place] = value,
                Some(_) => {}
                None => values.push(value),
            }
        }
        Ok(values)
    }
}

/// The value of a key of an item, as the document has it: the reference looks for the escaped name there.
fn key_of<'v>(item: &Val<'v>, key: &str) -> Option<Val<'v>> {
    match item {
        Val::Map(Map::Shaped(_, map) | Map::Declared(_, map) | Map::Json(map)) => map.get(key).map(Val::json),
        Val::Map(map) => map.member(key),
        _ => None,
    }
}
