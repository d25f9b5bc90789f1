//! Names and addresses of hosts in a pod: how it resolves them, and the name of its own host.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::address::validate_ip;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LENGTH_MAX: usize = 2048;
/// Bytes of a host's name on Linux.
const HOSTNAME_MAX: usize = 64;
/// Bytes of a domain.
const DOMAIN_MAX: usize = 253;
const SEARCH_FORMAT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', \
    '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

/// Rules for `dnsConfig`, which one policy needs.
pub(super) fn validate_dns(spec: &Value, path: &Path) -> FieldErrors {
    let config = spec.at("dnsConfig");
    let servers = config.items("nameservers");
    if spec.text("dnsPolicy") == "None" && servers.is_empty() {
        let (path, detail) = if config.is_null() {
            (path.clone(), "must provide `dnsConfig` when `dnsPolicy` is None")
        } else {
            (path.child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
        };
        return FieldErrors::from(FieldError::required(path, detail));
    }
    let mut errors = FieldErrors::new();
    let (nameservers, searches) = (path.child("nameservers"), path.child("searches"));
    if servers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(FieldError::invalid(nameservers.clone(), &shown(config.at("nameservers")), &detail));
    }
    let addresses = config.texts("nameservers").into_iter().numbered();
    errors.extend(addresses.filter_map(|(at, server)| validate_ip(&nameservers.index(at), server)));
    let domains = config.texts("searches");
    let all = || shown(config.at("searches"));
    if domains.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(FieldError::invalid(searches.clone(), &all(), &detail));
    }
    if domains.join(" ").len() > SEARCH_LENGTH_MAX {
        let detail = format!(
            "must not have more than {SEARCH_LENGTH_MAX} characters (including spaces) in the search list"
        );
        errors.push(FieldError::invalid(searches.clone(), &all(), &detail));
    }
    for (at, domain) in domains.into_iter().numbered() {
        // A point alone is the root, below which nothing is searched.
        if domain != "." {
            let domain = domain.strip_suffix('.').unwrap_or(domain);
            errors.extend(invalid_each(&searches.index(at), domain, search_domain_faults(domain)));
        }
    }
    let options = path.child("options");
    let nameless =
        config.items("options").iter().numbered().filter(|(_, option)| option.text("name").is_empty());
    errors.extend(nameless.map(|(at, _)| FieldError::required(options.index(at), "must not be empty")));
    errors
}

/// The faults of a domain in which names are looked up. Its parts may begin with an underscore and have underscores within, as
/// the names of services in DNS do.
fn search_domain_faults(domain: &str) -> Vec<String> {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let is_inner = |c: char| is_edge(c) || matches!(c, '-' | '_');
        label.starts_with(is_edge) && label.ends_with(is_edge) && label.chars().all(is_inner)
    };
    let mut faults = Vec::new();
    if domain.len() > DOMAIN_MAX {
        faults.push(format!("must be no more than {DOMAIN_MAX} characters"));
    }
    if !domain.split('.').all(is_label) {
        faults.push(SEARCH_FORMAT.to_owned());
    }
    faults
}

/// A pod that names its host itself shares no name with its node, and has no domain in its name.
pub(super) fn validate_hostname_override(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (name, path) = (spec.at("hostnameOverride"), path.child("hostnameOverride"));
    let Some(name) = name.as_str() else { return errors };
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(field) {
            let detail = format!("may not be specified when {field} is true");
            errors.push(FieldError::forbidden(path.clone(), &detail));
        }
    }
    if name.len() > HOSTNAME_MAX {
        errors.push(FieldError::too_long(path.clone(), HOSTNAME_MAX));
    }
    errors.extend(invalid_each(&path, name, names::dns1123_subdomain(name)));
    errors
}

/// Rules for `hostAliases`.
pub(super) fn validate_host_aliases(aliases: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, alias) in aliases.iter().numbered() {
        let path = path.index(at);
        errors.extend(validate_ip(&path.child("ip"), alias.text("ip")));
        for (at, name) in alias.texts("hostnames").into_iter().numbered() {
            errors.extend(invalid_each(
                &path.child("hostnames").index(at),
                name,
                names::dns1123_subdomain(name),
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn domains_that_are_searched_may_have_lines() {
        let spec = json!({"dnsConfig": {"searches": [".", "_sip._tcp.a-b.c", "a_b.c.", "_", "-a", "A"]}});
        let errors = validate_dns(&spec, &Path::new("d"));
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["d.searches[3]", "d.searches[4]", "d.searches[5]"]);
    }

    #[test]
    fn a_name_of_its_own_host_is_for_pods_with_a_host_of_their_own() {
        let check = |spec: Value, expected: &[&str]| {
            assert_eq!(texts(&validate_hostname_override(&spec, &Path::new("s"))), expected);
        };
        check(json!({}), &[]);
        check(json!({"hostnameOverride": "a.b"}), &[]);
        check(
            json!({"hostnameOverride": "a".repeat(65), "hostNetwork": true, "setHostnameAsFQDN": true}),
            &[
                "s.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "s.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
                "s.hostnameOverride: Too long: may not be more than 64 bytes",
            ],
        );
    }
}
