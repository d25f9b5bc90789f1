//! Texts in quotes.
//!
//! Owns the escapes in them: those of the reference's language, of which the quote that does not surround the text is none.

use std::str::Chars;

/// The text that `text`, which stands between two of `quote`, means; `None` where an escape is none.
pub(super) fn unquoted(text: &str, quote: char) -> Option<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.chars());
    while let Some(next) = rest.next() {
        out.push(match next {
            '\\' => escaped(&mut rest, quote)?,
            _ if next == quote => return None,
            _ => next,
        });
    }
    Some(out)
}

/// The character of an escape, of which `rest` is what follows the backslash. A byte that is no character on its own is U+FFFD.
fn escaped(rest: &mut Chars<'_>, quote: char) -> Option<char> {
    let of_byte = |byte: u32| {
        u8::try_from(byte).ok().map(|byte| if byte.is_ascii() { byte.into() } else { '\u{fffd}' })
    };
    let letter = rest.next()?;
    if let Some(plain) = simple_escape(letter, quote) {
        return Some(plain);
    }
    Some(match letter {
        'x' => of_byte(number(rest, 0, 2, 16)?)?,
        'u' => char::from_u32(number(rest, 0, 4, 16)?)?,
        'U' => char::from_u32(number(rest, 0, 8, 16)?)?,
        digit @ '0'..='7' => of_byte(number(rest, digit.to_digit(8)?, 2, 8)?)?,
        _ => return None,
    })
}

/// The character that `letter` means behind a backslash, in a text between two of `quote`; `None`: it begins a number, or is no escape.
pub(crate) fn simple_escape(letter: char, quote: char) -> Option<char> {
    Some(match letter {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        same if same == quote => same,
        _ => return None,
    })
}

/// The number that begins with `first` and goes on with `digits` digits of `rest`.
fn number(rest: &mut Chars<'_>, first: u32, digits: usize, radix: u32) -> Option<u32> {
    (0..digits)
        .try_fold(first, |number, _| number.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_the_reference() {
        for (text, meant) in [
            ("plain", Some("plain")),
            (r"a\n\x41\u00e9\U0001f600\101\\", Some("a\nA\u{e9}\u{1f600}A\\")),
            (r#"\""#, Some("\"")),
            (r"\'", None),
            (r"\xff", Some("\u{fffd}")),
            (r"\777", None),
            (r"\ud800", None),
            (r"\q", None),
            (r"\x4", None),
            ("\\", None),
        ] {
            assert_eq!(unquoted(text, '"').as_deref(), meant, "{text}");
        }
    }
}
