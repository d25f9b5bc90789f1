//! Options of containers on Windows: service accounts of groups, and the user that runs the process.

use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Bytes of a credential of a group managed service account: the reference's bound.
const GMSA_BYTES_MAX: usize = 64 << 10;
/// Bytes of the domain and of the name of a user: the reference's bounds.
const DOMAIN_MAX: usize = 255;
const USER_MAX: usize = 104;
/// Bytes of a NetBIOS name.
const NET_BIOS_MAX: usize = 15;
/// Letters that the name of a user must not have, as the error lists them.
const NOT_IN_USER: &str = r#""/\:;|=,+*?<>@[]"#;

/// Rules for `windowsOptions` of a security context.
pub(super) fn validate_windows_options(options: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (name_path, credential_path) =
        (path.child("gmsaCredentialSpecName"), path.child("gmsaCredentialSpec"));
    if let Some(name) = options.at("gmsaCredentialSpecName").as_str() {
        errors.extend(invalid_each(&name_path, name, names::dns1123_subdomain(name)));
    }
    if let Some(credential) = options.at("gmsaCredentialSpec").as_str() {
        let detail = match credential.len() {
            0 => Some("gmsaCredentialSpec cannot be an empty string".to_owned()),
            1..=GMSA_BYTES_MAX => None,
            _ => Some(format!("gmsaCredentialSpec size must be under {} KiB", GMSA_BYTES_MAX >> 10)),
        };
        errors.extend(detail.map(|detail| FieldError::invalid_str(credential_path, credential, &detail)));
    }
    if let Some(user) = options.at("runAsUserName").as_str() {
        let path = path.child("runAsUserName");
        let faults = user_faults(user).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid_str(path.clone(), user, &fault)));
    }
    errors
}

/// Errors in a Windows user name, `NAME` or `DOMAIN\NAME`.
fn user_faults(name: &str) -> Vec<String> {
    let fault = |text: &str| vec![format!("runAsUserName {text}")];
    if name.is_empty() {
        return fault("cannot be an empty string");
    }
    if name.chars().any(|c: char| c.is_ascii_control()) {
        return fault("cannot contain control characters");
    }
    let (domain, user) = match name.split_once('\\') {
        None => (None, name),
        Some((_, user)) if user.contains('\\') => return fault("cannot contain more than one backslash"),
        Some((domain, user)) => (Some(domain), user),
    };
    let mut faults = Vec::new();
    if let Some(domain) = domain {
        if domain.len() > DOMAIN_MAX {
            faults.push("runAsUserName's Domain length must be under 256 characters".to_owned());
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
        }
    }
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_MAX {
        faults.push(format!("runAsUserName's User length must not be longer than {USER_MAX} characters"));
    }
    if !user.is_empty() && user.chars().all(|c: char| matches!(c, '.' | ' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.chars().any(|c: char| NOT_IN_USER.contains(c)) {
        faults.push(format!("runAsUserName's User cannot contain the following characters: {NOT_IN_USER}"));
    }
    faults
}

fn is_net_bios(domain: &str) -> bool {
    let is_allowed = |c: char| !matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let length = domain.chars().count();
    (1..=NET_BIOS_MAX).contains(&length) && !domain.starts_with('.') && domain.chars().all(is_allowed)
}

/// Labels of letters, digits and inner dashes, joined by dots.
fn is_dns(domain: &str) -> bool {
    let is_label = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_alphanumeric())
            && label.ends_with(|c: char| c.is_ascii_alphanumeric())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    domain.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn a_user_has_a_name_and_perhaps_a_domain() {
        let long = "a".repeat(105);
        for (user, expected) in [
            ("NT AUTHORITY\\SYSTEM", vec![]),
            ("example.com\\a b", vec![]),
            ("", vec!["runAsUserName cannot be an empty string"]),
            ("a\tb", vec!["runAsUserName cannot contain control characters"]),
            ("a\\b\\c", vec!["runAsUserName cannot contain more than one backslash"]),
            ("a:b\\c", vec!["runAsUserName's Domain doesn't match the NetBios nor the DNS format"]),
            ("a\\", vec!["runAsUserName's User cannot be empty"]),
            (". .", vec!["runAsUserName's User cannot contain only periods or spaces"]),
            (&long, vec!["runAsUserName's User length must not be longer than 104 characters"]),
            (
                "a@b",
                vec![r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#],
            ),
        ] {
            assert_eq!(user_faults(user), expected, "{user}");
            let errors = validate_windows_options(&json!({"runAsUserName": user}), &Path::new("w"));
            assert_eq!(errors.iter().count(), expected.len());
        }
    }
}
