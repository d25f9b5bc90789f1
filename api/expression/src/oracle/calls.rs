//! Functions, each with its cost.

use super::plain::Plain;
use super::{addresses, amounts, formats, lists, mismatch, names, numbers, patterns, rights, times};

/// The value of a call and its cost, or the text of its fault.
pub(super) type Called = Result<(Plain, u64), String>;

/// `size` times `tenths` tenths, rounded up.
pub(super) fn tenths(size: u64, tenths: u64) -> u64 {
    (size * tenths).div_ceil(10)
}

/// The cost of reading a text.
pub(super) fn scan(text: &str) -> u64 {
    tenths(crate::length(text.chars().count()), 1)
}

/// A value as messages write it.
pub(super) fn text(value: &Plain) -> String {
    match value {
        Plain::Null => "null".to_owned(),
        Plain::Uint(number) => number.to_string(),
        Plain::Text(text) => text.clone(),
        Plain::Int(number) => number.to_string(),
        Plain::Bool(truth) => truth.to_string(),
        Plain::Double(number) => numbers::text_of_double(*number),
        Plain::Duration(nanoseconds) => times::text_of_duration(*nanoseconds),
        Plain::Time(time) => times::text_of_time(*time),
        Plain::Address(address) => addresses::text_of_address(address),
        Plain::Network(address, bits) => format!("{}/{bits}", addresses::text_of_address(address)),
        other => panic!("no message writes {other:?}"),
    }
}

/// An integer, unless it is none.
pub(super) fn int(number: Option<i64>) -> Called {
    number.map(|number| (Plain::Int(number), 1)).ok_or_else(|| "integer overflow".to_owned())
}

/// A truth value at this cost.
pub(super) fn boolean(truth: bool, cost: u64) -> Called {
    Ok((Plain::Bool(truth), cost))
}

/// Functions that keep a list as it is, or know that its items have an identity.
const KEEPING: [&str; 8] =
    ["_==_", "_!=_", "_+_", "dyn", "@in", "@insert", "optional.of", "optional.ofNonZeroValue"];

/// A value, a list without what tells its items apart.
fn as_list(value: &Plain) -> Plain {
    match value {
        Plain::Identified(_, items) => Plain::List(items.clone()),
        other => other.clone(),
    }
}

pub(super) fn call(name: &str, is_method: bool, arguments: &[Plain]) -> Called {
    let plain: Vec<Plain>;
    let mut arguments = arguments;
    if !KEEPING.contains(&name) {
        plain = arguments.iter().map(as_list).collect();
        arguments = &plain;
    }
    let of_types = [
        numbers::call,
        times::call,
        amounts::call,
        addresses::call,
        names::call,
        formats::call,
        rights::call,
        of_optionals,
    ];
    let mut called = of_types.into_iter().filter_map(|call| call(name, arguments));
    let called = called.next().or_else(|| patterns::call(name, is_method, arguments));
    let called = called.or_else(|| of_language(name, arguments));
    called.unwrap_or_else(|| Err(mismatch::text(name, arguments)))
}

/// Whether a value is a number that may be none.
fn is_number(value: &Plain) -> bool {
    matches!(value, Plain::Int(_) | Plain::Uint(_) | Plain::Double(_))
}

