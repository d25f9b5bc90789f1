//! `format`: texts with clauses such as `%s`, in the reference's second version.

use std::fmt::Write;

use super::conversions::of_double;
use super::strings;
use super::times::{text_of_duration, text_of_timestamp};
use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{Map, Val};

/// Decimal places where none are given, and at most.
const PLACES: usize = 6;
const PLACES_MAX: usize = 100;
/// Bytes that are counted for a number before it is written.
const NUMBER_BYTES: usize = 128;

pub(crate) fn format<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(clauses), Val::List(values)] = arguments else { return Err(no_overload()) };
    run.make_bytes(clauses.len())?;
    let mut out = String::new();
    let mut letters = clauses.chars();
    let mut at = 0;
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let unfinished = || failed("unexpected end of string");
        let mut clause = letters.next().ok_or_else(unfinished)?;
        if clause == '%' {
            out.push('%');
            continue;
        }
        let mut places = None;
        if clause == '.' {
            let mut digits = String::new();
            clause = loop {
                let missing = || failed("could not find end of precision specifier");
                let next = letters.next().ok_or_else(missing)?;
                if !next.is_ascii_digit() {
                    break next;
                }
                digits.push(next);
            };
            let parsed = digits.parse::<usize>().map_err(|_| failed("precision specifier is no number"))?;
            places = Some(parsed.min(PLACES_MAX));
        }
        let value = values.get(at).ok_or_else(|| failed(&format!("index {at} out of range")))?;
        at += 1;
        let written = written(run, clause, places.unwrap_or(PLACES), &value)?;
        run.make_bytes(written.len())?;
        out.push_str(&written);
    }
    Ok(Val::text(out))
}

fn failed(reason: &str) -> Failure {
    fault(format!("error during formatting: {reason}"))
}

fn refused(what: &str, value: &Val<'_>) -> Failure {
    failed(&format!("{what}, was given {}", value.type_name()))
}

/// The text of one clause.
fn written(run: &mut Run<'_>, clause: char, places: usize, value: &Val<'_>) -> Result<String, Failure> {
    match clause {
        's' => {
            let mut text = String::new();
            plain(run, &mut text, value, false)?;
            Ok(text)
        }
        'd' => match value {
            Val::Int(number) => Ok(number.to_string()),
            Val::Uint(number) => Ok(number.to_string()),
            other => {
                special(other).ok_or_else(|| refused("decimal clause can only be used on integers", other))
            }
        },
        'f' => match value {
            Val::Double(number) if number.is_finite() => Ok(grouped(&format!("{number:.places$}"))),
            other => {
                special(other).ok_or_else(|| refused("fixed-point clause can only be used on doubles", other))
            }
        },
        'e' => match value {
            Val::Double(number) if number.is_finite() => Ok(scientific(*number, places)),
            other => {
                special(other).ok_or_else(|| refused("scientific clause can only be used on doubles", other))
            }
        },
        'b' => match value {
            Val::Bool(truth) => Ok(u8::from(*truth).to_string()),
            Val::Int(number) => Ok(signed(*number, format!("{:b}", number.unsigned_abs()))),
            Val::Uint(number) => Ok(format!("{number:b}")),
            other => Err(refused("only integers and bools can be formatted as binary", other)),
        },
        'o' => match value {
            Val::Int(number) => Ok(signed(*number, format!("{:o}", number.unsigned_abs()))),
            Val::Uint(number) => Ok(format!("{number:o}")),
            other => Err(refused("octal clause can only be used on integers", other)),
        },
        'x' => hexadecimal(run, value),
        'X' => Ok(hexadecimal(run, value)?.to_ascii_uppercase()),
        other => Err(failed(&format!(
            "could not parse formatting clause: unrecognized formatting clause \"{other}\""
        ))),
    }
}

fn signed(number: i64, digits: String) -> String {
    if number < 0 { format!("-{digits}") } else { digits }
}

