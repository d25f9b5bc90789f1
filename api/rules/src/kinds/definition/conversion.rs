//! How objects of a definition are converted between its versions.

use orch_schema::value::Value;

use super::ratchet::Requirements;
use crate::kinds::webhook_client::{self, review_versions};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

const STRATEGIES: [&str; 2] = ["None", "Webhook"];
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
            let config = webhook.at("clientConfig");
            errors.extend(webhook_client::validate(config, &client));
            if requirements.readable_ca_bundle {
                errors.extend(webhook_client::validate_bundle(config, &client));
            }
        } else {
            errors.push(FieldError::required(client, "required when strategy is set to Webhook"));
        }
        let requires_known = requirements.known_review_version;
        errors.extend(review_versions::validate(reviews, "", requires_known, &versions));
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

/// Whether the review versions of a stored definition have one that the server knows, or there are none at all.
pub(super) fn has_known_review_version_or_none(conversion: &Value) -> bool {
    let (webhook, field) = (conversion.at("webhook"), "conversionReviewVersions");
    webhook.items(field).is_empty() || review_versions::has_known(webhook, field)
}

/// Whether the certificates of a stored conversion can be read, or there are none.
pub(super) fn has_readable_ca_bundle_or_none(conversion: &Value) -> bool {
    let bundle = conversion.at("webhook").at("clientConfig").text("caBundle");
    bundle.is_empty() || webhook_client::is_readable(bundle)
}

/// Whether the certificates of the conversion webhook of `definition` cannot be read, so that it is not established.
pub fn has_unreadable_ca_bundle(definition: &Value) -> bool {
    let conversion = definition.at("spec").at("conversion");
    conversion.text("strategy") == "Webhook" && !has_readable_ca_bundle_or_none(conversion)
}