fn of_language(name: &str, arguments: &[Plain]) -> Option<Called> {
    Some(match (name, arguments) {
        ("_==_", [one, other]) if one.is_of_server() => boolean(one.equals(other), 1),
        ("_==_", [one, other]) => boolean(one.equals(other), tenths(one.size().min(other.size()), 1)),
        ("_!=_", [one, other]) => boolean(!one.equals(other), tenths(one.size().min(other.size()), 1)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => {
            let Some(order) = one.order(other) else {
                let is_nan = is_number(one) && is_number(other);
                return is_nan.then(|| Err("NaN values cannot be ordered".to_owned()));
            };
            let holds = match name {
                "_<_" => order.is_lt(),
                "_<=_" => order.is_le(),
                "_>_" => order.is_gt(),
                _ => order.is_ge(),
            };
            let is_text = matches!(one, Plain::Text(_) | Plain::Bytes(_));
            boolean(holds, if is_text { tenths(one.size().min(other.size()), 1) } else { 1 })
        }
        ("!_", [Plain::Bool(truth)]) => boolean(!truth, 1),
        ("_[_]" | "_[?_]" | "_?._", [Plain::List(_), key @ (Plain::Null | Plain::Text(_))]) => {
            Err(format!("unsupported index type '{}' in list", key.kind()))
        }
        ("_[_]", [of, key]) => match (of.get(key), of) {
            (Some(value), _) => Ok((value.clone(), 1)),
            (None, Plain::List(_)) => Err(format!("index out of bounds: {}", text(key))),
            (None, _) => Err(format!("no such key: {}", text(key))),
        },
        ("_[?_]" | "_?._", [Plain::Optional(of), key]) => {
            let found = of.as_ref().and_then(|of| of.get(key)).cloned();
            Ok((Plain::Optional(found.map(Box::new)), 1))
        }
        ("_[?_]" | "_?._", [of, key]) => Ok((Plain::Optional(of.get(key).cloned().map(Box::new)), 1)),
        ("@in", [wanted, Plain::List(items) | Plain::Identified(_, items)]) => {
            boolean(items.iter().any(|item| item.equals(wanted)), crate::length(items.len()))
        }
        ("@in", [key, map]) => boolean(map.get(key).is_some(), 1),
        ("size", [of @ (Plain::Text(_) | Plain::Bytes(_) | Plain::List(_) | Plain::Map(_))]) => {
            int(i64::try_from(of.size()).ok())
        }
        ("dyn", [value]) => Ok((value.clone(), 1)),
        ("type", [value]) => Ok((Plain::Type(value.kind()), 1)),
        ("string", [Plain::Null | Plain::List(_) | Plain::Map(_)]) => return None,
        ("string", [value]) => Ok((Plain::Text(text(value)), 1)),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" | "int" | "double", arguments) => {
            return arithmetic(name, arguments);
        }
        (name, [Plain::Text(of), rest @ ..]) => return of_text(name, of, rest),
        (name, [Plain::List(items), rest @ ..]) => return lists::call(name, items, rest),
        ("lists.range", [Plain::Int(end)]) => {
            let items: Vec<Plain> = (0..*end).map(Plain::Int).collect();
            let cost = crate::length(items.len()) + 11;
            Ok((Plain::List(items), cost))
        }
        _ => return None,
    })
}

/// Calls that make or read optionals, and those that macros make of maps.
fn of_optionals(name: &str, arguments: &[Plain]) -> Option<Called> {
    Some(match (name, arguments) {
        ("optional.of", [value]) => Ok((Plain::Optional(Some(Box::new(value.clone()))), 1)),
        ("optional.ofNonZeroValue", [value]) => {
            Ok((Plain::Optional((!value.is_zero()).then(|| Box::new(value.clone()))), 1))
        }
        ("optional.unwrap", [Plain::List(items)]) => {
            let some = items.iter().filter_map(|item| match item {
                Plain::Optional(value) => value.as_deref().cloned(),
                other => panic!("{other:?} is no optional"),
            });
            Ok((Plain::List(some.collect()), 1))
        }
        ("@merge", [Plain::Map(map), Plain::Map(entries)]) => {
            let mut map = map.clone();
            for (key, value) in entries {
                if map.iter().any(|(own, _)| own.equals(key)) {
                    return Some(Err(format!("insert failed: key {} already exists", text(key))));
                }
                map.push((key.clone(), value.clone()));
            }
            Ok((Plain::Map(map), 1))
        }
        ("optional.none", []) => Ok((Plain::Optional(None), 1)),
        ("hasValue", [Plain::Optional(value)]) => boolean(value.is_some(), 1),
        ("value", [Plain::Optional(Some(value))]) => Ok(((**value).clone(), 1)),
        ("value", [Plain::Optional(None)]) => Err("optional.none() dereference".to_owned()),
        ("first", [Plain::List(items)]) => Ok((Plain::Optional(items.first().cloned().map(Box::new)), 1)),
        ("last", [Plain::List(items)]) => Ok((Plain::Optional(items.last().cloned().map(Box::new)), 1)),
        ("@insert", [Plain::Map(map), key, value]) => {
            let mut map = map.clone();
            if map.iter().any(|(own, _)| own.equals(key)) {
                return Some(Err(format!("insert failed: key {} already exists", text(key))));
            }
            map.push((key.clone(), value.clone()));
            Ok((Plain::Map(map), 1))
        }
        _ => return None,
    })
}

