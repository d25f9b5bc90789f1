//! Names: DNS labels and subdomains, path segments, qualified names, label values, ports and percentages.
//!
//! Owns the grammar of every kind of name and the message for each breach. Each function returns the messages for one
//! value, none when it is valid; the caller says which field they concern.

use crate::resource::NameRule;

/// Longest DNS label, in bytes.
const LABEL_LENGTH_MAX: usize = 63;
/// Longest DNS subdomain, in bytes.
const SUBDOMAIN_LENGTH_MAX: usize = 253;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                                 with an alphanumeric character";

/// Checks `name` against the rule of its kind. `prefix`: `name` is a `generateName`, to which a suffix will be added.
pub fn check_name(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked = if prefix { mask_trailing_dash(name) } else { name.to_owned() };
    match rule {
        NameRule::Dns1123Subdomain => dns1123_subdomain(&masked),
        NameRule::Dns1123Label => dns1123_label(&masked),
        NameRule::Dns1035Label => dns1035_label(&masked),
        NameRule::PathSegment => path_segment(name),
    }
}

// A prefix may end in a dash, because the generated suffix follows it.
fn mask_trailing_dash(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked: String = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => name.to_owned(),
    }
}

/// One lower-case DNS label.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_LENGTH_MAX);
    if !is_label(value) {
        if is_subdomain(value) {
            messages.push("must not contain dots".to_owned());
        } else {
            messages.push(format_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character",
                LABEL_FORMAT,
                &["my-name", "123-abc"],
            ));
        }
    }
    messages
}

/// Lower-case labels separated by dots.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_LENGTH_MAX);
    if !is_subdomain(value) {
        messages.push(format_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character",
            SUBDOMAIN_FORMAT,
            &["example.com"],
        ));
    }
    messages
}

/// `*.` before a DNS subdomain.
pub fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_LENGTH_MAX);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(format_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
             consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{SUBDOMAIN_FORMAT}"),
            &["*.example.com"],
        ));
    }
    messages
}

