//! Arithmetic, and `+` on texts, bytes and lists. What leaves the range of its type is a fault.

use std::sync::Arc;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::library::times;
use crate::value::{Blob, List, Val};

const OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

fn int<'v>(result: Option<i64>) -> Outcome<'v> {
    result.map(Val::Int).ok_or_else(|| fault(OVERFLOW))
}

fn uint<'v>(result: Option<u64>) -> Outcome<'v> {
    result.map(Val::Uint).ok_or_else(|| fault(UNSIGNED_OVERFLOW))
}

pub(crate) fn add<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(one), Val::Int(other)] => int(one.checked_add(*other)),
        [Val::Uint(one), Val::Uint(other)] => uint(one.checked_add(*other)),
        [Val::Double(one), Val::Double(other)] => Ok(Val::Double(one + other)),
        [Val::Text(one), Val::Text(other)] => {
            run.make_bytes(one.len() + other.len())?;
            let mut sum = String::with_capacity(one.len() + other.len());
            sum.push_str(one);
            sum.push_str(other);
            Ok(Val::text(sum))
        }
        [Val::Bytes(one), Val::Bytes(other)] => {
            run.make_bytes(one.len() + other.len())?;
            Ok(Val::Bytes(Blob::Shared([&**one, &**other].concat().into())))
        }
        [Val::List(one), Val::List(other)] => add_lists(run, one, other).map(Val::List),
        [Val::Duration(one), Val::Duration(other)] => times::of_nanoseconds(one.checked_add(*other)),
        [Val::Timestamp(time), Val::Duration(length)] | [Val::Duration(length), Val::Timestamp(time)] => {
            times::moved(*time, *length)
        }
        _ => Err(no_overload()),
    }
}

fn add_lists<'v>(run: &mut Run<'v>, one: &List<'v>, other: &List<'v>) -> Result<List<'v>, Failure> {
    if other.len() == 0 {
        return Ok(one.clone());
    }
    let identity = one.identity();
    if one.len() == 0 && identity.is_none() {
        return Ok(other.clone());
    }
    run.make_values(one.len() + other.len())?;
    match identity {
        Some(shape) => Ok(List::Joined(shape, Arc::new(shape.joined(run, one, other)?))),
        None => Ok(List::Made(Arc::new(one.iter().chain(other.iter()).collect()))),
    }
}

pub(crate) fn subtract<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(one), Val::Int(other)] => int(one.checked_sub(*other)),
        [Val::Uint(one), Val::Uint(other)] => uint(one.checked_sub(*other)),
        [Val::Double(one), Val::Double(other)] => Ok(Val::Double(one - other)),
        [Val::Duration(one), Val::Duration(other)] => times::of_nanoseconds(one.checked_sub(*other)),
        [Val::Timestamp(time), Val::Duration(length)] => times::moved_back(*time, *length),
        [Val::Timestamp(one), Val::Timestamp(other)] => times::between(*one, *other),
        _ => Err(no_overload()),
    }
}

pub(crate) fn multiply<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(one), Val::Int(other)] => int(one.checked_mul(*other)),
        [Val::Uint(one), Val::Uint(other)] => uint(one.checked_mul(*other)),
        [Val::Double(one), Val::Double(other)] => Ok(Val::Double(one * other)),
        _ => Err(no_overload()),
    }
}

pub(crate) fn divide<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(fault("division by zero")),
        [Val::Int(one), Val::Int(other)] => int(one.checked_div(*other)),
        [Val::Uint(one), Val::Uint(other)] => uint(one.checked_div(*other)),
        [Val::Double(one), Val::Double(other)] => Ok(Val::Double(one / other)),
        _ => Err(no_overload()),
    }
}

pub(crate) fn modulo<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(fault("modulus by zero")),
        [Val::Int(one), Val::Int(other)] => int(one.checked_rem(*other)),
        [Val::Uint(one), Val::Uint(other)] => uint(one.checked_rem(*other)),
        _ => Err(no_overload()),
    }
}

pub(crate) fn negate<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(number)] => int(number.checked_neg()),
        [Val::Double(number)] => Ok(Val::Double(-number)),
        [Val::Duration(nanoseconds)] => {
            nanoseconds.checked_neg().map(Val::Duration).ok_or_else(|| fault(OVERFLOW))
        }
        _ => Err(no_overload()),
    }
}
