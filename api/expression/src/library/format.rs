//! `format`: texts with clauses such as `%s`, in the reference's second version.

use std::fmt::Write;

use orch_schema::excerpt::quoted;

use super::clauses::{Clause, Clauses, Piece};
use super::conversions::NO_TEXT;
use super::doubles::of_double;
use super::strings;
use super::times::{text_of_duration, text_of_timestamp};
use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{Map, Val};

/// Decimal places where none are given.
const PLACES: usize = 6;
/// Bytes that are counted for a number before it is written.
const NUMBER_BYTES: usize = 128;

pub(crate) fn format<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::List(values)] = arguments else { return Err(no_overload()) };
    run.make_bytes(text.len())?;
    let mut out = String::new();
    let mut at = 0;
    let mut pieces = Clauses::of(text);
    while let Some(piece) = pieces.next() {
        if let Piece::Plain(text) = piece {
            out.push_str(text);
            continue;
        }
        let value = values.get(at).ok_or_else(|| fault(format!("index {at} out of range")))?;
        at += 1;
        if pieces.is_at_end() {
            return Err(fault("unexpected end of string"));
        }
        let clause = pieces.clause().map_err(fault)?;
        let written = written(run, clause, &value)?;
        run.make_bytes(written.len())?;
        out.push_str(&written);
    }
    Ok(Val::text(out))
}

fn failed(reason: &str) -> Failure {
    fault(format!("{FAILED}{reason}"))
}

/// How faults of values begin.
pub(crate) const FAILED: &str = "error during formatting: ";

/// The values that the clause `letter` takes, in the words of the reference.
pub(crate) fn taken(letter: char) -> &'static str {
    match letter {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
    }
}

fn refused(run: &Run<'_>, letter: char, value: &Val<'_>) -> Failure {
    failed(&format!("{}, was given {}", taken(letter), value.branded_type(run.brand())))
}

/// The text of one clause.
fn written(run: &mut Run<'_>, clause: Clause, value: &Val<'_>) -> Result<String, Failure> {
    match clause.letter {
        'd' => match value {
            Val::Int(number) => Ok(number.to_string()),
            Val::Uint(number) => Ok(number.to_string()),
            other => Err(refused(run, 'd', other)),
        },
        letter @ ('f' | 'e') => {
            let number = double(value).ok_or_else(|| refused(run, letter, value))?;
            Ok(match special(number) {
                Some(text) => text.to_owned(),
                None if letter == 'f' => fixed(number, clause.places.unwrap_or(PLACES)),
                None => scientific(number, clause.places),
            })
        }
        'b' => match value {
            Val::Bool(truth) => Ok(u8::from(*truth).to_string()),
            Val::Int(number) => Ok(signed(*number, format!("{:b}", number.unsigned_abs()))),
            Val::Uint(number) => Ok(format!("{number:b}")),
            other => Err(refused(run, 'b', other)),
        },
        'o' => match value {
            Val::Int(number) => Ok(signed(*number, format!("{:o}", number.unsigned_abs()))),
            Val::Uint(number) => Ok(format!("{number:o}")),
            other => Err(refused(run, 'o', other)),
        },
        'x' => hexadecimal(run, value),
        'X' => Ok(hexadecimal(run, value)?.to_ascii_uppercase()),
        _ => {
            let mut text = String::new();
            plain(run, &mut text, value, false)?;
            Ok(text)
        }
    }
}

fn signed(number: i64, digits: String) -> String {
    if number < 0 { format!("-{digits}") } else { digits }
}

/// A double, also as the text that stands for one that is no number.
fn double(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// The signs that stand for what is no number.
fn special(number: f64) -> Option<&'static str> {
    match number {
        number if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("\u{221e}"),
        f64::NEG_INFINITY => Some("-\u{221e}"),
        _ => None,
    }
}

/// The number with `places` digits behind the point. Zero has no sign.
fn fixed(number: f64, places: usize) -> String {
    let number = if number == 0.0 { 0.0 } else { number };
    grouped(&format!("{number:.places$}"))
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

/// `2.718280 × 10⁰⁰` with narrow spaces that do not break. A number behind the point of the clause is no number of
/// places: the reference takes it as that of letters, which are filled up with spaces.
fn scientific(number: f64, width: Option<usize>) -> String {
    let number = if number == 0.0 { 0.0 } else { number };
    let text = format!("{number:.PLACES$e}");
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
    let written = format!("{digits}\u{202f}\u{d7}\u{202f}10{sign}{exponent}");
    format!("{written:>width$}", width = width.unwrap_or(0))
}

fn hexadecimal(run: &mut Run<'_>, value: &Val<'_>) -> Result<String, Failure> {
    let bytes = match value {
        Val::Int(number) => return Ok(signed(*number, format!("{:x}", number.unsigned_abs()))),
        Val::Uint(number) => return Ok(format!("{number:x}")),
        Val::Text(text) => text.as_bytes(),
        Val::Bytes(bytes) => bytes,
        other => return Err(refused(run, 'x', other)),
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
        Val::Double(number) if is_inside => out.push_str(&format!("\"{}\"", of_double(*number))),
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
            let text = std::str::from_utf8(bytes)
                .map_err(|_| failed(&format!("could not convert argument {} to string", quoted(NO_TEXT))))?;
            if is_inside {
                out.push('b');
                strings::push_quoted(text, out);
            } else {
                out.push_str(text);
            }
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
        other if is_inside => {
            return Err(failed(&format!("no formatting function for {}", other.branded_type(run.brand()))));
        }
        other => return Err(refused(run, 's', other)),
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
