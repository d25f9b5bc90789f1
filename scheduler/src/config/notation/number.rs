//! Numbers and truth values of flags.

use super::{Reason, quote};

/// Parses a truth value: `true`, `false`, `1`, `0` and the short forms of the reference.
pub fn parse_bool(text: &str) -> Result<bool, Reason> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(invalid("ParseBool", text, "invalid syntax")),
    }
}

/// Parses an integer of `bits` bits: decimal, or with the prefix `0x`, `0o`, `0` or `0b`.
pub fn parse_int(text: &str, bits: u32) -> Result<i64, Reason> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = magnitude(digits).map_err(|fault| invalid("ParseInt", text, fault))?;
    let value = if is_negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    let limit = 1_i128 << (bits - 1);
    match i64::try_from(value) {
        Ok(fitting) if value >= -limit && value < limit => Ok(fitting),
        _ => Err(invalid("ParseInt", text, "value out of range")),
    }
}

/// Parses an unsigned integer in decimal form.
pub fn parse_unsigned(text: &str) -> Result<u32, Reason> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u32>() {
        Ok(value) if is_number => Ok(value),
        _ if is_number => Err(invalid("ParseUint", text, "value out of range")),
        _ => Err(invalid("ParseUint", text, "invalid syntax")),
    }
}

/// Parses a floating-point number of 32 bits. `NaN` is none: a rate has to be comparable.
pub fn parse_float(text: &str) -> Result<f32, Reason> {
    let value: f32 = text.parse().map_err(|_| invalid("ParseFloat", text, "invalid syntax"))?;
    if value.is_nan() {
        return Err(invalid("ParseFloat", text, "not a number"));
    }
    let names_infinity = text.to_ascii_lowercase().contains("inf");
    if value.is_infinite() && !names_infinity {
        return Err(invalid("ParseFloat", text, "value out of range"));
    }
    Ok(value)
}

fn magnitude(digits: &str) -> Result<u64, &'static str> {
    let lower = digits.to_ascii_lowercase();
    let (radix, rest) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if rest.is_empty() || !rest.chars().all(|char| char.is_digit(radix)) {
        return Err("invalid syntax");
    }
    u64::from_str_radix(rest, radix).map_err(|_| "value out of range")
}

fn invalid(function: &str, text: &str, fault: &str) -> Reason {
    Reason::new(format!("strconv.{function}: parsing {}: {fault}", quote(text)))
}
