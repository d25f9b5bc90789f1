//! Strings and floats as the reference's JSON encoder writes them.
//!
//! Owns the escapes: besides what JSON asks for, `<`, `>`, `&` and the two Unicode line separators.

use super::scan::find;

/// Writes `text` in quotes.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let (mut written, mut seen) = (0, 0);
    while let Some(found) = find(&bytes[seen..], may_begin_escape) {
        let at = seen + found;
        let Some((escape, len)) = escape(&bytes[at..]) else {
            seen = at + 1;
            continue;
        };
        out.extend_from_slice(&bytes[written..at]);
        out.extend_from_slice(escape);
        if escape == b"\\u00" {
            out.extend_from_slice(&[hex(bytes[at] >> 4), hex(bytes[at] & 15)]);
        }
        written = at + len;
        seen = written;
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

/// Whether an escape may begin with the byte: a control character, a quote, one of the three of HTML, or the lead of U+2028 and U+2029.
fn may_begin_escape(byte: u8) -> bool {
    let is_quote = (byte == b'"') | (byte == b'\\');
    let is_of_html = (byte == b'<') | (byte == b'>') | (byte == b'&');
    (byte < 0x20) | is_quote | is_of_html | (byte == 0xE2)
}

/// The escape of the first character of `bytes`, and that character's length in bytes. The caller writes the two digits
/// after `\u00`.
fn escape(bytes: &[u8]) -> Option<(&'static [u8], usize)> {
    let escape: &[u8] = match bytes {
        [b'"', ..] => b"\\\"",
        [b'\\', ..] => b"\\\\",
        [0x08, ..] => b"\\b",
        [0x0c, ..] => b"\\f",
        [b'\n', ..] => b"\\n",
        [b'\r', ..] => b"\\r",
        [b'\t', ..] => b"\\t",
        [0xE2, 0x80, 0xA8, ..] => return Some((b"\\u2028", 3)),
        [0xE2, 0x80, 0xA9, ..] => return Some((b"\\u2029", 3)),
        [0xE2, ..] => return None,
        _ => b"\\u00",
    };
    Some((escape, 1))
}

fn hex(digit: u8) -> u8 {
    b"0123456789abcdef"[usize::from(digit)]
}

/// Writes a finite float: plain digits, or an exponent where it is below 1e-6 or from 1e21 on.
pub(super) fn write_float(value: f64, out: &mut Vec<u8>) {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        // The reference writes the sign of a positive exponent: 1e+21.
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => {
                out.extend_from_slice(format!("{mantissa}e+{exponent}").as_bytes());
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
        return;
    }
    out.extend_from_slice(format!("{value}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_the_reference_does() {
        for (given, wanted) in [
            ("plain", r#""plain""#),
            ("a<b>&c", r#""a\u003cb\u003e\u0026c""#),
            ("\"\\\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}", "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}\""),
            ("é\u{2028}\u{2029}\u{2030}", "\"é\\u2028\\u2029\u{2030}\""),
        ] {
            let mut out = Vec::new();
            write_string(given, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }

    #[test]
    fn floats_are_written_as_the_reference_does() {
        for (given, wanted) in [
            (0.5, "0.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-7, "1e-7"),
            (-2.5e-9, "-2.5e-9"),
        ] {
            let mut out = Vec::new();
            write_float(given, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
