//! Unsigned numbers, bytes, and the texts of doubles.

use super::calls::{Called, tenths};
use super::plain::Plain;

fn uint(number: Option<u64>) -> Called {
    number.map(|number| (Plain::Uint(number), 1)).ok_or_else(|| "unsigned integer overflow".to_owned())
}

/// The shortest text, with an exponent of two digits at least where that is below -4 or above 5.
pub(super) fn text_of_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let (small, large) = (0.0001, 1_000_000.0);
    let size = number.abs();
    if size == 0.0 || (small..large).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap();
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Calls with unsigned numbers and bytes.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    Some(match (name, arguments) {
        ("_+_", [Plain::Uint(one), Plain::Uint(other)]) => uint(one.checked_add(*other)),
        ("_-_", [Plain::Uint(one), Plain::Uint(other)]) => uint(one.checked_sub(*other)),
        ("_*_", [Plain::Uint(one), Plain::Uint(other)]) => uint(one.checked_mul(*other)),
        ("_/_", [Plain::Uint(_), Plain::Uint(0)]) => Err("division by zero".to_owned()),
        ("_%_", [Plain::Uint(_), Plain::Uint(0)]) => Err("modulus by zero".to_owned()),
        ("_/_", [Plain::Uint(one), Plain::Uint(other)]) => uint(one.checked_div(*other)),
        ("_%_", [Plain::Uint(one), Plain::Uint(other)]) => uint(one.checked_rem(*other)),
        ("uint", [Plain::Uint(number)]) => uint(Some(*number)),
        ("uint", [Plain::Int(number)]) => uint(u64::try_from(*number).ok()),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was tested")]
        ("uint", [Plain::Double(number)]) if *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 => {
            uint(Some(*number as u64))
        }
        ("uint", [Plain::Double(_)]) => uint(None),
        ("int", [Plain::Uint(number)]) => match i64::try_from(*number) {
            Ok(number) => Ok((Plain::Int(number), 1)),
            Err(_) => Err("integer overflow".to_owned()),
        },
        #[expect(clippy::cast_precision_loss, reason = "the language rounds")]
        ("double", [Plain::Uint(number)]) => Ok((Plain::Double(*number as f64), 1)),
        ("bytes", [Plain::Text(text)]) => {
            let cost = tenths(crate::length(text.chars().count()), 1);
            Ok((Plain::Bytes(text.as_bytes().to_vec()), cost))
        }
        ("string", [Plain::Bytes(bytes)]) => match String::from_utf8(bytes.clone()) {
            Ok(text) => Ok((Plain::Text(text), tenths(crate::length(bytes.len()), 1))),
            Err(_) => Err("invalid UTF-8 in bytes, cannot convert to string".to_owned()),
        },
        ("_+_", [Plain::Bytes(one), Plain::Bytes(other)]) => {
            let sum = [&one[..], &other[..]].concat();
            let cost = tenths(crate::length(sum.len()), 1);
            Ok((Plain::Bytes(sum), cost))
        }
        _ => return None,
    })
}
