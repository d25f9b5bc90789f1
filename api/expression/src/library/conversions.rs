//! Conversions between types.

use crate::error::{fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::library::{network, times};
use crate::value::{Blob, Text, Val};

const RANGE: &str = "integer overflow";
const UNSIGNED_RANGE: &str = "unsigned integer overflow";
/// The fault of bytes that are no text.
pub(crate) const NO_TEXT: &str = "invalid UTF-8 in bytes, cannot convert to string";

pub(crate) fn same<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    arguments.first().cloned().ok_or_else(no_overload)
}

pub(crate) fn type_of<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let value = arguments.first().ok_or_else(no_overload)?;
    Ok(Val::Type(Text::Borrowed(value.type_name())))
}

pub(crate) fn to_bool<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Bool(truth)] => Ok(Val::Bool(*truth)),
        [Val::Text(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(fault("type conversion error from 'string' to 'bool'")),
        },
        _ => Err(no_overload()),
    }
}

pub(crate) fn to_bytes<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(bytes.clone())),
        [Val::Text(Text::Borrowed(text))] => Ok(Val::Bytes(Blob::Borrowed(text.as_bytes()))),
        [Val::Text(text)] => {
            run.make_bytes(text.len())?;
            Ok(Val::Bytes(Blob::Shared(text.as_bytes().into())))
        }
        _ => Err(no_overload()),
    }
}

pub(crate) fn to_double<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    #[expect(clippy::cast_precision_loss, reason = "the language rounds")]
    match arguments {
        [Val::Double(number)] => Ok(Val::Double(*number)),
        [Val::Int(number)] => Ok(Val::Double(*number as f64)),
        [Val::Uint(number)] => Ok(Val::Double(*number as f64)),
        [Val::Text(text)] => {
            run.read_bytes(text.len())?;
            let parsed = parse_double(text).map(Val::Double);
            parsed.ok_or_else(|| fault("type conversion error from 'string' to 'double'"))
        }
        _ => Err(no_overload()),
    }
}

pub(crate) fn to_int<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Int(number)] => Ok(Val::Int(*number)),
        [Val::Uint(number)] => i64::try_from(*number).map(Val::Int).map_err(|_| fault(RANGE)),
        [Val::Double(number)] => {
            // Both limits are doubles; the reference refuses the least integer as well.
            let fits = *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0;
            #[expect(clippy::cast_possible_truncation, reason = "the range was tested")]
            if fits { Ok(Val::Int(*number as i64)) } else { Err(fault(RANGE)) }
        }
        [Val::Duration(nanoseconds)] => Ok(Val::Int(*nanoseconds)),
        [Val::Timestamp(time)] => Ok(Val::Int(time.unix_timestamp())),
        [Val::Text(text)] => {
            run.read_bytes(text.len())?;
            let parsed = text.parse().map(Val::Int);
            parsed.map_err(|_| fault("type conversion error from 'string' to 'int'"))
        }
        _ => Err(no_overload()),
    }
}

pub(crate) fn to_uint<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Uint(number)] => Ok(Val::Uint(*number)),
        [Val::Int(number)] => u64::try_from(*number).map(Val::Uint).map_err(|_| fault(UNSIGNED_RANGE)),
        [Val::Double(number)] => {
            let fits = *number >= 0.0 && *number < 18_446_744_073_709_551_616.0;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range was tested"
            )]
            if fits { Ok(Val::Uint(*number as u64)) } else { Err(fault(UNSIGNED_RANGE)) }
        }
        [Val::Text(text)] => {
            run.read_bytes(text.len())?;
            // A sign is read here, and not by the reference.
            let unsigned = text.strip_prefix('+').is_none().then(|| text.parse().ok()).flatten();
            unsigned.map(Val::Uint).ok_or_else(|| fault("type conversion error from 'string' to 'uint'"))
        }
        _ => Err(no_overload()),
    }
}

pub(crate) fn to_string<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Text(text)] => Ok(Val::Text(text.clone())),
        [Val::Bool(truth)] => Ok(Val::Text(Text::Borrowed(if *truth { "true" } else { "false" }))),
        [Val::Int(number)] => Ok(Val::text(number.to_string())),
        [Val::Uint(number)] => Ok(Val::text(number.to_string())),
        [Val::Double(number)] => Ok(Val::text(of_double(*number))),
        [Val::Duration(nanoseconds)] => Ok(Val::text(times::text_of_duration(*nanoseconds))),
        [Val::Timestamp(time)] => Ok(Val::text(times::text_of_timestamp(*time)?)),
        [Val::Ip(address)] => Ok(Val::text(address.to_string())),
        [Val::Cidr(address, bits)] => Ok(Val::text(network::text(*address, *bits))),
        [Val::Bytes(bytes)] => {
            run.make_bytes(bytes.len())?;
            let text = std::str::from_utf8(bytes);
            text.map(Val::text).map_err(|_| fault(NO_TEXT))
        }
        _ => Err(no_overload()),
    }
}

/// The number that `text` is: as Rust reads it, but for numbers that no double holds, a sign before `nan`, and lines between digits.
fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    if unsigned.len() < text.len() && unsigned.eq_ignore_ascii_case("nan") {
        return None;
    }
    let bytes = text.as_bytes();
    let is_between_digits = |(at, _): (usize, &str)| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        digit(at.checked_sub(1)) && digit(Some(at + 1))
    };
    if !text.match_indices('_').all(is_between_digits) {
        return None;
    }
    let number: f64 = text.replace('_', "").parse().ok()?;
    let is_named = unsigned.starts_with(['i', 'I']);
    (number.is_finite() || number.is_nan() || is_named).then_some(number)
}

/// The shortest text that is read as this number; with an exponent where it is below -4 or above 5.
pub(crate) fn of_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) || number == 0.0 {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_in_the_reference() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.5, "123456.5"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e100, "1e+100"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(of_double(number), text);
        }
    }

    #[test]
    fn doubles_are_read_as_in_the_reference() {
        for text in ["1e400", "-1e400", "+nan", "1_", "_1", "1__0", "1_.0", "", "1e"] {
            assert_eq!(parse_double(text), None, "{text}");
        }
        for (text, number) in
            [("1_000.5", 1000.5), ("-Inf", f64::NEG_INFINITY), ("+1e3", 1000.0), (".5", 0.5)]
        {
            assert_eq!(parse_double(text), Some(number), "{text}");
        }
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
    }
}
