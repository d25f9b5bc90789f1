//! Formats of texts and numbers.
//!
//! Owns which formats are known, for which types, and which texts have them. Unknown ones are ignored, as the reference does.
//! Formats of network names are in [`super::network`].

use orch_expression::schema::parse_duration;

use super::constraint::Types;
use super::network;
use crate::validate::address;

/// A known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Format {
    None,
    Int32,
    Int64,
    Float,
    Double,
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

/// Formats of texts by name, dashes left out.
const TEXTS: [(&str, Format); 26] = [
    ("bsonobjectid", Format::BsonObjectId),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("creditcard", Format::CreditCard),
    ("ssn", Format::Ssn),
    ("hexcolor", Format::HexColor),
    ("rgbcolor", Format::RgbColor),
    ("byte", Format::Byte),
    ("password", Format::Password),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("datetime", Format::DateTime),
    ("k8sshortname", Format::ShortName),
    ("k8slongname", Format::LongName),
];

/// Whether the format `name` is known for values of the type `type_name` (`string`), which is empty where a schema has none. A
/// definition with one that is not gets a warning.
pub fn is_known(name: &str, type_name: &str) -> bool {
    of_type(name, type_name) != Format::None
}

fn of_type(name: &str, type_name: &str) -> Format {
    match (type_name, name) {
        ("integer", "int32") => Format::Int32,
        ("integer", "int64") => Format::Int64,
        ("number", "float") => Format::Float,
        ("number", "double") => Format::Double,
        ("" | "string", name) => {
            let name = name.replace('-', "");
            // few: 26 formats.
            let found = TEXTS.iter().find(|(known, _)| *known == name);
            found.map_or(Format::None, |(_, format)| *format)
        }
        _ => Format::None,
    }
}

impl Format {
    /// The format `name` of a node with these types.
    pub(super) fn of(name: &str, types: Types) -> Format {
        if name.is_empty() { Format::None } else { of_type(name, types.single().unwrap_or_default()) }
    }

    /// Whether it is a format of texts.
    pub(super) fn is_of_text(self) -> bool {
        !matches!(self, Format::None | Format::Int32 | Format::Int64 | Format::Float | Format::Double)
    }

    /// The name of a format of numbers.
    pub(super) fn number_name(self) -> Option<&'static str> {
        match self {
            Format::None => Some(""),
            Format::Int32 => Some("int32"),
            Format::Int64 => Some("int64"),
            Format::Float => Some("float"),
            Format::Double => Some("double"),
            _ => None,
        }
    }

    /// Whether `text` has the format.
    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            Format::None | Format::Int32 | Format::Int64 | Format::Float | Format::Double => true,
            Format::Password => true,
            Format::BsonObjectId => text.len() == 24 && all(text, |byte| byte.is_ascii_hexdigit()),
            Format::Uri => network::is_request_uri(text),
            Format::Email => network::is_email(text),
            Format::Hostname => network::is_hostname(text),
            Format::Ipv4 => text.contains('.') && address::parse_loose(text).is_some(),
            Format::Ipv6 => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
            Format::Cidr => address::Cidr::parse_loose(text).is_some(),
            Format::Mac => network::is_mac(text),
            Format::Uuid => is_uuid(text, None),
            Format::Uuid3 => is_uuid(text, Some('3')),
            Format::Uuid4 => is_uuid(text, Some('4')),
            Format::Uuid5 => is_uuid(text, Some('5')),
            Format::Isbn => is_isbn10(text) || is_isbn13(text),
            Format::Isbn10 => is_isbn10(text),
            Format::Isbn13 => is_isbn13(text),
            Format::CreditCard => is_card(text),
            Format::Ssn => is_ssn(text),
            Format::HexColor => is_hex_color(text),
            Format::RgbColor => is_rgb_color(text),
            Format::Byte => is_base64(text),
            Format::Date => is_date(text),
            Format::Duration => parse_duration(text).is_some(),
            Format::DateTime => is_date_time(text),
            Format::ShortName => text.len() <= 63 && is_label(text),
            Format::LongName => text.len() <= 253 && text.split('.').all(is_label),
        }
    }
}

