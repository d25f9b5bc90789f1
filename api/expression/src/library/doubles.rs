//! Texts of doubles: how they are read and written.
//!
//! Owns the reference's forms: decimals and hexadecimals with an exponent of two, `_` between digits, names of what is no number.

/// Binary digits of a double.
const DIGITS: i64 = 53;
/// The exponent of the last digit of the smallest doubles.
const EXPONENT_MIN: i64 = -1074;
/// The exponent of the last digit of the largest doubles.
const EXPONENT_MAX: i64 = 971;
/// Hexadecimal digits that are read; others only tell whether something is behind those.
const HEX_DIGITS: usize = 16;
/// Exponents beyond are all alike.
const EXPONENT_READ_MAX: i64 = 1 << 40;

/// The number that `text` is: as Rust reads it, but for hexadecimals, numbers that no double holds, a sign before `nan`, and lines
/// between digits.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let number = parse_hexadecimal(digits)?;
        return Some(if text.starts_with('-') { -number } else { number });
    }
    if unsigned.len() < text.len() && unsigned.eq_ignore_ascii_case("nan") {
        return None;
    }
    let number: f64 = without_lines(text, u8::is_ascii_digit, false)?.parse().ok()?;
    let is_named = unsigned.starts_with(['i', 'I']);
    (number.is_finite() || number.is_nan() || is_named).then_some(number)
}

/// `text` without the lines that stand between two digits; `None` with another one. A line may stand at the start where
/// `is_behind_digit`.
fn without_lines(text: &str, is_digit: fn(&u8) -> bool, is_behind_digit: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let is_between = |(at, _): (usize, &str)| {
        let before = at.checked_sub(1).map_or(is_behind_digit, |at| is_digit(&bytes[at]));
        before && bytes.get(at + 1).is_some_and(is_digit)
    };
    text.match_indices('_').all(is_between).then(|| text.replace('_', ""))
}

/// The number behind `0x`: digits with or without a point, and an exponent of two, which has to be there.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (number, exponent) = text.split_once(['p', 'P'])?;
    let number = without_lines(number, u8::is_ascii_hexdigit, true)?;
    let exponent = without_lines(exponent, u8::is_ascii_digit, false)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits: Vec<u32> =
        whole.chars().chain(fraction.chars()).map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    if digits.is_empty() {
        return None;
    }
    let mut exponent = parse_exponent(&exponent)?.checked_sub(4 * i64::try_from(fraction.len()).ok()?)?;
    let start = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
    let read = &digits[start..digits.len().min(start + HEX_DIGITS)];
    let rest = &digits[start + read.len()..];
    exponent += 4 * i64::try_from(rest.len()).ok()?;
    let mantissa = read.iter().fold(0_u128, |sum, digit| (sum << 4) | u128::from(*digit));
    // One more digit stands for the digits that are left out, if any of them is not zero.
    let is_more = rest.iter().any(|digit| *digit != 0);
    rounded((mantissa << 1) | u128::from(is_more), exponent - 1)
}

/// The number of an exponent, with or without a sign.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number =
        digits.bytes().fold(0_i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(EXPONENT_READ_MAX));
    Some(if text.starts_with('-') { -number } else { number })
}

/// The double next to `mantissa` times two to the power of `exponent`, of two the even one; `None` of one that is too large.
fn rounded(mantissa: u128, exponent: i64) -> Option<f64> {
    if mantissa == 0 {
        return Some(0.0);
    }
    let bits = i64::from(u128::BITS - mantissa.leading_zeros());
    let last = (bits + exponent - DIGITS).max(EXPONENT_MIN);
    if last > EXPONENT_MAX {
        return None;
    }
    let shift = last - exponent;
    let whole = match u32::try_from(shift) {
        Ok(0) => mantissa,
        // All of it is less than half of the smallest double.
        Ok(shift) if shift >= u128::BITS => 0,
        Ok(shift) => {
            let (whole, half) = (mantissa >> shift, 1_u128 << (shift - 1));
            let behind = mantissa & ((half << 1) - 1);
            whole + u128::from(behind > half || behind == half && whole % 2 == 1)
        }
        // Fewer digits than a double has.
        Err(_) => mantissa << u32::try_from(-shift).ok()?,
    };
    // The digits of a double stand behind its exponent, into which a digit too many is carried.
    let steps = u64::try_from(last - EXPONENT_MIN).ok()?;
    let number = f64::from_bits((steps << (DIGITS - 1)) + u64::try_from(whole).ok()?);
    number.is_finite().then_some(number)
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

    #[test]
    fn hexadecimal_doubles_are_read_as_in_the_reference() {
        for text in [
            "0x1", "0x", "0xp1", "0x1p", "0x1p+", "0x_p1", "0x1_p1", "0x1p_1", "0x.p1", "0x1.p1.5",
            "0x1p1024", "0xgp1",
        ] {
            assert_eq!(parse_double(text), None, "{text}");
        }
        for (text, number) in [
            ("0x1p-2", 0.25),
            ("-0X1.8P1", -3.0),
            ("+0x_1_2.3_4_5p+1_2", 74_565.0),
            ("0x.8p0", 0.5),
            ("0x10.p0", 16.0),
            ("0x0p9999999999999999999999", 0.0),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1p-99999", 0.0),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.fffffffffffff7p1023", f64::MAX),
            // Halves go to the even one; what is behind a half goes up.
            ("0x20000000000001p0", 9_007_199_254_740_992.0),
            ("0x20000000000003p0", 9_007_199_254_740_996.0),
            ("0x20000000000001.00000000000000000001p0", 9_007_199_254_740_994.0),
            ("0x0.0000000000000001p64", 1.0),
        ] {
            assert_eq!(parse_double(text), Some(number), "{text}");
        }
        assert_eq!(parse_double("0x1.fffffffffffff8p1023"), None, "rounds beyond the largest");
        assert!(parse_double("-0x0p0").is_some_and(f64::is_sign_negative));
    }
}
