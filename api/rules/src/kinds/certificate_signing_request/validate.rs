//! Validation of requests for certificates.
//!
//! Owns the rules of spec and status, and what an update may not do to conditions and certificate. Faults that the
//! stored object has already are tolerated, as in the reference.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::Action;
use crate::certificates::{ALL_USAGES, BuiltinSigner, CertificateRequest, validate_certificates};
use crate::kinds::Context;
use crate::validate::distinct::Distinct;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

pub(super) const APPROVED: &str = "Approved";
pub(super) const DENIED: &str = "Denied";
pub(super) const FAILED: &str = "Failed";

/// Shortest validity that a request may ask for, in seconds.
const EXPIRATION_S_MIN: i64 = 600;
/// Longest domain of a signer's name: a DNS subdomain.
const DOMAIN_LENGTH_MAX: usize = 253;
/// Longest signer name: a subdomain, and behind a slash a label, a dot and a subdomain.
const SIGNER_NAME_LENGTH_MAX: usize = DOMAIN_LENGTH_MAX + 1 + 63 + 1 + 253;

/// Faults that are tolerated because the stored object has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    approved_and_denied: bool,
    legacy_signer: bool,
    repeated_conditions: bool,
    untyped_conditions: bool,
    certificate: bool,
    usages: bool,
}

impl Tolerance {
    /// The faults of `old`; a certificate that `new` leaves alone is not looked at.
    pub(super) fn of(brand: &Brand, old: &Value, new: &Value) -> Self {
        let (status, spec) = (old.at("status"), old.at("spec"));
        let mut types = Distinct::new();
        let kinds: Vec<&str> = status
            .items("conditions")
            .iter()
            .take_while(|_| count_step())
            .map(|condition| condition.text("type"))
            .collect();
        // once: for a document.
        let repeated_conditions = kinds.iter().any(|kind| types.is_repeated(*kind));
        let all: Distinct<&str> = kinds.into_iter().collect();
        let certificate = status.text("certificate");
        let mut errors = FieldErrors::new();
        validate_usages(spec, &mut errors);
        Tolerance {
            approved_and_denied: all.has(&APPROVED) && all.has(&DENIED),
            legacy_signer: spec.text("signerName") == BuiltinSigner::LegacyUnknown.name(brand),
            repeated_conditions,
            untyped_conditions: all.has(&""),
            certificate: certificate == new.at("status").text("certificate")
                || check_certificate(certificate).is_some(),
            usages: !errors.is_empty(),
        }
    }
}

/// The encoded request has to be one, signed by its key.
pub(super) fn validate_encoded(new: &Value) -> Option<FieldError> {
    let request = new.at("spec").text("request");
    let error = CertificateRequest::parse(&decoded(request)).err()?;
    Some(FieldError::invalid_str(Path::new("spec").child("request"), request, &error.to_string()))
}

/// The rules of spec and status, but for the encoded request.
pub(super) fn validate_request(context: &Context<'_>, new: &Value, tolerance: Tolerance) -> FieldErrors {
    let (spec, path) = (new.at("spec"), Path::new("spec"));
    let mut errors = FieldErrors::new();
    if spec.items("usages").is_empty() {
        errors.push(FieldError::required(path.child("usages"), ""));
    }
    if !tolerance.usages {
        validate_usages(spec, &mut errors);
    }
    let signer = spec.text("signerName");
    let is_legacy = signer == BuiltinSigner::LegacyUnknown.name(context.brand);
    if is_legacy && !tolerance.legacy_signer {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid_str(path.child("signerName"), signer, detail));
    } else {
        errors.extend(validate_signer_name(signer, &path.child("signerName")));
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|seconds| *seconds < EXPIRATION_S_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(path.child("expirationSeconds"), &seconds.to_string(), detail));
    }
    let status = Path::new("status");
    errors.extend(validate_conditions(new.at("status"), &status.child("conditions"), tolerance));
    if !tolerance.certificate
        && let Some(fault) = check_certificate(new.at("status").text("certificate"))
    {
        let shown = "<certificate data>";
        errors.push(FieldError::invalid_str(status.child("certificate"), shown, &fault));
    }
    errors
}

