//! Equality of any two values, as the language has it: numbers by their value, values of other types never.
//!
//! Owns the walk over lists and maps, which takes a step for each value and each sixteen bytes, so that values which share
//! their parts many times cannot take long.

use super::{List, Map, Val, order};
use crate::schema::ObjectShape;

/// Bytes that are compared in the time of one step.
const BYTES_PER_STEP: usize = 16;

/// The walk took more steps than were left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Takes the steps of a comparison.
pub(crate) trait Equality {
    /// Takes `steps`.
    fn take(&mut self, steps: u64) -> Result<(), TooLong>;
}

/// Whether `one` equals `other`.
pub(crate) fn equal<'v>(one: &Val<'v>, other: &Val<'v>, steps: &mut dyn Equality) -> Result<bool, TooLong> {
    Ok(match (one, other) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(one), Val::Bool(other)) => one == other,
        (Val::Text(one), Val::Text(other)) => {
            count(one.len().min(other.len()), steps)?;
            **one == **other
        }
        (Val::Type(one), Val::Type(other)) => **one == **other,
        (Val::Bytes(one), Val::Bytes(other)) => {
            count(one.len().min(other.len()), steps)?;
            **one == **other
        }
        (Val::Duration(one), Val::Duration(other)) => one == other,
        (Val::Timestamp(one), Val::Timestamp(other)) => one == other,
        (Val::List(one), Val::List(other)) => lists(one, other, steps)?,
        (Val::Map(one), Val::Map(other)) => maps(one, other, steps)?,
        (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Optional(Some(one)), Val::Optional(Some(other))) => equal(one, other, steps)?,
        (Val::Quantity(one), Val::Quantity(other)) => one == other,
        (Val::Version(one), Val::Version(other)) => one.cmp_precedence(other).is_eq(),
        (Val::Ip(one), Val::Ip(other)) => one == other,
        (Val::Cidr(one, bits), Val::Cidr(other, others)) => one == other && bits == others,
        (Val::Url(one), Val::Url(other)) => {
            count(one.text.len().min(other.text.len()), steps)?;
            one.text == other.text
        }
        (Val::Format(one), Val::Format(other)) => one == other,
        (one, other) => order::numbers(one, other).is_some_and(std::cmp::Ordering::is_eq),
    })
}

fn count(bytes: usize, steps: &mut dyn Equality) -> Result<(), TooLong> {
    let many = bytes / BYTES_PER_STEP;
    if many == 0 { Ok(()) } else { steps.take(u64::try_from(many).unwrap_or(u64::MAX)) }
}

fn lists<'v>(one: &List<'v>, other: &List<'v>, steps: &mut dyn Equality) -> Result<bool, TooLong> {
    if let Some(shape) = one.identity() {
        return shape.equal(one, other, steps);
    }
    if one.len() != other.len() {
        return Ok(false);
    }
    for (one, other) in one.iter().zip(other.iter()) {
        steps.take(1)?;
        if !equal(&one, &other, steps)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps<'v>(one: &Map<'v>, other: &Map<'v>, steps: &mut dyn Equality) -> Result<bool, TooLong> {
    if one.len() != other.len() {
        return Ok(false);
    }
    if let (Map::Shaped(shape, one), Map::Shaped(others, other)) = (one, other) {
        return objects((shape, one), (others, other), steps);
    }
    for (key, value) in one.iter() {
        steps.take(1)?;
        let Some(found) = other.find(&key) else { return Ok(false) };
        if !equal(&value, &found, steps)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two objects of as many members are equal, those included that are not declared.
fn objects<'v>(
    one: (&'v ObjectShape, &'v orch_schema::value::Map),
    other: (&'v ObjectShape, &'v orch_schema::value::Map),
    steps: &mut dyn Equality,
) -> Result<bool, TooLong> {
    for (name, value) in one.1 {
        steps.take(1)?;
        let Some(found) = other.1.get(name) else { return Ok(false) };
        let declared = |shape: &'v ObjectShape| shape.property(name).map(|field| &field.declared);
        let is_equal = match (declared(one.0), declared(other.0)) {
            _ if value.is_null() || found.is_null() => value.is_null() && found.is_null(),
            (Some(one), Some(other)) => equal(&one.read(value), &other.read(found), steps)?,
            _ => equal(&Val::json(value), &Val::json(found), steps)?,
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}