fn all(text: &str, is_good: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(is_good)
}

fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !(text.is_empty() || text.starts_with('-') || text.ends_with('-')) && all(text, is_inner)
}

/// 32 hexadecimal digits, with or without each of the dashes. `version`: the first digit of the third group; that of the fourth is
/// fixed for versions 4 and 5.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut digits = String::with_capacity(32);
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, behind)) = rest.split_at_checked(length) else { return false };
        digits.push_str(group);
        rest = behind;
    }
    let digit = |at: usize| digits[at..].chars().next().map(|digit| digit.to_ascii_lowercase());
    let is_hex = rest.is_empty() && all(&digits, |byte| byte.is_ascii_hexdigit());
    is_hex
        && version.is_none_or(|version| {
            let has_variant = version == '3' || matches!(digit(16), Some('8' | '9' | 'a' | 'b'));
            digit(12) == Some(version) && has_variant
        })
}

/// Digits without blanks and dashes.
fn stripped(text: &str) -> String {
    text.chars().filter(|&char| !(char == '-' || char.is_ascii_whitespace())).collect()
}

fn digit(byte: u8) -> u32 {
    u32::from(byte - b'0')
}

fn is_isbn10(text: &str) -> bool {
    let text = stripped(text);
    let Some((first, last)) = text.as_bytes().split_last_chunk::<1>().filter(|(first, _)| first.len() == 9)
    else {
        return false;
    };
    if !(first.iter().all(u8::is_ascii_digit) && (last[0].is_ascii_digit() || last[0] == b'X')) {
        return false;
    }
    let sum: u32 = (1..).zip(first).map(|(factor, &byte)| factor * digit(byte)).sum();
    let check = if last[0] == b'X' { 10 } else { digit(last[0]) };
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = stripped(text);
    let bytes = text.as_bytes();
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 =
        [1, 3].into_iter().cycle().zip(&bytes[..12]).map(|(factor, &byte)| factor * digit(byte)).sum();
    digit(bytes[12]) == (10 - sum % 10) % 10
}

/// A number of a credit card: the beginnings and lengths of the known issuers, and the sum of Luhn.
fn is_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let number = String::from_utf8_lossy(&digits);
    // few: the beginnings of one format.
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| number.starts_with(beginning));
    let is_issued = match digits.len() {
        13 => begins(&["4"]),
        14 => begins(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => begins(&["34", "37", "2131", "1800"]),
        16 => begins(&["4", "51", "52", "53", "54", "55", "6011", "65", "35"]),
        _ => false,
    };
    let doubled = |(factor, &byte): (u32, &u8)| match digit(byte) * factor {
        number @ 10.. => number - 9,
        number => number,
    };
    let sum: u32 = [1, 2].into_iter().cycle().zip(digits.iter().rev()).map(doubled).sum();
    is_issued && sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_break = |byte: u8| byte == b'-' || byte == b' ';
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(at, &byte)| match at {
            3 | 6 => is_break(byte),
            _ => byte.is_ascii_digit(),
        })
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && all(digits, |byte| byte.is_ascii_hexdigit())
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> =
        inner.split(',').map(|part| part.trim_matches([' ', '\t', '\n', '\r', '\u{c}'])).collect();
    let is_channel = |part: &&str| {
        part.parse::<u8>().is_ok() && !part.starts_with('+') && (part.len() == 1 || !part.starts_with('0'))
    };
    parts.len() == 3 && parts.iter().all(is_channel)
}

/// Padded base64 of at least one byte.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && all(digits, is_digit)
}

/// The date `2006-01-02`.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = text.get(from..to).filter(|digits| all(digits, |byte| byte.is_ascii_digit()))?;
        digits.parse().ok()
    };
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date, `T`, and a time of day with a zone. Seconds may have a fraction behind any character.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let two =
        |text: &str, max: &str| text.len() == 2 && all(text, |byte| byte.is_ascii_digit()) && text <= max;
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let clock: Vec<&str> = clock.split(':').collect();
    let is_clock = matches!(&*clock, [hour, minute, second]
        if two(hour, "23") && two(minute, "59") && two(second, "59"));
    is_date(date) && is_clock && (is_zone(rest) || is_zone(without_fraction(rest)))
}

