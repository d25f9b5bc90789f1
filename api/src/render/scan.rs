//! Ends of strings and objects in JSON that the encoder wrote.
//!
//! Owns skipping over strings and objects without parsing. The input must be canonical: valid, and without white space
//! outside strings. For other input the results are within the bytes, but arbitrary.

use memchr::{memchr2, memchr3};

/// The position after the string whose opening quote is at `start`.
pub(super) fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

/// The position after the object whose opening brace is at `start`.
pub(super) fn object_end(json: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while let Some(found) = json.get(at..).and_then(|rest| memchr3(b'"', b'{', b'}', rest)) {
        at += found;
        match json[at] {
            b'"' => {
                at = string_end(json, at);
                continue;
            }
            b'{' => depth += 1,
            _ => depth = depth.saturating_sub(1),
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_closing_quote() {
        for (json, end) in [
            (r#""a",1"#, 3),
            (r#""","#, 2),
            (r#""a\"b"x"#, 6),
            (r#""a\\"x"#, 5),
            (r#""open"#, 5),
            (r#""\"#, 2),
        ] {
            assert_eq!(string_end(json.as_bytes(), 0), end, "{json}");
        }
    }

    #[test]
    fn objects_end_at_their_closing_brace() {
        for (json, end) in [
            ("{},1", 2),
            (r#"{"a":{"b":"}"}},{}"#, 15),
            (r#"{"a":["{",{}]}}"#, 14),
            (r#"{"\"}":1}x"#, 9),
            ("{open", 5),
        ] {
            assert_eq!(object_end(json.as_bytes(), 0), end, "{json}");
        }
    }
}