/// Numbers that are none, also as the texts that stand for them.
fn special(value: &Val<'_>) -> Option<String> {
    match value {
        Val::Double(number) if number.is_nan() => Some("NaN".to_owned()),
        Val::Double(number) if number.is_infinite() => {
            Some(if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned())
        }
        Val::Text(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => Some((**text).to_owned()),
        _ => None,
    }
}

/// A decimal with a comma after each three digits before the point.
fn grouped(decimal: &str) -> String {
    let (sign, digits) = match decimal.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", decimal),
    };
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// `2.718280 × 10⁰⁰`.
fn scientific(number: f64, places: usize) -> String {
    let text = format!("{number:.places$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("\u{207b}", exponent),
        None => ("", exponent),
    };
    let raised = |digit: char| match digit {
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        other => char::from_u32(0x2070 + other.to_digit(10).unwrap_or(0)).unwrap_or(other),
    };
    let exponent: String = format!("{exponent:0>2}").chars().map(raised).collect();
    format!("{digits} \u{d7} 10{sign}{exponent}")
}

fn hexadecimal(run: &mut Run<'_>, value: &Val<'_>) -> Result<String, Failure> {
    let bytes = match value {
        Val::Int(number) => return Ok(signed(*number, format!("{:x}", number.unsigned_abs()))),
        Val::Uint(number) => return Ok(format!("{number:x}")),
        Val::Text(text) => text.as_bytes(),
        Val::Bytes(bytes) => bytes,
        other => {
            return Err(refused("only integers, byte buffers, and strings can be formatted as hex", other));
        }
    };
    run.make_bytes(bytes.len().saturating_mul(2))?;
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    Ok(out)
}

/// The text of `%s`. Inside of lists and maps some values are written so that they can be told apart.
fn plain(run: &mut Run<'_>, out: &mut String, value: &Val<'_>, is_inside: bool) -> Result<(), Failure> {
    run.tick(1)?;
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(_) | Val::Int(_) | Val::Uint(_) => {
            run.make_bytes(NUMBER_BYTES)?;
            out.push_str(&value.to_string());
        }
        Val::Double(number) if is_inside && number.is_finite() => {
            run.make_bytes(NUMBER_BYTES)?;
            out.push_str(&format!("{number:.PLACES$}"));
        }
        Val::Double(_) if is_inside => out.push_str(&special(value).unwrap_or_default()),
        Val::Double(number) => out.push_str(&of_double(*number)),
        Val::Text(text) if is_inside => {
            run.make_bytes(text.len())?;
            strings::push_quoted(text, out);
        }
        Val::Text(text) | Val::Type(text) => {
            run.make_bytes(text.len())?;
            out.push_str(text);
        }
        Val::Bytes(bytes) => {
            run.make_bytes(bytes.len())?;
            out.push_str(&String::from_utf8_lossy(bytes));
        }
        Val::Duration(nanoseconds) if is_inside => {
            out.push_str(&format!("duration(\"{}\")", text_of_duration(*nanoseconds)));
        }
        Val::Duration(nanoseconds) => out.push_str(&text_of_duration(*nanoseconds)),
        Val::Timestamp(time) if is_inside => {
            out.push_str(&format!("timestamp(\"{}\")", text_of_timestamp(*time)?));
        }
        Val::Timestamp(time) => out.push_str(&text_of_timestamp(*time)?),
        Val::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                plain(run, out, &item, true)?;
            }
            out.push(']');
        }
        Val::Map(map) => plain_map(run, out, map)?,
        other => {
            return Err(refused(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
                other,
            ));
        }
    }
    Ok(())
}

/// The text of `%s` for a map: its entries in the order of their keys' texts.
fn plain_map(run: &mut Run<'_>, out: &mut String, map: &Map<'_>) -> Result<(), Failure> {
    let mut entries: Vec<(String, Val<'_>)> = Vec::new();
    for (key, value) in map.iter() {
        let mut text = String::new();
        plain(run, &mut text, &key, true)?;
        entries.push((text, value));
    }
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    out.push('{');
    for (at, (key, value)) in entries.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(key);
        out.push(':');
        plain(run, out, value, true)?;
    }
    out.push('}');
    Ok(())
}
