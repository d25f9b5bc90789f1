//! The text of a value as the reference prints it.
//!
//! Owns the forms of numbers and of composite values: JSON with sorted members.

use orch_schema::value::Value;
use orch_schema::write_value;

/// The text of `value`: a text as it is, an object or a list as JSON.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null => "<no value>".to_owned(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.to_string(),
            (None, Some(float)) => float_text(float),
            (None, None) => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => {
            let (mut sorted, mut json) = (value.clone(), Vec::new());
            sorted.sort_all_objects();
            write_value(&sorted, &mut json);
            String::from_utf8_lossy(&json).into_owned()
        }
    }
}

/// A number in the shortest form that reads back as the same; with an exponent of two digits from a million on, and below a
/// ten-thousandth.
fn float_text(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e6).contains(&magnitude) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}
