//! Quantities as integers: milli-units of CPU, units of everything else, rounded up as the reference does.
//!
//! Owns parsing of the forms `1500m`, `1.5`, `2Gi`, `1e3`. A text that is no quantity counts as zero: the API server
//! stores none.

/// Thousandths of a unit, rounded up. Saturates.
pub fn milli(text: &str) -> i64 {
    scaled(text, 1_000)
}

/// Whole units, rounded up. Saturates.
pub fn units(text: &str) -> i64 {
    scaled(text, 1)
}

/// Digits before and after the point that are kept: more do not change a 64-bit result.
const DIGITS_MAX: u32 = 24;

fn scaled(text: &str, scale: i128) -> i64 {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(digits_end);
    let Some((multiplier, divisor)) = factor(suffix) else { return 0 };
    let (mut mantissa, mut decimals, mut digits, mut point) = (0i128, 1i128, 0u32, false);
    for byte in number.bytes() {
        if byte == b'.' {
            point = true;
        } else if digits < DIGITS_MAX {
            mantissa = mantissa * 10 + i128::from(byte - b'0');
            digits += u32::from(mantissa != 0);
            if point {
                decimals *= 10;
            }
        } else if !point {
            return if negative { i64::MIN } else { i64::MAX };
        }
    }
    let numerator = mantissa.saturating_mul(scale).saturating_mul(multiplier);
    let denominator = decimals.saturating_mul(divisor);
    let value = (numerator / denominator).saturating_add(i128::from(numerator % denominator != 0));
    let value = if negative { -value } else { value };
    i64::try_from(value).unwrap_or(if negative { i64::MIN } else { i64::MAX })
}

/// What a suffix multiplies by and divides by; `None` if it is no suffix.
fn factor(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10i128.saturating_pow(power.unsigned_abs().min(30));
            if power < 0 { (1, factor) } else { (factor, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{milli, units};

    #[test]
    fn quantities_become_integers_rounded_up() {
        for (text, in_milli, in_units) in [
            ("1", 1000, 1),
            ("500m", 500, 1),
            ("1.5", 1500, 2),
            ("0.0001", 1, 1),
            ("2Gi", 2_147_483_648_000, 2_147_483_648),
            ("128974848", 128_974_848_000, 128_974_848),
            ("129e6", 129_000_000_000, 129_000_000),
            ("129M", 129_000_000_000, 129_000_000),
            ("1E", i64::MAX, 1_000_000_000_000_000_000),
            ("9223372036854775808", i64::MAX, i64::MAX),
            ("1u", 1, 1),
            ("5e-1", 500, 1),
            ("-1", -1000, -1),
            ("0", 0, 0),
            ("x", 0, 0),
        ] {
            assert_eq!(milli(text), in_milli, "{text} in milli-units");
            assert_eq!(units(text), in_units, "{text} in units");
        }
    }
}