fn arithmetic(name: &str, arguments: &[Plain]) -> Option<Called> {
    Some(match (name, arguments) {
        ("_+_", [Plain::Int(one), Plain::Int(other)]) => int(one.checked_add(*other)),
        ("_-_", [Plain::Int(one), Plain::Int(other)]) => int(one.checked_sub(*other)),
        ("_*_", [Plain::Int(one), Plain::Int(other)]) => int(one.checked_mul(*other)),
        ("_/_", [Plain::Int(_), Plain::Int(0)]) => Err("division by zero".to_owned()),
        ("_%_", [Plain::Int(_), Plain::Int(0)]) => Err("modulus by zero".to_owned()),
        ("_/_", [Plain::Int(one), Plain::Int(other)]) => int(one.checked_div(*other)),
        ("_%_", [Plain::Int(one), Plain::Int(other)]) => int(one.checked_rem(*other)),
        ("-_", [Plain::Int(one)]) => int(one.checked_neg()),
        ("_+_", [Plain::Double(one), Plain::Double(other)]) => Ok((Plain::Double(one + other), 1)),
        ("_-_", [Plain::Double(one), Plain::Double(other)]) => Ok((Plain::Double(one - other), 1)),
        ("_*_", [Plain::Double(one), Plain::Double(other)]) => Ok((Plain::Double(one * other), 1)),
        ("_/_", [Plain::Double(one), Plain::Double(other)]) => Ok((Plain::Double(one / other), 1)),
        ("-_", [Plain::Double(one)]) => Ok((Plain::Double(-one), 1)),
        ("_+_", [Plain::Text(one), Plain::Text(other)]) => {
            let sum = Plain::Text(format!("{one}{other}"));
            let cost = tenths(sum.size(), 1);
            Ok((sum, cost))
        }
        ("_+_", [one, other]) if one.items().is_some() => Ok((lists::sum(one, other)?, 1)),
        #[expect(clippy::cast_precision_loss, reason = "the language rounds")]
        ("double", [Plain::Int(number)]) => Ok((Plain::Double(*number as f64), 1)),
        ("double" | "int", [number @ (Plain::Double(_) | Plain::Int(_))]) if name == kind(number) => {
            Ok((number.clone(), 1))
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range was tested")]
        ("int", [Plain::Double(number)]) if number.abs() < 9_223_372_036_854_775_808.0 => {
            Ok((Plain::Int(*number as i64), 1))
        }
        ("int", [Plain::Double(_)]) => Err("integer overflow".to_owned()),
        _ => return None,
    })
}

fn kind(number: &Plain) -> &'static str {
    if let Plain::Int(_) = number { "int" } else { "double" }
}

fn of_text(name: &str, of: &str, rest: &[Plain]) -> Option<Called> {
    let letters: Vec<char> = of.chars().collect();
    let size = crate::length(letters.len());
    let out_of_range = |at: i64| Err(format!("index out of range: {at}"));
    Some(match (name, rest) {
        ("startsWith", [Plain::Text(part)]) => boolean(of.starts_with(part.as_str()), tenths(size, 1)),
        ("endsWith", [Plain::Text(part)]) => boolean(of.ends_with(part.as_str()), tenths(size, 1)),
        ("contains", [Plain::Text(part)]) => {
            let other = crate::length(part.chars().count());
            boolean(of.contains(part.as_str()), tenths(size, 1) * tenths(other, 1))
        }
        ("lowerAscii", []) => Ok((Plain::Text(of.to_ascii_lowercase()), tenths(size, 1))),
        ("upperAscii", []) => Ok((Plain::Text(of.to_ascii_uppercase()), tenths(size, 1))),
        ("trim", []) => Ok((Plain::Text(of.trim().to_owned()), tenths(size, 1))),
        ("charAt", [Plain::Int(at)]) => match usize::try_from(*at) {
            Ok(place) if place <= letters.len() => {
                Ok((Plain::Text(letters.get(place).map(char::to_string).unwrap_or_default()), 1))
            }
            _ => out_of_range(*at),
        },
        ("substring", [Plain::Int(start), ends @ ..]) => {
            let end = match ends {
                [Plain::Int(end)] => *end,
                [_, ..] => return None,
                [] => i64::try_from(letters.len()).unwrap(),
            };
            if !ends.is_empty() && *start > end {
                return Some(Err(format!("invalid substring range. start: {start}, end: {end}")));
            }
            let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(end)) else {
                return Some(out_of_range(if *start < 0 { *start } else { end }));
            };
            if from > letters.len() {
                return Some(out_of_range(*start));
            }
            if to > letters.len() {
                return Some(out_of_range(end));
            }
            Ok((Plain::Text(letters[from..to].iter().collect()), tenths(size, 1)))
        }
        ("replace", [Plain::Text(old), Plain::Text(new)]) => {
            Ok((Plain::Text(of.replace(old, new)), tenths(size, 2)))
        }
        ("split", [Plain::Text(separator)]) if separator.is_empty() => Ok((
            Plain::List(letters.iter().map(|letter| Plain::Text(letter.to_string())).collect()),
            tenths(size, 2),
        )),
        ("split", [Plain::Text(separator)]) => {
            let parts = of.split(separator.as_str()).map(|part| Plain::Text(part.to_owned()));
            Ok((Plain::List(parts.collect()), tenths(size, 2)))
        }
        _ => return None,
    })
}
