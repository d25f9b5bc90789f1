//! Qualified names: labels, and resources beyond the built-in ones.

/// Most bytes of the part behind the slash.
const NAME_BYTES_MAX: usize = 63;
/// Most bytes of the domain before it.
const DOMAIN_BYTES_MAX: usize = 253;

/// Faults of `text` as a qualified name, in the reference's words; empty where it is one.
pub(super) fn faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [domain, name] => {
            if domain.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(domain_faults(domain).into_iter().map(|fault| format!("prefix part {fault}")));
            }
            name
        }
        _ => {
            return vec![
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        faults.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !is_framed(name, is_inner, |byte| byte.is_ascii_alphanumeric()) {
        faults.push(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        );
    }
    faults
}

/// Whether `name` is the name of an extended resource: one with a domain that is not the product's.
pub(super) fn is_extended_resource(name: &str, label_domain: &str) -> bool {
    let Some((domain, _)) = name.split_once('/') else { return false };
    let is_native = domain == label_domain || domain.ends_with(&format!(".{label_domain}"));
    !is_native && !name.starts_with("requests.") && faults(&format!("requests.{name}")).is_empty()
}

fn domain_faults(domain: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if domain.len() > DOMAIN_BYTES_MAX {
        faults.push(format!("must be no more than {DOMAIN_BYTES_MAX} bytes"));
    }
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !domain.split('.').all(|label| is_framed(label, |byte| is_end(byte) || byte == b'-', is_end)) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    faults
}

/// Whether `text` has only `inner` bytes, and an `outer` one at both ends.
fn is_framed(text: &str, inner: impl Fn(u8) -> bool, outer: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => outer(*first) && outer(*last) && bytes.iter().all(|byte| inner(*byte)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_domains_have_forms() {
        for name in ["cpu", "example.com/gpu", "topology.example.com/zone", "A-b_c.d"] {
            assert_eq!(faults(name), [""; 0], "{name}");
        }
        for (name, count) in [("", 2), ("/x", 1), ("x/", 2), ("a/b/c", 1), ("-a", 1), ("Example.com/x", 1)] {
            assert_eq!(faults(name).len(), count, "{name}: {:?}", faults(name));
        }
        assert!(is_extended_resource("example.com/gpu", "home.test"));
        assert!(!is_extended_resource("cpu", "home.test"));
        assert!(!is_extended_resource("x.home.test/gpu", "home.test"));
    }
}
