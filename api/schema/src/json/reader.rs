//! JSON text, token by token.
//!
//! Owns the grammar: it accepts RFC 8259 and nothing else. It knows no tables. Strings without escapes are slices of
//! the input; the decoder above bounds depth and steps.

use std::borrow::Cow;

use super::error::DecodeError;
use super::scan::find;

/// A JSON text and the position of the next byte.
pub(super) struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The next byte that is not white space, without taking it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// The position of the next byte.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Takes the byte that [`Reader::peek`] showed.
    pub(super) fn bump(&mut self) {
        self.at += 1;
    }

    /// Takes `byte`, which must be next.
    pub(super) fn expect(&mut self, byte: u8, before: &str) -> Result<(), DecodeError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.unexpected(before))
    }

    /// Takes the comma (`true`: another member follows) or the end `close` (`false`) after a member.
    pub(super) fn has_more(&mut self, close: u8) -> Result<bool, DecodeError> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.unexpected("after a value")),
        }
    }

    /// Checks that nothing but white space follows.
    pub(super) fn end(&mut self) -> Result<(), DecodeError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.unexpected("after the top-level value")) }
    }

    /// Takes `null`, `true` or `false`, whose first letter is next.
    pub(super) fn literal(&mut self, word: &'static str) -> Result<(), DecodeError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.syntax(self.at, format!("expected the literal {word}")))
    }

    /// Takes a number, whose first byte is next, and returns its text.
    pub(super) fn number(&mut self) -> Result<&'a str, DecodeError> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.unexpected("in a number")),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), DecodeError> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.unexpected("in a number")) } else { Ok(()) }
    }

    /// Takes a string, whose quote is next.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let start = self.at + 1;
        self.at = start;
        self.plain()?;
        if self.bytes[self.at] == b'"' {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut out = String::from(&self.text[start..self.at]);
        while self.bytes[self.at] != b'"' {
            self.at += 1;
            self.escape(&mut out)?;
            let start = self.at;
            self.plain()?;
            out.push_str(&self.text[start..self.at]);
        }
        self.at += 1;
        Ok(Cow::Owned(out))
    }

    /// Moves to the next quote or backslash.
    fn plain(&mut self) -> Result<(), DecodeError> {
        let rest = &self.bytes[self.at..];
        let Some(count) = find(rest, |byte| (byte == b'"') | (byte == b'\\') | (byte < 0x20)) else {
            return Err(self.syntax(self.bytes.len(), "unexpected end in a string".to_owned()));
        };
        self.at += count;
        if self.bytes[self.at] < 0x20 {
            return Err(self.unexpected("in a string"));
        }
        Ok(())
    }

    /// Reads the rest of an escape, behind its backslash.
    fn escape(&mut self, out: &mut String) -> Result<(), DecodeError> {
        let Some(&byte) = self.bytes.get(self.at) else {
            return Err(self.unexpected("in a string escape"));
        };
        let plain = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                let unit = self.hex()?;
                out.push(self.character(unit));
                return Ok(());
            }
            _ => return Err(self.unexpected("in a string escape")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    /// The character of a UTF-16 unit; takes the second one of a pair. Half a pair becomes U+FFFD.
    fn character(&mut self, unit: u16) -> char {
        let mut units = vec![unit];
        let here = self.at;
        if (0xD800..0xDC00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            match self.hex() {
                Ok(second) if (0xDC00..0xE000).contains(&second) => units.push(second),
                _ => self.at = here,
            }
        }
        char::decode_utf16(units).next().and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u16, DecodeError> {
        let digits =
            self.bytes.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if digits.is_none() {
            return Err(self.syntax(self.at, "expected four hexadecimal digits".to_owned()));
        }
        self.at += 4;
        Ok(u16::from_str_radix(&self.text[self.at - 4..self.at], 16).unwrap_or_default())
    }

    /// The error of an unexpected byte, or of the end of the text.
    pub(super) fn unexpected(&mut self, context: &str) -> DecodeError {
        match self.text[self.floor()..].chars().next() {
            Some(found) => self.syntax(self.at, format!("unexpected {found:?} {context}")),
            None => self.syntax(self.at, format!("unexpected end {context}")),
        }
    }

    /// The start of the character that the next byte belongs to.
    fn floor(&self) -> usize {
        let at = self.at.min(self.text.len());
        // few: the bytes of one character.
        (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
    }

    fn syntax(&self, offset: usize, problem: String) -> DecodeError {
        DecodeError::Syntax { offset, problem }
    }
}
