//! Sizes as the command line takes them: a number of bytes, or one with a unit of 1024s.

/// Reads `512Ki`, `40Mi`, `2Gi`, or plain bytes.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let expected = || "expected a size such as 40Mi or 2Gi".to_owned();
    let number: u64 = number.parse().map_err(|_| expected())?;
    let factor = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(format!("unknown unit {unit:?}; {}", expected())),
    };
    number.checked_mul(factor).ok_or_else(|| "more than a size can be".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024s_and_nothing_else_is_taken() {
        for (text, bytes) in
            [("7", 7), ("3Ki", 3072), (" 40Mi ", 40 << 20), ("2Gi", 2 << 30), ("1Ti", 1 << 40)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "Mi", "-1", "1.5Gi", "2GB", "99999999Ti", "1 Mi x"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
