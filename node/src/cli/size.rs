//! Sizes on the command line: a number of bytes, plain or with a binary unit (`Ki` to `Ti`).

/// Parses `512Ki`, `40Mi`, `2Gi`, or plain bytes. Fractions are refused.
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

/// Formats a size for [`parse_size`] in the largest unit that leaves no remainder.
pub(crate) fn format_size(bytes: u64) -> String {
    let units = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let unit = units.into_iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_as_it_is_read() {
        for text in ["0", "7", "3Ki", "1025", "40Mi", "2Gi", "1Ti"] {
            assert_eq!(format_size(parse_size(text).unwrap()), text);
        }
    }

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
