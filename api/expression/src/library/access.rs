//! Elements of lists and maps: `a[i]`, `a[?i]`, `in`, `size`.

use crate::error::{EvaluationError, Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{List, Map, Val, whole};

/// The place that `index` names in a list; numbers of all types count as their integer.
fn place(index: &Val<'_>, brand: &str) -> Result<Option<usize>, Failure> {
    let integer = match index {
        Val::Int(number) => Some(*number),
        Val::Uint(number) => i64::try_from(*number).ok(),
        Val::Double(number) => whole(*number),
        other => return Err(no_index(other, brand)),
    };
    let integer = integer.ok_or_else(|| fault(format!("unsupported index value {index} in list")))?;
    Ok(usize::try_from(integer).ok())
}

/// The fault of a value by which no list is read. `brand` stands before the names of the server's own types.
pub(crate) fn no_index(index: &Val<'_>, brand: &str) -> Failure {
    fault(format!("unsupported index type '{}' in list", index.branded_type(brand)))
}

fn item<'v>(list: &List<'v>, index: &Val<'v>, brand: &str) -> Result<Option<Val<'v>>, Failure> {
    Ok(place(index, brand)?.and_then(|at| list.get(at)))
}

fn entry<'v>(map: &Map<'v>, key: &Val<'v>) -> Result<Option<Val<'v>>, Failure> {
    match key {
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Text(_) => Ok(map.find(key)),
        other => Err(no_key(other)),
    }
}

/// The fault of a value that is no key.
fn no_key(key: &Val<'_>) -> Failure {
    fault(format!("invalid qualifier type: {}", key.program_name()))
}

fn no_such_key(key: &Val<'_>) -> Failure {
    Box::new(EvaluationError::NoSuchKey(key.to_string()))
}

pub(crate) fn index<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::List(list), index] => item(list, index, run.brand())?
            .ok_or_else(|| fault(format!("index out of bounds: {index}")))?
            .checked(),
        [Val::Map(map), key] => entry(map, key)?.ok_or_else(|| no_such_key(key))?.checked(),
        [Val::Optional(None), _] => Ok(Val::NONE),
        [Val::Optional(Some(value)), key] => optional(value, key, run.brand()),
        // Other values have no members.
        [_, key] => Err(no_such_key(key)),
        _ => Err(no_overload()),
    }
}

fn optional<'v>(value: &Val<'v>, key: &Val<'v>, brand: &str) -> Outcome<'v> {
    let found = match value {
        Val::List(list) => item(list, key, brand)?,
        Val::Map(map) if map.has(key) => entry(map, key)?,
        _ => None,
    };
    match found {
        Some(value) => value.checked().map(Val::some),
        None => Ok(Val::NONE),
    }
}

pub(crate) fn optional_index<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Optional(None), _] => Ok(Val::NONE),
        [Val::Optional(Some(value)), key] => optional(value, key, run.brand()),
        [value, key] => optional(value, key, run.brand()),
        _ => Err(no_overload()),
    }
}

pub(crate) fn contained<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [wanted, Val::List(list)] => {
            for item in list.iter() {
                run.tick(1)?;
                if run.equal(&item, wanted)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        [key, Val::Map(map)] => Ok(Val::Bool(map.has(key))),
        _ => Err(no_overload()),
    }
}

pub(crate) fn size<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let size = match arguments {
        [Val::Text(text)] => {
            run.read_bytes(text.len())?;
            text.chars().count()
        }
        [Val::Bytes(bytes)] => bytes.len(),
        [Val::List(list)] => list.len(),
        [Val::Map(map)] => map.len(),
        _ => return Err(no_overload()),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}
