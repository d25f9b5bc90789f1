//! How a webhook is reached, of admission and of conversion: its URL or service, and the certificates that it may show.
//!
//! Owns the rules of the client configuration in an object, the default port, the split of URLs (`url`), and whether a CA bundle
//! can be read. It connects to nothing. Where a bundle has to be readable is its kind's to say.

pub(super) mod review_versions;
pub(crate) mod url;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use self::url::Url;
use crate::certificates::PemBlock;
use crate::validate::names::{dns1123_subdomain, port_number};
use crate::validate::tree::{Tree, existing_mut, set_default};
use crate::validate::{FieldError, FieldErrors, Path};

/// Port of a service that names none.
const PORT: i64 = 443;
const FORM: &str = "; desired format: https://host[/path]";

/// Fills in the port of the service in the client configuration of `webhook`.
pub(super) fn default_port(webhook: &mut Value) {
    let client = existing_mut(webhook, "clientConfig");
    if let Some(service) = client.and_then(|client| existing_mut(client, "service")) {
        set_default(service, "port", PORT);
    }
}

/// Rules for the client configuration at `path`, but for its certificates.
pub(super) fn validate(client: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match (client.at("url").as_str(), client.at("service")) {
        (Some(url), Value::Null) => errors.extend(validate_url(url, &path.child("url"))),
        (None, service @ Value::Object(_)) => {
            errors.extend(validate_service(service, &path.child("service")));
        }
        _ => errors.push(FieldError::required(path.clone(), "exactly one of url or service is required")),
    }
    errors
}

/// Rules for the certificates in the client configuration at `path`, where they have to be readable.
pub(super) fn validate_bundle(client: &Value, path: &Path) -> Option<FieldError> {
    let bundle = client.text("caBundle");
    let fault = Some(bundle).filter(|bundle| !bundle.is_empty()).and_then(bundle_fault)?;
    let detail = format!("unable to load root certificates: {fault}");
    Some(FieldError::invalid_str(path.child("caBundle"), bundle, &detail))
}

fn validate_url(text: &str, path: &Path) -> FieldErrors {
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(reason) => {
            let detail = format!("url must be a valid URL: parse {}: {reason}{FORM}", quoted(text));
            return FieldError::required(path.clone(), &detail).into();
        }
    };
    let mut errors = FieldErrors::new();
    let mut refuse = |value: &str, detail: &str| {
        errors.push(FieldError::invalid_str(path.clone(), value, detail));
    };
    if url.scheme != "https" {
        refuse(&url.scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        refuse(url.host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        refuse(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        refuse(url.query, "query parameters are not permitted in the URL");
    }
    errors
}

fn validate_service(service: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    // The reference reports each of the two at the place of the other.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            errors.push(FieldError::required(path.child(reported), ""));
        }
    }
    let port = service.int("port").unwrap_or_default();
    let faults = port_number(port);
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(","));
        errors.push(FieldError::invalid(path.child("port"), &port.to_string(), &detail));
    }
    errors.extend(validate_url_path(service.text("path"), &path.child("path")));
    errors
}

fn validate_url_path(text: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut refuse = |detail: &str| errors.push(FieldError::invalid_str(path.clone(), text, detail));
    match text {
        "" | "/" => return errors,
        "//" => {
            refuse("segment[0] may not be empty");
            return errors;
        }
        _ if !text.starts_with('/') => refuse("must start with a '/'"),
        _ => {}
    }
    // The reference drops the first character even where it is no slash.
    let rest: &str = &text[text.chars().next().map_or(0, char::len_utf8)..];
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (at, segment) in rest.split('/').numbered() {
        if segment.is_empty() {
            refuse(&format!("segment[{at}] may not be empty"));
            continue;
        }
        dns1123_subdomain(segment).iter().for_each(|fault| refuse(&format!("segment[{at}]: {fault}")));
    }
    errors
}

/// Whether a bundle, in base64 as documents hold it, has a certificate that can be read. Others and other blocks are passed over.
pub(super) fn is_readable(bundle: &str) -> bool {
    bundle_fault(bundle).is_none()
}

/// The first fault of a bundle without a certificate that can be read, in the reference's words.
fn bundle_fault(bundle: &str) -> Option<&'static str> {
    let bundle = STANDARD.decode(bundle).unwrap_or_default();
    let text = String::from_utf8_lossy(&bundle);
    let (mut rest, mut fault) = (&*text, None);
    while !rest.is_empty() {
        let Some((block, behind)) = PemBlock::first(rest).filter(|_| count_step()) else {
            fault = fault.or(Some("unable to parse bytes as PEM block"));
            break;
        };
        rest = behind;
        if block.label != "CERTIFICATE" || block.has_headers {
            continue;
        }
        if x509_parser::parse_x509_certificate(&block.content).is_ok_and(|(left, _)| left.is_empty()) {
            return None;
        }
        fault = fault.or(Some("failed to parse certificate: x509: malformed certificate"));
    }
    Some(fault.unwrap_or("no valid certificate authority data seen"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_readable_where_one_of_its_certificates_is() {
        let good = rcgen::generate_simple_self_signed(vec!["a.example.com".to_owned()]).unwrap().cert.pem();
        let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        let (bad, key) = (block("CERTIFICATE"), block("PRIVATE KEY"));
        for (bundle, fault) in [
            (good.clone(), None),
            (format!("{bad}{key}{good}"), None),
            (format!("{good}{bad}"), None),
            ("\n".to_owned(), Some("unable to parse bytes as PEM block")),
            (bad.clone(), Some("failed to parse certificate: x509: malformed certificate")),
            (format!("{key}{bad}"), Some("failed to parse certificate: x509: malformed certificate")),
            (key, Some("no valid certificate authority data seen")),
        ] {
            assert_eq!(bundle_fault(&STANDARD.encode(&bundle)), fault, "{bundle}");
        }
    }
}
