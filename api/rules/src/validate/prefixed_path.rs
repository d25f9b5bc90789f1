//! Domain-prefixed paths: `example.com/team/red`.

use super::metadata::invalid_each;
use super::{FieldError, FieldErrors, Path, names};

/// Checks that `value` is a DNS subdomain, a slash, and a path as in a URL.
pub fn validate_domain_prefixed_path(value: &str, path: &Path) -> FieldErrors {
    if value.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), ""));
    }
    let parts = value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty());
    let Some((host, rest)) = parts else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return FieldErrors::from(FieldError::invalid_str(path.clone(), value, detail));
    };
    let mut errors = invalid_each(path, host, names::dns1123_subdomain(host));
    // few: the signs of a path.
    let in_path = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    if !rest.bytes().all(in_path) {
        let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid_str(path.clone(), rest, detail));
    }
    errors
}
