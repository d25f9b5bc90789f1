//! Escapes of locators, `%41`: what each part of one may have as it is, and what only escaped.
//!
//! Owns the reference's tables. Beside the signs here, letters and digits stand for themselves in all parts.

use orch_schema::excerpt::quoted;

/// A part of a locator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Escapes stand for bytes beyond ASCII only, and for `%`.
    Host,
    /// Behind the `%25` of a host that is an address.
    Zone,
    /// The name of a user, or the password.
    User,
    /// The path.
    Path,
    /// A key or a value of the query; `+` is a space.
    Query,
    /// Behind the `#`.
    Fragment,
}

impl Part {
    /// Signs that are not escaped where the part is written anew.
    fn plain(self) -> &'static [u8] {
        match self {
            Part::Host | Part::Zone => b"-_.~!$&'()*+,;=:[]<>\"",
            Part::User => b"-_.~$&+,;=",
            Part::Path => b"-_.~$&+,/:;=@",
            Part::Query => b"-_.~",
            Part::Fragment => b"-_.~$&+,/:;=?@!()*",
        }
    }

    /// Signs with which the part is kept as it is written.
    fn kept(self) -> &'static [u8] {
        match self {
            Part::User => b"-._:~!$&'()*+,;=%@",
            Part::Path => b"-_.~$&+,/:;=@!'()*[]%",
            Part::Fragment => b"-_.~$&+,/:;=?@!'()*[]%",
            Part::Host | Part::Zone | Part::Query => self.plain(),
        }
    }
}

fn is_of(byte: u8, signs: &[u8]) -> bool {
    byte.is_ascii_alphanumeric() || signs.contains(&byte)
}

/// Whether the part has no other signs than those that it may keep.
pub(super) fn is_valid(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| is_of(byte, part.kept()))
}

/// The byte that the two digits behind the `%` at `at` stand for.
fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?).ok()
}

/// Tests escapes and, of a host or zone, signs.
///
/// # Errors
/// The first escape that is none or that the part may not have, or the first sign that it may not have.
pub(super) fn check(text: &str, part: Part) -> Result<(), String> {
    let bytes = text.as_bytes();
    let is_host = matches!(part, Part::Host | Part::Zone);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            if is_host && byte.is_ascii() && !is_of(byte, part.plain()) {
                let sign = char::from(byte).to_string();
                return Err(format!("invalid character {} in host name", quoted(&sign)));
            }
            at += 1;
            continue;
        }
        let value = escape_at(bytes, at);
        let may_stand = match (part, value) {
            (_, None) => false,
            (Part::Host, Some(value)) => !value.is_ascii() || value == b'%',
            (Part::Zone, Some(value)) => value == b'%' || value == b' ' || is_of(value, part.plain()),
            _ => true,
        };
        if !may_stand {
            return Err(format!("invalid URL escape {}", quoted_bytes(&bytes[at..bytes.len().min(at + 3)])));
        }
        at += 3;
    }
    Ok(())
}

/// A text that may end within a letter, in quotes.
fn quoted_bytes(bytes: &[u8]) -> String {
    let Some(chunk) = bytes.utf8_chunks().next() else { return quoted("") };
    let mut out = quoted(chunk.valid());
    out.pop();
    for byte in chunk.invalid() {
        out.push_str(&format!("\\x{byte:02x}"));
    }
    out.push('"');
    out
}

/// The bytes behind escapes.
pub(super) fn unescaped(text: &str, part: Part) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        if let Some(value) = escape_at(bytes, at).filter(|_| byte == b'%') {
            out.push(value);
            at += 3;
            continue;
        }
        out.push(if part == Part::Query && byte == b'+' { b' ' } else { byte });
        at += 1;
    }
    out
}

/// The text of these bytes, with escapes.
pub(super) fn escaped(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if is_of(byte, part.plain()) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
