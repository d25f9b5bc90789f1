//! Named formats: whether a text has one.
//!
//! Owns the grammar of each, letter by letter. The words of their breaches are no part of it.

use super::calls::{Called, tenths};
use super::plain::Plain;
use super::times;

/// Formats, with the characters of the patterns that their costs assume.
const FORMATS: [(&str, u64); 13] = [
    ("dns1123Label", 30),
    ("dns1123LabelPrefix", 30),
    ("dns1123Subdomain", 60),
    ("dns1123SubdomainPrefix", 60),
    ("dns1035Label", 30),
    ("dns1035LabelPrefix", 30),
    ("qualifiedName", 60),
    ("labelValue", 40),
    ("uri", 1103),
    ("uuid", 70),
    ("byte", 84),
    ("date", 71),
    ("datetime", 71),
];

/// Letters and digits that begin and end with one of them, and have `signs` between.
fn is_word(text: &str, signs: &str, allows_capitals: bool) -> bool {
    let is_letter =
        |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || allows_capitals && c.is_ascii_uppercase();
    text.starts_with(is_letter)
        && text.ends_with(is_letter)
        && text.chars().all(|c| is_letter(c) || signs.contains(c))
}

fn is_label(text: &str) -> bool {
    is_word(text, "-", false) && text.len() <= 63
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|part| is_word(part, "-", false)) && text.len() <= 253
}

fn is_name(text: &str) -> bool {
    is_word(text, "-_.", true) && text.len() <= 63
}

fn has(format: &str, text: &str) -> bool {
    let prefix = match text.strip_suffix('-') {
        // A dash at the end of a prefix stands for what will follow it.
        Some(rest) if text.len() > 1 => format!("{rest}a"),
        _ => text.to_owned(),
    };
    match format {
        "dns1123Label" => is_label(text),
        "dns1123LabelPrefix" => is_label(&prefix),
        "dns1123Subdomain" => is_subdomain(text),
        "dns1123SubdomainPrefix" => is_subdomain(&prefix),
        "dns1035Label" => is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()),
        "dns1035LabelPrefix" => is_label(&prefix) && prefix.starts_with(|c: char| c.is_ascii_lowercase()),
        "qualifiedName" => match text.split('/').collect::<Vec<_>>()[..] {
            [name] => is_name(name),
            [domain, name] => is_subdomain(domain) && is_name(name),
            _ => false,
        },
        "labelValue" => text.is_empty() || is_name(text),
        "uuid" => {
            // Each of the dashes may be left out.
            let mut rest = text;
            for (at, many) in [8, 4, 4, 4, 12].into_iter().enumerate() {
                rest = if at > 0 { rest.strip_prefix('-').unwrap_or(rest) } else { rest };
                match rest.get(..many).filter(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit())) {
                    Some(_) => rest = &rest[many..],
                    None => return false,
                }
            }
            rest.is_empty()
        }
        "byte" => {
            let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
            !body.is_empty()
                && text.len().is_multiple_of(4)
                && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
        }
        "date" => text.len() == 10 && times::time(&format!("{text}T00:00:00Z")).is_some(),
        "datetime" => times::time(&text.replace('t', "T").replace('z', "Z")).is_some(),
        other => panic!("no expression here has the format {other}"),
    }
}

/// Calls with formats.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    let format = |name: &str| FORMATS.iter().find(|(own, _)| *own == name);
    Some(match (name, arguments) {
        ("format.named", [Plain::Text(name)]) => {
            let found = format(name).map(|(name, size)| Box::new(Plain::Format(name, *size)));
            Ok((Plain::Optional(found), 1))
        }
        ("validate", [Plain::Format(format, size), Plain::Text(text)]) => {
            let cost = tenths(crate::length(text.chars().count()) + 1, 1) * size.div_ceil(4);
            let breaches = (!has(format, text)).then(|| Box::new(Plain::List(Vec::new())));
            Ok((Plain::Optional(breaches), cost))
        }
        (name, []) => {
            let (name, size) = format(name.strip_prefix("format.")?)?;
            Ok((Plain::Format(name, *size), 1))
        }
        _ => return None,
    })
}