/// Refuses updates that remove a decision, decide elsewhere than in `approval`, or replace a certificate.
pub(super) fn validate_change(context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("status");
    let mut errors = FieldErrors::new();
    let count = |object: &Value, kind: &str| {
        let conditions = object.at("status").items("conditions").iter();
        conditions.filter(|condition| count_step() && condition.text("type") == kind).count()
    };
    for kind in [APPROVED, DENIED, FAILED] {
        if count(new, kind) < count(old, kind) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(path.child("conditions"), &detail));
        }
    }
    // A condition that both have is the stored one: preparation restores it.
    let added = [APPROVED, DENIED].into_iter().filter(|kind| count(new, kind) > count(old, kind));
    for kind in added.filter(|_| context.action != Action::Approval) {
        let detail = format!("updates may not add a condition of type {kind:?}");
        errors.push(FieldError::forbidden(path.child("conditions"), &detail));
    }
    let (before, now) = (old.at("status").text("certificate"), new.at("status").text("certificate"));
    if before != now && !before.is_empty() {
        let detail = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden(path.child("certificate"), detail));
    }
    errors
}

fn validate_usages(spec: &Value, errors: &mut FieldErrors) {
    let path = Path::new("spec").child("usages");
    let mut seen = Distinct::new();
    let mut repeated = Vec::new();
    for (at, usage) in spec.texts("usages").into_iter().numbered() {
        // few: the usages that there are.
        if !ALL_USAGES.contains(&usage) {
            errors.push(FieldError::not_supported(path.index(at), usage, &ALL_USAGES));
        }
        if seen.is_repeated(usage) && !errors.is_full() {
            repeated.push(FieldError::duplicate(path.index(at), &quoted(usage)));
        }
    }
    errors.extend(repeated);
}

/// The rules of `domain/path`.
fn validate_signer_name(name: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if name.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
        return errors;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid_str(path.clone(), name, detail));
        return errors;
    };
    if domain.len() > DOMAIN_LENGTH_MAX {
        errors.push(FieldError::too_long(path.clone(), DOMAIN_LENGTH_MAX));
    }
    errors.extend(validate_labels(domain, names::dns1123_label, path));
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid_str(path.clone(), domain, detail));
    }
    errors.extend(validate_labels(rest, names::dns1123_subdomain, path));
    if name.len() > SIGNER_NAME_LENGTH_MAX {
        errors.push(FieldError::too_long(path.clone(), SIGNER_NAME_LENGTH_MAX));
    }
    errors
}

/// The faults of the first bad label of `part`.
fn validate_labels(part: &str, faults: fn(&str) -> Vec<String>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let labels = part.split('.').take_while(|_| count_step());
    // once: for a name.
    let bad = labels.map(|label| (label, faults(label))).find(|(_, faults)| !faults.is_empty());
    for fault in bad.iter().flat_map(|(label, faults)| faults.iter().map(move |fault| (label, fault))) {
        let detail = format!("validating label {}: {}", quoted(fault.0), fault.1);
        errors.push(FieldError::invalid_str(path.clone(), part, &detail));
    }
    errors
}

fn validate_conditions(status: &Value, path: &Path, tolerance: Tolerance) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, condition) in status.items("conditions").iter().numbered() {
        let (path_at, kind) = (path.index(at), condition.text("type"));
        if kind.is_empty() && !tolerance.untyped_conditions {
            errors.push(FieldError::required(path_at.child("type"), ""));
        }
        let is_final = matches!(kind, APPROVED | DENIED | FAILED);
        let allowed: &[&str] = if is_final { &["True"] } else { &["False", "True", "Unknown"] };
        match condition.text("status") {
            "" => errors.push(FieldError::required(path_at.child("status"), "")),
            // few: three words.
            known if allowed.contains(&known) => {}
            other => errors.push(FieldError::not_supported(path_at.child("status"), other, allowed)),
        }
        let excluded = match kind {
            APPROVED => DENIED,
            DENIED => APPROVED,
            _ => "",
        };
        if !excluded.is_empty() && seen.has(&excluded) && !tolerance.approved_and_denied {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid_str(path.clone(), kind, detail));
        }
        if seen.is_repeated(kind) && !tolerance.repeated_conditions {
            errors.push(FieldError::duplicate(path_at.child("type"), &quoted(kind)));
        }
    }
    errors
}

/// The fault of a certificate; an absent one has none.
fn check_certificate(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    validate_certificates(&decoded(text)).err().map(|error| error.to_string())
}

/// The bytes of a field, which the decoder has checked.
fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}
