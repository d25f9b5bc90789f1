//! The bound on a client's text that messages repeat.
//!
//! Owns the bound, and the two forms in which messages show a value: in quotes, or as it stands. A value is counted by
//! the bytes that it takes in the answer, because each of a client's bytes may take five there: a control character is
//! escaped for people, and its backslash for JSON. The collectors of errors bound their number; the code that makes the
//! answer bounds each text, and all of them together, once more.
//!
//! Invariant: no value, key or name of a client stands in an error unless it passed one of these functions.

use std::borrow::Cow;

/// Bytes of a value that a message repeats, as JSON holds them; a mark follows a value that was cut. The reference
/// repeats values whole, and its recorded answers have values of 300 bytes. The client knows the value that it sent,
/// and a hundred errors stay below 160 KiB.
pub const VALUE_BYTES_MAX: usize = 512;

/// Most bytes that one byte of a text takes in the JSON of an answer: a control character's.
const ANSWER_BYTES_PER_BYTE_MAX: usize = 6;

/// Bytes that quotes and a mark add to a value that was cut.
const CUT_BYTES_MAX: usize = 40;

/// `text` in double quotes as messages show a string value: control characters escaped, everything else as it is, and
/// no more of it than [`VALUE_BYTES_MAX`].
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(VALUE_BYTES_MAX) + 2);
    out.push('"');
    let mut left = VALUE_BYTES_MAX;
    let mut is_whole = true;
    for character in text.chars() {
        let before = out.len();
        push_escaped(character, &mut out);
        match left.checked_sub(out[before..].chars().map(answer_bytes).sum()) {
            Some(rest) => left = rest,
            None => {
                out.truncate(before);
                is_whole = false;
                break;
            }
        }
    }
    out.push('"');
    if !is_whole {
        out.push_str(&mark(text.len()));
    }
    out
}

/// `text` without quotes; a long one is cut and marked.
pub fn part(text: &str) -> Cow<'_, str> {
    match beginning(text) {
        all if all.len() == text.len() => Cow::Borrowed(text),
        some => Cow::Owned(format!("{some}{}", mark(text.len()))),
    }
}

/// A value in the form that a message shows; a long one is cut and marked. The result of [`quoted`] always fits.
pub fn cut(shown: &str) -> Cow<'_, str> {
    match fitting(shown, VALUE_BYTES_MAX + CUT_BYTES_MAX) {
        all if all.len() == shown.len() => Cow::Borrowed(shown),
        _ => part(shown),
    }
}

/// The mark behind a value that was cut; `bytes` is the length of the whole value.
pub fn mark(bytes: usize) -> String {
    format!("... ({bytes} bytes)")
}

/// The longest beginning of `text` that takes at most [`VALUE_BYTES_MAX`] in an answer.
pub fn beginning(text: &str) -> &str {
    fitting(text, VALUE_BYTES_MAX)
}

/// The longest beginning of `text` that takes at most `bytes_max` in an answer.
pub fn fitting(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max / ANSWER_BYTES_PER_BYTE_MAX {
        return text;
    }
    let mut left = bytes_max;
    for (at, character) in text.char_indices() {
        match left.checked_sub(answer_bytes(character)) {
            Some(rest) => left = rest,
            None => return &text[..at],
        }
    }
    text
}

/// Bytes that `text` takes in an answer.
pub fn bytes_in_answer(text: &str) -> usize {
    text.chars().map(answer_bytes).sum()
}

/// Bytes that a character takes in the JSON of an answer, which escapes some.
fn answer_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => 6,
        other => other.len_utf8(),
    }
}

/// The first thirty bytes of a body, as messages show one that cannot be read: as text where they look like JSON, in
/// hexadecimal digits otherwise.
pub fn summary(body: &[u8]) -> String {
    const SUMMARY_BYTES: usize = 30;
    let start = &body[..body.len().min(SUMMARY_BYTES)];
    let more = if body.len() > SUMMARY_BYTES { " ..." } else { "" };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).chain([more.to_owned()]).collect(),
    }
}

fn push_escaped(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        control if control < ' ' || control == '\u{7f}' => {
            out.push_str(&format!("\\x{:02x}", u32::from(control)));
        }
        other if is_printable(other) => out.push(other),
        other if u32::from(other) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(other))),
        other => out.push_str(&format!("\\U{:08x}", u32::from(other))),
    }
}

/// Whether a character shows on its own or with the one before it: it is a letter, a mark, a number, a sign or the blank, and no
/// separator, no control or format character, and no code point of private use or without a character.
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // Marks are escaped at the beginning of a text alone.
    let behind_letter = String::from_iter(['a', character]);
    behind_letter.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::json;
    use crate::value::Value;
    use crate::write_value;

    fn in_json(text: &str) -> usize {
        let mut out = Vec::new();
        write_value(&json!(text), &mut out);
        out.len() - 2
    }

    #[test]
    fn quoting_escapes_control_characters() {
        for (text, expected) in
            [("a", "\"a\""), ("a\"b", "\"a\\\"b\""), ("\n\u{1}", "\"\\n\\x01\""), ("ä", "\"ä\"")]
        {
            assert_eq!(quoted(text), expected);
        }
        let unprinted = "\u{61c}\u{a0}\u{e0001}";
        assert_eq!(quoted(unprinted), r#""\u061c\u00a0\U000e0001""#);
        let printed = ['é', '\u{301}', '汉', '\u{1f600}', '€'];
        assert!(printed.into_iter().all(is_printable));
    }

    #[test]
    fn every_character_is_counted_as_answers_write_it() {
        for character in (0..0x3000).filter_map(char::from_u32).chain(['\u{fffd}', '\u{1f600}']) {
            let text = character.to_string();
            assert_eq!(bytes_in_answer(&text), in_json(&text), "{character:?}");
        }
    }

    #[test]
    fn a_value_is_cut_by_what_it_takes_in_the_answer() {
        for piece in ["x", "\u{1}", "\"", "\\", "<", "é", "\u{2028}", "\u{85}"] {
            let text = piece.repeat(60_000);
            for shown in [quoted(&text), part(&text).into_owned(), cut(&text).into_owned()] {
                let bytes = in_json(&shown);
                assert!((VALUE_BYTES_MAX - 8..=VALUE_BYTES_MAX + CUT_BYTES_MAX).contains(&bytes), "{shown}");
                assert!(shown.ends_with(&mark(text.len())), "{shown}");
            }
            assert_eq!(cut(&quoted(&text)), quoted(&text), "it is not cut twice");
        }
        let recorded = "x".repeat(300);
        assert_eq!(
            quoted(&recorded),
            Value::from(recorded).to_string(),
            "the reference shows such a value whole"
        );
    }
}
