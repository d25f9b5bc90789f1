//! How objects of a definition are converted between its versions.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::ratchet::Requirements;
use super::webhook_client;
use crate::validate::metadata::invalid_each;
use crate::validate::names::check_name;
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};
use orch_schema::NameRule;

const STRATEGIES: [&str; 2] = ["None", "Webhook"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NOT_SET: &str = "should not be set when strategy is not set to Webhook";

/// Rules for the conversion at `path`.
pub(super) fn validate(conversion: &Value, path: &Path, requirements: Requirements) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !conversion.is_object() {
        return errors;
    }
    let (strategy, webhook) = (conversion.text("strategy"), conversion.at("webhook"));
    // few: two strategies.
    if strategy.is_empty() {
        errors.push(FieldError::required(path.child("strategy"), ""));
    } else if !STRATEGIES.contains(&strategy) {
        errors.push(FieldError::not_supported(path.child("strategy"), strategy, &STRATEGIES));
    }
    // Places of the reference's own form, which has no `webhook` in between.
    let (client, versions) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let reviews = webhook.at("conversionReviewVersions");
    if strategy == "Webhook" {
        if webhook.has("clientConfig") {
            errors.extend(webhook_client::validate(webhook.at("clientConfig"), &client, requirements));
        } else {
            errors.push(FieldError::required(client, "required when strategy is set to Webhook"));
        }
        errors.extend(validate_review_versions(reviews, &versions, requirements));
    } else {
        if webhook.has("clientConfig") {
            errors.push(FieldError::forbidden(client, NOT_SET));
        }
        if reviews.as_array().is_some_and(|reviews| !reviews.is_empty()) {
            errors.push(FieldError::forbidden(versions, NOT_SET));
        }
    }
    errors
}

fn validate_review_versions(reviews: &Value, path: &Path, requirements: Requirements) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let names = reviews.as_array().map(Vec::as_slice).unwrap_or_default();
    if names.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
        return errors;
    }
    let mut seen = Distinct::new();
    for (at, name) in names.iter().numbered() {
        let name = name.as_str().unwrap_or_default();
        if seen.is_repeated(name) {
            errors.push(FieldError::invalid_str(path.index(at), name, "duplicate version"));
            continue;
        }
        errors.extend(invalid_each(&path.index(at), name, check_name(NameRule::Dns1035Label, name, false)));
    }
    if requirements.known_review_version && !REVIEW_VERSIONS.iter().any(|version| seen.has(version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path.clone(), &shown(reviews), &detail));
    }
    errors
}

/// Whether the review versions of a stored definition have one that the server knows, or there are none at all.
pub(super) fn has_known_review_version_or_none(conversion: &Value) -> bool {
    let names = conversion.at("webhook").items("conversionReviewVersions");
    // few: two versions.
    names.is_empty() || names.iter().any(|name| REVIEW_VERSIONS.contains(&name.as_str().unwrap_or_default()))
}
