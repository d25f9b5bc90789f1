//! Equality of any two values, as the language has it: numbers by their value, values of other types never.
//!
//! Owns the walk over lists and maps, which takes a step for each value and each sixteen bytes, so that values which share
//! their parts many times cannot take long.

use super::{List, Map, Val, order};

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
        (one, other) => order::numbers(one, other).is_some_and(std::cmp::Ordering::is_eq),
    })
}

fn count(bytes: usize, steps: &mut dyn Equality) -> Result<(), TooLong> {
    let many = bytes / BYTES_PER_STEP;
    if many == 0 { Ok(()) } else { steps.take(u64::try_from(many).unwrap_or(u64::MAX)) }
}

fn lists<'v>(one: &List<'v>, other: &List<'v>, steps: &mut dyn Equality) -> Result<bool, TooLong> {
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
    for (key, value) in one.iter() {
        steps.take(1)?;
        let Some(found) = other.find(&key) else { return Ok(false) };
        if !equal(&value, &found, steps)? {
            return Ok(false);
        }
    }
    Ok(true)
}