/// One DNS label that starts with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_LENGTH_MAX);
    if !is_label(value) || value.starts_with(|first: char| first.is_ascii_digit()) {
        messages.push(format_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            DNS1035_FORMAT,
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// A name that can stand in a path.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
    let mut messages: Vec<String> = parts.map(|part| format!("may not contain '{part}'")).collect();
    // The reference accepts both, and stores names that no path, table or log can show.
    if name.len() > SUBDOMAIN_LENGTH_MAX {
        messages.push(format!("must be no more than {SUBDOMAIN_LENGTH_MAX} bytes"));
    }
    if name.chars().any(char::is_control) {
        messages.push("may not contain control characters".to_owned());
    }
    messages
}

/// A label key: a name of at most 63 bytes, with an optional DNS subdomain and `/` before it.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                messages.extend(dns1123_subdomain(prefix).into_iter().map(|m| format!("prefix part {m}")));
            }
            name
        }
        _ => {
            let shape = format_error(QUALIFIED_MESSAGE, QUALIFIED_FORMAT, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH_MAX {
        messages.push(format!("name part must be no more than {LABEL_LENGTH_MAX} bytes"));
    }
    if !is_qualified_part(name) {
        let shape = format_error(QUALIFIED_MESSAGE, QUALIFIED_FORMAT, &["MyName", "my.name", "123-abc"]);
        messages.push(format!("name part {shape}"));
    }
    messages
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_LENGTH_MAX {
        messages.push(format!("must be no more than {LABEL_LENGTH_MAX} bytes"));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        messages.push(format_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character",
            &format!("({QUALIFIED_FORMAT})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// A key of a config map or secret.
pub fn config_key(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_LENGTH_MAX);
    let valid = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(valid) {
        messages.push(format_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    messages.extend(parent_directory_prefix(value));
    messages
}

/// The name of an environment variable: any printable ASCII but `=`.
pub fn env_var(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let printable = |c: char| (c == ' ' || c.is_ascii_graphic()) && c != '=';
    if value.chars().all(printable) {
        return Vec::new();
    }
    let message =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![message.to_owned()]
}

/// An identifier as in the language C.
pub fn c_identifier(value: &str) -> Vec<String> {
    let mut bytes = value.bytes();
    let starts = bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
    if starts && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_') {
        return Vec::new();
    }
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                   alphanumeric characters or '_'";
    vec![format_error(message, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// The name of an HTTP header.
pub fn http_header(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![format_error(message, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// The name of a port.
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = too_long(value, 15);
    let valid = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if value.is_empty() || !value.bytes().all(valid) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    // once: one pass over a text.
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// The number of a port.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// The id of a user or group.
pub fn user_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// A number between two bounds, both included.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// Digits and a percent sign.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![format_error(message, "[0-9]+%", &["1%", "93%"])]
}

/// Whether `value` has the form of a lower-case DNS label, whatever its length.
fn is_label(value: &str) -> bool {
    let alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    edges_and_inner(value, alphanumeric, |c| alphanumeric(c) || c == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified_part(value: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    edges_and_inner(value, |c| c.is_ascii_alphanumeric(), inner)
}

fn edges_and_inner(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => edge(first) && edge(last) && bytes.iter().all(|&c| inner(c)),
        _ => false,
    }
}

fn too_long(value: &str, limit: usize) -> Vec<String> {
    if value.len() <= limit {
        return Vec::new();
    }
    vec![format!("must be no more than {limit} characters")]
}

fn parent_directory_prefix(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn format_error(message: &str, format: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{format}')", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> Vec<String>, valid: &[&str], invalid: &[(&str, &str)]) {
        for value in valid {
            assert_eq!(rule(value), Vec::<String>::new(), "{value}");
        }
        for (value, message) in invalid {
            let messages = rule(value);
            assert!(messages.iter().any(|m| m.contains(message)), "{value}: {messages:?}");
        }
    }

    #[test]
    fn subdomains() {
        let long = "a".repeat(254);
        check(
            dns1123_subdomain,
            &["a", "a.b", "1-2.c", &"a".repeat(253)],
            &[
                ("", "RFC 1123 subdomain"),
                ("A", "RFC 1123 subdomain"),
                ("a..b", "RFC 1123 subdomain"),
                ("-a", "RFC 1123 subdomain"),
                ("a\n", "RFC 1123 subdomain"),
                (&long, "must be no more than 253 characters"),
            ],
        );
        assert_eq!(
            dns1123_subdomain("Bad_"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
    }

    #[test]
    fn labels_of_dns() {
        check(dns1123_label, &["a", "1a"], &[("a.b", "must not contain dots"), ("a_b", "RFC 1123 label")]);
        check(dns1035_label, &["a", "a1"], &[("1a", "DNS-1035"), ("a-", "DNS-1035")]);
        check(wildcard_subdomain, &["*.a.b"], &[("a.b", "wildcard"), ("*", "wildcard")]);
    }

    #[test]
    fn path_segments() {
        check(
            path_segment,
            &["UPPER", "sp ace", "with:colon", ""],
            &[
                ("..", "may not be '..'"),
                (".", "may not be '.'"),
                ("a/b", "may not contain '/'"),
                ("%", "'%'"),
                ("a\nb", "control characters"),
                ("\0", "control characters"),
                (&"é".repeat(127), "no more than 253 bytes"),
            ],
        );
    }

    #[test]
    fn qualified_names() {
        let long = "a".repeat(64);
        check(
            qualified_name,
            &["a", "A_b.c", "example.com/x"],
            &[
                ("", "name part must be non-empty"),
                ("bad key!", "name part must consist of"),
                ("bad name/x", "prefix part a lowercase RFC 1123 subdomain"),
                ("/x", "prefix part must be non-empty"),
                ("not qualified/x/y", "a valid label key must consist of"),
                (&long, "name part must be no more than 63 bytes"),
            ],
        );
    }

    #[test]
    fn values_keys_and_ports() {
        check(label_value, &["", "Yes", "a_b.c"], &[("bad value!", "a valid label must be an empty string")]);
        check(config_key, &["a", "..a.b".trim_start_matches('.')], &[("bad key!", "a valid config key")]);
        check(
            config_key,
            &[],
            &[("..", "must not be '..'"), ("..x", "must not start with '..'"), (".", "'.'")],
        );
        check(
            port_name,
            &["http", "a-b"],
            &[
                ("80", "at least one letter"),
                ("a--b", "consecutive"),
                ("-a", "hyphen"),
                ("A", "alpha-numeric"),
            ],
        );
        check(percent, &["0%", "25%"], &[("25", "percent"), ("%", "percent"), ("x%", "percent")]);
        check(env_var, &["A", "a b", "1x"], &[("a=b", "printable ASCII"), ("ä", "ASCII"), ("", "non-empty")]);
    }

    #[test]
    fn generate_name_may_end_in_a_dash() {
        assert!(check_name(NameRule::Dns1123Subdomain, "gen-", true).is_empty());
        assert!(!check_name(NameRule::Dns1123Subdomain, "gen-", false).is_empty());
        assert!(!check_name(NameRule::Dns1123Label, "-", true).is_empty());
        assert!(!check_name(NameRule::Dns1123Label, "ä-", false).is_empty());
    }
}
