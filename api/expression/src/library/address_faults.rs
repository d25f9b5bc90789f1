//! Why a text is no address: the first test of the reference's parser that it does not pass, in its words.
//!
//! Owns the words; whether a text is an address is decided elsewhere ([`super::network`]). The rest of the text behind the place of the
//! fault is a part of most of them.

use orch_schema::excerpt::quoted;

/// Four hexadecimal digits make a group, two bytes.
const GROUP_DIGITS: usize = 4;
/// Bytes of a long address.
const LONG_BYTES: usize = 16;
/// Bytes of a short one.
const SHORT_BYTES: usize = 4;

/// A reason, and the rest of the text where it stands.
type Refusal<'t> = (&'static str, &'t str);

/// The reason why `text`, which is no address, is none.
pub(super) fn address_refusal(text: &str) -> String {
    let (reason, rest) = match text.find(['.', ':', '%']).map(|at| &text[at..=at]) {
        Some(".") => short(text),
        Some(":") => long(text),
        Some(_) => ("missing IPv6 address", ""),
        None => ("unable to parse IP", ""),
    };
    let place = if rest.is_empty() { String::new() } else { format!(" (at {})", quoted(rest)) };
    format!("ParseAddr({}): {reason}{place}", quoted(text))
}

/// Of an address of four decimal numbers.
fn short(text: &str) -> Refusal<'_> {
    let (mut fields, mut value, mut digits) = (0, 0_u32, 0);
    for (at, letter) in text.char_indices() {
        if let Some(digit) = letter.to_digit(10) {
            if digits == 1 && value == 0 {
                return ("IPv4 field has octet with leading zero", "");
            }
            value = value * 10 + digit;
            digits += 1;
            if value > u32::from(u8::MAX) {
                return ("IPv4 field has value >255", "");
            }
        } else if letter != '.' {
            return ("unexpected character", &text[at..]);
        } else if digits == 0 || at + 1 == text.len() {
            return ("IPv4 field must have at least one digit", &text[at..]);
        } else if fields + 1 == SHORT_BYTES {
            return ("IPv4 address too long", "");
        } else {
            (fields, value, digits) = (fields + 1, 0, 0);
        }
    }
    ("IPv4 address too short", "")
}

/// Of an address of hexadecimal groups.
fn long(text: &str) -> Refusal<'_> {
    let mut rest = match text.split_once('%') {
        Some((_, "")) => return ("zone must be a non-empty string", ""),
        Some((address, _)) => address,
        None => text,
    };
    let (mut bytes, mut has_gap) = (0, false);
    if let Some(behind) = rest.strip_prefix("::") {
        (rest, has_gap) = (behind, true);
    }
    while bytes < LONG_BYTES {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > GROUP_DIGITS {
            return ("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return ("each colon-separated field must have at least one digit", rest);
        }
        if rest[digits..].starts_with('.') {
            return short_at_the_end(rest, bytes, has_gap);
        }
        bytes += 2;
        rest = &rest[digits..];
        let Some(behind) = rest.strip_prefix(':') else {
            if rest.is_empty() {
                break;
            }
            return ("unexpected character, want colon", rest);
        };
        if behind.is_empty() {
            return ("colon must be followed by more characters", rest);
        }
        rest = behind;
        if let Some(behind) = rest.strip_prefix(':') {
            if has_gap {
                return ("multiple :: in address", rest);
            }
            (rest, has_gap) = (behind, true);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return ("trailing garbage after address", rest);
    }
    if bytes < LONG_BYTES {
        return ("address string too short", "");
    }
    ("the :: must expand to at least one field of zeros", "")
}

/// Of decimal numbers behind `bytes` bytes of groups.
fn short_at_the_end(rest: &str, bytes: usize, has_gap: bool) -> Refusal<'_> {
    if !has_gap && bytes + SHORT_BYTES != LONG_BYTES {
        return ("embedded IPv4 address must replace the final 2 fields of the address", rest);
    }
    if bytes + SHORT_BYTES > LONG_BYTES {
        return ("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
    }
    if rest.parse::<std::net::Ipv4Addr>().is_ok() {
        return ("the :: must expand to at least one field of zeros", "");
    }
    short(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_of_an_address_is_named() {
        for (text, reason) in [
            ("", "unable to parse IP"),
            ("name", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1.2.x.4", "unexpected character (at \"x.4\")"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            ("1.2.3.", "IPv4 field must have at least one digit (at \".\")"),
            ("::1%", "zone must be a non-empty string"),
            ("::12345", "each group must have 4 or less digits (at \"12345\")"),
            ("g::", "each colon-separated field must have at least one digit (at \"g::\")"),
            ("1:2", "address string too short"),
            ("1:2:", "colon must be followed by more characters (at \":\")"),
            ("1:2x", "unexpected character, want colon (at \"x\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1::2:3:4:5:6:7:8", "the :: must expand to at least one field of zeros"),
            (
                "1:2.3.4.5",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"2.3.4.5\")",
            ),
            ("::1.2.3.x", "unexpected character (at \"x\")"),
        ] {
            assert_eq!(address_refusal(text), format!("ParseAddr({}): {reason}", quoted(text)), "{text}");
        }
    }
}
