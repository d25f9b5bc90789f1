//! Conversions between types.

use std::borrow::Cow;

use super::doubles::{of_double, parse_double};
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

pub(crate) fn type_of<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let value = arguments.first().ok_or_else(no_overload)?;
    Ok(Val::Type(match value.branded_type(run.brand()) {
        Cow::Borrowed(name) => Text::Borrowed(name),
        Cow::Owned(name) => Text::from(name),
    }))
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
