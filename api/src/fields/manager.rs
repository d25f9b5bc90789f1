//! Names of field managers: the name recorded for a request without one.
//!
//! Owns the reading of a name out of the User-Agent header.

/// Bytes a manager's name may have. Longer query parameters are refused, longer user agents cut.
pub const MANAGER_BYTES_MAX: usize = 128;

/// The manager of a request: the `fieldManager` query parameter, or else the User-Agent up to its first `/`, without
/// unprintable characters and cut at [`MANAGER_BYTES_MAX`] bytes; `unknown` where that leaves nothing.
pub fn manager_of(field_manager: Option<&str>, user_agent: Option<&str>) -> String {
    if let Some(name) = field_manager.filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let prefix = user_agent.unwrap_or_default().split('/').next().unwrap_or_default();
    let mut name = String::with_capacity(prefix.len().min(MANAGER_BYTES_MAX));
    for c in prefix.chars().filter(|c| is_printable(*c)) {
        if name.len() + c.len_utf8() > MANAGER_BYTES_MAX {
            break;
        }
        name.push(c);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Letters, marks, numbers, punctuation, symbols and the plain space.
fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace() || is_format_or_unassigned(c))
}

/// Invisible formatting characters, private use and noncharacters.
fn is_format_or_unassigned(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
        | '\u{e0000}'..='\u{e007f}' | '\u{f0000}'..='\u{10ffff}')
}
