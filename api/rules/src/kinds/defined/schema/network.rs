//! Formats of network names: addresses of requests, of mail, of hosts and of cards.
//!
//! Owns what the reference's parsers accept. They read no more of a text than is said here, and resolve nothing.

use crate::expression::letters_and_signs;

/// An absolute address of a request, or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    // once: one text.
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let is_authority = rest.starts_with("//") && (!scheme.is_empty() || !rest.starts_with("///"));
    let (authority, path) = match rest.strip_prefix("//").filter(|_| is_authority) {
        Some(behind) => behind.split_at(behind.find('/').unwrap_or(behind.len())),
        None => ("", rest),
    };
    is_authority_valid(authority) && has_valid_escapes(path)
}

/// The scheme, which may be empty, and the text behind its colon. `None`: a colon without a scheme.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn has_valid_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().all(|(at, &byte)| byte != b'%' || (is_hex(at + 1) && is_hex(at + 2)))
}

fn is_authority_valid(authority: &str) -> bool {
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    // few: the characters of a name of a user.
    let is_user_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    let (name, port) = match (host.strip_prefix('['), host.rsplit_once(':')) {
        (Some(inner), _) => {
            let Some((name, port)) = inner.split_once(']') else { return false };
            (name, port)
        }
        (None, Some((name, port))) => (name, &host[host.len() - port.len() - 1..]),
        (None, None) => (host, ""),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_host_byte =
        // few: the characters of a host.
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&byte);
    user.bytes().all(is_user_byte) && is_port && name.bytes().all(is_host_byte) && has_valid_escapes(user)
}

/// One address of mail, with or without a name before it in angles.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if is_address(text) {
        return true;
    }
    let Some((name, address)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) else {
        return false;
    };
    let name = name.trim_matches([' ', '\t']);
    let is_phrase = name.is_empty()
        || is_quoted(name)
        || name.split([' ', '\t']).all(|word| word.is_empty() || is_quoted(word) || is_dot_atom(word));
    is_phrase && is_address(address)
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_literal = domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']'));
    let is_domain =
        is_dot_atom(domain) || is_literal.is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok());
    (is_dot_atom(local) || is_quoted(local)) && is_domain
}

fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| {
        let mut is_escaped = false;
        let is_inside = inner.chars().all(|char| {
            let is_good = is_escaped || char != '"';
            is_escaped = !is_escaped && char == '\\';
            is_good && (char >= ' ' || char == '\t')
        });
        is_inside && !is_escaped
    })
}

fn is_dot_atom(text: &str) -> bool {
    let is_atom =
        |char: char| !char.is_ascii() || char.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(char);
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom))
}

fn is_letter_or_sign(char: char) -> bool {
    let ranges = letters_and_signs();
    ranges.partition_point(|&(_, end)| end < char) < ranges.len()
        && ranges[ranges.partition_point(|&(_, end)| end < char)].0 <= char
}

/// A name of a host: one label, or several of which the last has only letters. A label alone has a dash at most as its second
/// character.
pub(super) fn is_hostname(text: &str) -> bool {
    let is_word = |char: char| char.is_ascii_digit() || is_letter_or_sign(char);
    // once: one text.
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let labels: Vec<&str> = text.split('.').collect();
    let Some((last, others)) = labels.split_last() else { return false };
    if others.is_empty() {
        let mut chars = last.chars();
        let is_first = chars.next().is_some_and(is_word);
        let rest = chars.as_str();
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        return is_first && rest.chars().count() <= 62 && rest.chars().all(is_word);
    }
    let is_label = |label: &&str| {
        let is_edge = |char: Option<char>| char.is_some_and(is_word);
        let mut chars = label.chars();
        is_edge(chars.next())
            && is_edge(label.chars().next_back())
            && chars.all(|char| char == '-' || is_word(char))
    };
    let is_letter = |char: char| char.is_ascii_alphabetic() || (!char.is_ascii() && char.is_alphabetic());
    others.iter().all(is_label) && (2..=63).contains(&last.chars().count()) && last.chars().all(is_letter)
}

/// An address of a network card: 6, 8 or 20 bytes in hexadecimal pairs, or in fours behind dots.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, digits) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let is_group = |group: &&str| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(groups.len() * digits / 2, 6 | 8 | 20) && groups.iter().all(is_group)
}