/// The text behind one character and digits; the text itself where these do not come.
fn without_fraction(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    let behind = chars.as_str().trim_start_matches(|char: char| char.is_ascii_digit());
    if behind.len() < chars.as_str().len() { behind } else { text }
}

fn is_zone(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_offset = bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && [1, 2, 4, 5].into_iter().all(|at| bytes[at].is_ascii_digit());
    text == "z" || is_offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_and_refuses_as_the_reference() {
        for (name, good, bad) in [
            ("bsonobjectid", &["507f1f77bcf86cd799439011"][..], &["507f1f77bcf86cd79943901", ""][..]),
            (
                "uri",
                &["http://a.example/x?y", "/path", "mailto:a@b", "urn:x"],
                &["not a valid uri", "", "a b", "x/y", "http://a b/"],
            ),
            ("email", &["a@b", "Jo <jo@example.com>", "\"a b\"@c.d"], &["not-an-email", "a@", "@b", "a b@c"]),
            (
                "hostname",
                &["a", "host1", "a.example.com", "my-host.example.org"],
                &["invalid_hostname!", "my-host-name", "a.b1", ""],
            ),
            ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["999.999.999.999", "::1", "1.2.3"]),
            ("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["1.2.3.4", "fe80::1%eth0", ":::"]),
            ("cidr", &["10.0.0.0/8", "::/0", "010.0.0.1/32"], &["10.0.0.0/33", "10.0.0.0", "x/8"]),
            (
                "mac",
                &["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab"],
                &["GG:GG:GG:GG:GG:GG", "01:23", "0123456789ab"],
            ),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
                &["invalid-uuid", ""],
            ),
            (
                "uuid4",
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
            ),
            ("uuid3", &["123e4567-e89b-32d3-c456-426614174000"], &["not-a-uuid-v3"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042"]),
            (
                "creditcard",
                &["4012 8888 8888 1881", "3530111333300000", "180012345678905"],
                &["4012888888881882", "353011133330001", "1"],
            ),
            ("ssn", &["123-45-6789"], &["123456789", "12-345-6789"]),
            ("hexcolor", &["#FFFFFF", "abc"], &["#ffff", "#xyz"]),
            ("rgbcolor", &["rgb(1, 20,255)"], &["rgb(1,2)", "rgb(256,0,0)", "rgb(01,0,0)"]),
            ("byte", &["Zm9v", "Zm8=", "Zg=="], &["not valid base64!!!", "", "Zg="]),
            ("password", &["", "x"], &[]),
            ("date", &["2024-02-29"], &["2024-13-45", "2023-02-29", "2024-1-1"]),
            (
                "duration",
                &["1h30m", "22 ns", "2 days", "1.5d", "0", "5 MIN"],
                &["not-a-duration", "", "5 parsecs", "99999999999999999999 s"],
            ),
            (
                "date-time",
                &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
                &["not-a-datetime", "2014-12-15T24:00:00Z", "2014-12-15"],
            ),
            ("k8s-short-name", &["a-b"], &["A", "a.b", "-a"]),
            ("k8s-long-name", &["a.b-c"], &["a..b", ""]),
        ] {
            let format = of_type(name, "string");
            assert_ne!(format, Format::None, "{name}");
            for text in good {
                assert!(format.fits(text), "{name} {text:?}");
            }
            for text in bad {
                assert!(!format.fits(text), "{name} {text:?}");
            }
        }
    }

    #[test]
    fn a_format_is_known_for_its_types_alone() {
        for (name, ty, known) in [
            ("int32", "integer", true),
            ("int32", "string", false),
            ("double", "number", true),
            ("date-time", "", true),
            ("da-te", "string", true),
            ("quantity", "string", false),
            ("date", "object", false),
        ] {
            assert_eq!(is_known(name, ty), known, "{name} {ty}");
        }
    }
}
