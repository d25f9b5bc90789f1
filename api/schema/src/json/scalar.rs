//! Canonical forms of scalars that have more than one.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use crate::value::{Number, Value};

/// Base64 as the reference reads it: padded, and lenient about the bits that the last character leaves over.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// 2^53: from here on not every integer is exact as a 64-bit float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The canonical base64 of the base64 `text`; line breaks are dropped. `None` where it is no base64.
pub(crate) fn bytes(text: &str) -> Option<String> {
    decode_base64(text).map(|decoded| LENIENT.encode(decoded))
}

/// The bytes that `text` is the base64 of, as the reference reads it in JSON: line breaks are passed over. `None` where it is no base64.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let joined;
    let text = if text.contains(['\r', '\n']) {
        joined = text.replace(['\r', '\n'], "");
        &joined
    } else {
        text
    };
    LENIENT.decode(text).ok()
}

/// A float as a number in the form that the reference writes: without a fraction where it is whole. `None` where it is
/// not finite.
pub(crate) fn float(value: f64) -> Option<Value> {
    if value.fract() == 0.0 && value.abs() < EXACT_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        return Some(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number)
}

/// A number of untyped content: an integer where it is one and fits, a float otherwise.
pub(super) fn number(text: &str) -> Option<Value> {
    match text.parse::<i64>() {
        Ok(integer) => Some(Value::from(integer)),
        Err(_) => float(text.parse().ok()?),
    }
}
