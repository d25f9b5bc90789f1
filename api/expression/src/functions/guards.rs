//! The words for calls whose arguments have types that a function does not take, which only `dyn` lets happen.
//!
//! Owns the reference's ways to say it: operators ask the first operand whether it has them, other functions ask whether one of their
//! overloads takes all arguments. It is asked behind a fault only.

use super::Function;
use crate::types::Type;
use crate::value::Val;

/// The text behind `no such overload` where the call of `function` has no value for these arguments; empty where the arguments have
/// the types of an overload, and their content is at fault. `brand` stands before the names of the server's own types.
pub(crate) fn mismatch(function: &Function, arguments: &[Val<'_>], brand: &str) -> String {
    let name = function.name;
    let kinds = |arguments: &[Val<'_>]| {
        arguments.iter().map(|value| value.branded_type(brand)).collect::<Vec<_>>().join(", ")
    };
    let Some((first, rest)) = arguments.split_first() else { return String::new() };
    if let Some(has) = operator(name, first) {
        // These types answer for themselves.
        let answers = matches!(first, Val::Text(_) | Val::Duration(_) | Val::Timestamp(_));
        return if has || answers { String::new() } else { format!(": {name}") };
    }
    if name == "flatten" {
        return format!(": {}.flatten({})", first.branded_type(brand), kinds(rest));
    }
    let fits = |overload: &super::Overload| {
        let pairs = || overload.parameters.iter().zip(arguments);
        overload.parameters.len() == arguments.len() && pairs().all(|(of, value)| takes(of, value))
    };
    // few: the overloads of one function.
    if function.overloads.iter().any(fits) {
        String::new()
    } else {
        format!(": {name}({})", kinds(arguments))
    }
}

/// Whether the first operand has the operator `name`; `None` of functions that are none.
fn operator(name: &str, first: &Val<'_>) -> Option<bool> {
    let is_number = matches!(first, Val::Int(_) | Val::Uint(_) | Val::Double(_));
    let is_time = matches!(first, Val::Duration(_) | Val::Timestamp(_));
    let is_text = matches!(first, Val::Text(_) | Val::Bytes(_));
    Some(match name {
        "!_" | "@in" | "_[_]" | "_[?_]" => true,
        "_<_" | "_<=_" | "_>_" | "_>=_" => is_number || is_time || is_text || matches!(first, Val::Bool(_)),
        "_+_" => is_number || is_time || is_text || matches!(first, Val::List(_)),
        "_-_" => is_number || is_time,
        "_*_" | "_/_" => is_number,
        "_%_" => matches!(first, Val::Int(_) | Val::Uint(_)),
        "-_" => matches!(first, Val::Int(_) | Val::Double(_) | Val::Bool(_) | Val::Duration(_)),
        "size" => is_text || matches!(first, Val::List(_) | Val::Map(_)),
        "matches" => matches!(first, Val::Text(_)),
        "sort" | "@sortByAssociatedKeys" => matches!(first, Val::List(_)),
        _ => return None,
    })
}

/// Whether a parameter of this type takes the value. Of a list or map, the first entry is looked at.
fn takes(of: &Type, value: &Val<'_>) -> bool {
    match (of, value) {
        (Type::Dyn | Type::Any | Type::Param(_), _)
        | (Type::Null, Val::Null)
        | (Type::Bool, Val::Bool(_))
        | (Type::Int, Val::Int(_))
        | (Type::Uint, Val::Uint(_))
        | (Type::Double, Val::Double(_))
        | (Type::String, Val::Text(_))
        | (Type::Bytes, Val::Bytes(_))
        | (Type::Duration, Val::Duration(_))
        | (Type::Timestamp, Val::Timestamp(_))
        | (Type::Optional(_), Val::Optional(_))
        | (Type::Type(_), Val::Type(_)) => true,
        (Type::List(of), Val::List(list)) => list.get(0).is_none_or(|item| takes(of, &item)),
        (Type::Map(of), Val::Map(map)) => {
            map.iter().next().is_none_or(|(key, value)| takes(&of.0, &key) && takes(&of.1, &value))
        }
        (Type::Opaque(name), value) => *name == value.type_name(),
        _ => false,
    }
}
