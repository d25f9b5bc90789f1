//! Patterns of RE2 in the library's syntax, as far as the two read the same text differently.
//!
//! Owns the differences of the text; those of the tree are [`super::syntax`]'s. Inside of a class RE2 reads a bare `[`, and the
//! signs of set operations (`&&`, `--`, `~~`), as characters, and a `-` behind `\w` as one; a brace that begins no count is a
//! character; `\0` and `\101` are octal, `\<` is a character, `\Q...\E` quotes. Of no other text does it change the meaning,
//! and a text without differences it leaves alone.
//!
//! Invariant: the result is no longer than [`GROWTH_MAX`] times the pattern, and takes time in proportion to it.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use super::syntax::fault;

/// Most bytes that are written for one byte of a pattern: an octal escape of two bytes becomes one of seven.
const GROWTH_MAX: usize = 4;

/// Names of classes of characters (`[:alpha:]`).
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// The pattern in the library's syntax.
///
/// # Errors
/// It has an escape or a class that RE2 does not know; the text says which.
pub(super) fn translated(pattern: &str) -> Result<Cow<'_, str>, Arc<str>> {
    let mut translation =
        Translation { rest: pattern, text: String::with_capacity(pattern.len()), is_class: false };
    translation.run()?;
    let text = translation.text;
    assert!(text.len() <= GROWTH_MAX * pattern.len(), "a translation grows in proportion to its pattern");
    Ok(if text == pattern { Cow::Borrowed(pattern) } else { Cow::Owned(text) })
}

struct Translation<'p> {
    rest: &'p str,
    text: String,
    /// The position is inside of a class.
    is_class: bool,
}

impl<'p> Translation<'p> {
    fn run(&mut self) -> Result<(), Arc<str>> {
        while let Some(next) = self.rest.chars().next() {
            match next {
                '\\' => self.escape()?,
                '[' if self.is_class => self.bracket_in_class()?,
                '[' => self.open_class(),
                ']' if self.is_class => {
                    self.is_class = false;
                    self.keep(1);
                }
                '&' | '~' | '-' if self.is_class => self.operator(next),
                '{' if !self.is_class && count_length(self.rest).is_none() => self.quoted("{"),
                _ => self.keep(next.len_utf8()),
            }
        }
        Ok(())
    }

    /// Takes `length` bytes as they are.
    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length);
        self.text.push_str(kept);
        self.rest = rest;
    }

    /// Takes one character of one byte, which becomes itself whatever stands beside it.
    fn quoted(&mut self, character: &str) {
        self.text.push('\\');
        self.text.push_str(character);
        self.rest = &self.rest[character.len()..];
    }

    /// The beginning of a class. A `]` right behind it is a character.
    fn open_class(&mut self) {
        self.is_class = true;
        self.keep(1);
        if self.rest.starts_with('^') {
            self.keep(1);
        }
        if self.rest.starts_with(']') {
            self.quoted("]");
        }
    }

    /// A `[` inside of a class: the name of a class, or a character.
    fn bracket_in_class(&mut self) -> Result<(), Arc<str>> {
        let named = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"));
        let Some((name, _)) = named else {
            self.quoted("[");
            return Ok(());
        };
        let length = name.len() + "[::]".len();
        // few: the names.
        if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(fault("invalid character class range", &self.rest[..length]));
        }
        self.keep(length);
        Ok(())
    }

    /// A sign inside of a class that is an operator of the library where it stands twice. As the end of a range it is one
    /// character, which may be quoted, too.
    fn operator(&mut self, sign: char) {
        let behind = &self.rest[1..];
        if !behind.starts_with(sign) {
            return self.keep(1);
        }
        if sign == '-' {
            // `+--` is the range up to `-`, and `--a` the one from it.
            let is_range = !self.text.ends_with(['[', '^']) && self.ends_with_character();
            if is_range {
                self.keep(1);
                return self.quoted("-");
            }
        }
        self.quoted(sign.encode_utf8(&mut [0; 4]));
    }

    /// Whether the text ends with a character that may begin a range.
    fn ends_with_character(&self) -> bool {
        let escaped = ["\\d", "\\D", "\\s", "\\S", "\\w", "\\W", ":]", "}"];
        // few: eight.
        !escaped.iter().any(|end| self.text.ends_with(end))
    }

    /// A backslash and what belongs to it.
    fn escape(&mut self) -> Result<(), Arc<str>> {
        let Some(escaped) = self.rest[1..].chars().next() else {
            self.keep(1);
            return Ok(());
        };
        let behind = &self.rest[1 + escaped.len_utf8()..];
        match escaped {
            '0'..='7' if escaped == '0' || behind.starts_with(|digit| ('0'..='7').contains(&digit)) => {
                self.octal()
            }
            'Q' => self.quotation(),
            // Without a beginning it means nothing.
            'E' => self.rest = behind,
            '<' | '>' => {
                self.text.push(escaped);
                self.rest = behind;
            }
            'p' | 'P' => self.unicode(escaped, behind),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' if self.is_class => {
                self.keep(2);
                // A `-` behind a class begins no range.
                if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                    self.quoted("-");
                }
            }
            'b' | 'B' => {
                self.keep(2);
                if self.rest.starts_with('{') && count_length(self.rest).is_none() {
                    self.quoted("{");
                }
            }
            // The library's own.
            'u' | 'U' => return Err(fault("invalid escape sequence", &self.rest[..2])),
            'x' if behind.starts_with('{') => {
                let length = behind.find('}').map_or(behind.len(), |end| end + 1);
                self.keep(2 + length);
            }
            _ => self.keep(1 + escaped.len_utf8()),
        }
        Ok(())
    }

    /// A character by up to three octal digits.
    fn octal(&mut self) {
        let digits = self.rest[1..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        let (octal, rest) = self.rest[1..].split_at(digits);
        let code = octal.bytes().fold(0, |code, digit| code * 8 + u32::from(digit - b'0'));
        write!(self.text, "\\x{{{code:X}}}").expect("a string takes any text");
        self.rest = rest;
    }

    /// The text up to `\E`, or to the end, as characters.
    fn quotation(&mut self) {
        let behind = &self.rest[2..];
        let (quoted, rest) = behind.split_once("\\E").unwrap_or((behind, ""));
        for character in quoted.chars() {
            if character.is_ascii_punctuation() {
                self.text.push('\\');
            }
            self.text.push(character);
        }
        self.rest = rest;
    }

    /// A class of Unicode (`\pL`, `\p{Greek}`); `\p{^Greek}` is `\P{Greek}`.
    fn unicode(&mut self, sign: char, behind: &'p str) {
        match behind.strip_prefix("{^") {
            Some(rest) => {
                self.text.push_str(if sign == 'p' { "\\P{" } else { "\\p{" });
                self.rest = rest;
                self.keep(rest.find('}').map_or(rest.len(), |end| end + 1));
            }
            None if behind.starts_with('{') => {
                self.keep(2 + behind.find('}').map_or(behind.len(), |end| end + 1))
            }
            None => self.keep(2 + behind.chars().next().map_or(0, char::len_utf8)),
        }
    }
}

