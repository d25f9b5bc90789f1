//! Names of field managers: the name recorded for a request without one.
//!
//! Owns the reading of a name out of the User-Agent header.

use orch_schema::excerpt::is_printable;

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