/// Bytes of the count at the beginning of `text`: `{2}`, `{2,}`, `{2,5}`. `None`: the brace is a character.
fn count_length(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let (least, most) = match text[1..end].split_once(',') {
        Some((least, most)) => (least, Some(most).filter(|most| !most.is_empty())),
        None => (&text[1..end], None),
    };
    let is_number = |digits: &str| {
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        !digits.is_empty() && !has_leading_zero && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    (is_number(least) && most.is_none_or(is_number)).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_mean_the_same_are_left_alone() {
        for pattern in [
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"^\d+(\.\d+){0,2}$",
            r"[[:alpha:]_\]\[-]",
            r"[^]a]",
            r"\p{Greek}\pL\x{10FFFF}\x41\.\-",
            "a&b~c-d&&e",
            "é[é-ü]",
        ] {
            let same = translated(pattern).unwrap();
            let wanted = pattern.replace("[^]a]", r"[^\]a]");
            assert_eq!(same, wanted, "{pattern}");
        }
    }

    #[test]
    fn differences_become_the_librarys_form() {
        for (pattern, wanted) in [
            (r"[^[]+", r"[^\[]+"),
            (r"^[\w-_./]+$", r"^[\w\-_./]+$"),
            (r"[^\0]+", r"[^\x{0}]+"),
            (r"[\w-]", r"[\w-]"),
            (r"\101\1018", r"\x{41}\x{41}8"),
            (r"[a&&b]", r"[a\&&b]"),
            (r"[a~~b]", r"[a\~~b]"),
            (r"[+--]", r"[+-\-]"),
            (r"[--a]", r"[\--a]"),
            (r"[]a]", r"[\]a]"),
            (r"a{,2}{x}", r"a\{,2}\{x}"),
            (r"a{02}", r"a\{02}"),
            (r"\b{start}", r"\b\{start}"),
            (r"\<a\>", "<a>"),
            (r"\Qa.b\E.", r"a\.b."),
            (r"\p{^Greek}\P{^L}", r"\P{Greek}\p{L}"),
            (r"[[:foo]", r"[\[:foo]"),
        ] {
            assert_eq!(translated(pattern).as_deref(), Ok(wanted), "{pattern}");
        }
        for pattern in [r"[[:foo:]]", r"\u0041"] {
            assert!(translated(pattern).is_err(), "{pattern}");
        }
    }
}
