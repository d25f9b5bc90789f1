//! admissionregistration/v1: configurations of admission webhooks.
//!
//! Owns what the two kinds share: defaults, the generation, the rules of one webhook, and which of them an update of an older
//! configuration need not keep (`ratchet`). Rules over operations and resources and the match conditions are `admission_rule`'s,
//! those of the client configuration `webhook_client`'s. It calls no webhook.

mod ratchet;
#[cfg(test)]
mod tests;

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use self::ratchet::Requirements;
use crate::kinds::admission_rule::{
    Compiling, default_rules, default_selection, validate_conditions, validate_failure_policy,
    validate_match_policy, validate_rule,
};
use crate::kinds::webhook_client::{self, review_versions};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::names::dns1123_subdomain;
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::{Tree, items_mut, set_default_int, set_default_text};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Seconds that a call may take where the webhook names none.
const TIMEOUT_SECONDS: i64 = 10;
const TIMEOUT_SECONDS_MAX: i64 = 30;
/// Labels in the name of a webhook, at least.
const NAME_LABELS_MIN: usize = 3;
const REINVOCATIONS: [&str; 2] = ["IfNeeded", "Never"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
/// Side effects that a dry run does not have.
const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];

/// The rules of configurations of validating webhooks.
#[derive(Debug)]
pub struct ValidatingWebhookConfiguration;

/// The rules of configurations of mutating webhooks.
#[derive(Debug)]
pub struct MutatingWebhookConfiguration;

impl Strategy for ValidatingWebhookConfiguration {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        items_mut(new, "webhooks").iter_mut().for_each(default_webhook);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["webhooks"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_webhooks(context, new, Requirements::NEW));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_webhooks(context, new, Requirements::of_update(old, new)));
        errors
    }

    fn compiles_expressions(&self) -> bool {
        true
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(row(object, now))
    }
}

impl Strategy for MutatingWebhookConfiguration {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        for webhook in items_mut(new, "webhooks") {
            default_webhook(webhook);
            if webhook.is_object() {
                set_default_text(webhook, "reinvocationPolicy", "Never");
            }
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["webhooks"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_mutating(context, new, Requirements::NEW));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_mutating(context, new, Requirements::of_update(old, new)));
        errors
    }

    fn compiles_expressions(&self) -> bool {
        true
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(row(object, now))
    }
}

fn default_webhook(webhook: &mut Value) {
    if !webhook.is_object() {
        return;
    }
    set_default_text(webhook, "failurePolicy", "Fail");
    default_selection(webhook);
    default_rules(webhook, "rules");
    if webhook.at("timeoutSeconds").is_null() {
        set_default_int(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
    }
    webhook_client::default_port(webhook);
}

fn validate_mutating(context: &Context<'_>, new: &Value, requirements: Requirements) -> FieldErrors {
    let mut errors = validate_webhooks(context, new, requirements);
    for (at, webhook) in new.items("webhooks").iter().numbered() {
        let policy = webhook.text("reinvocationPolicy");
        // few: two values.
        if !REINVOCATIONS.contains(&policy) {
            let path = Path::new("webhooks").index(at).child("reinvocationPolicy");
            errors.push(FieldError::not_supported(path, policy, &REINVOCATIONS));
        }
    }
    errors
}

/// Rules for the webhooks of a configuration. Their conditions share one allowance.
fn validate_webhooks(context: &Context<'_>, new: &Value, requirements: Requirements) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut compiling = Compiling::webhooks(context.brand);
    let mut names = Distinct::new();
    for (at, webhook) in new.items("webhooks").iter().numbered() {
        let path = Path::new("webhooks").index(at);
        errors.extend(validate_webhook(webhook, requirements, &path));
        if requirements.conditions {
            errors.extend(validate_conditions(webhook, &mut compiling, &path));
        }
        let (reviews, missing) = (webhook.at("admissionReviewVersions"), review_versions::one_of_known());
        let reviews_path = path.child("admissionReviewVersions");
        errors.extend(review_versions::validate(
            reviews,
            &missing,
            requirements.known_review_versions,
            &reviews_path,
        ));
        let name = webhook.text("name");
        if requirements.unique_names && !name.is_empty() && names.is_repeated(name) {
            errors.push(FieldError::duplicate(path.child("name"), &quoted(name)));
        }
    }
    errors
}

fn validate_webhook(webhook: &Value, requirements: Requirements, path: &Path) -> FieldErrors {
    let mut errors = validate_name(webhook.text("name"), &path.child("name"));
    for (at, rule) in webhook.items("rules").iter().numbered() {
        errors.extend(validate_rule(rule, &path.child("rules").index(at)));
    }
    errors.extend(validate_failure_policy(webhook.text("failurePolicy"), path));
    errors.extend(validate_match_policy(webhook.text("matchPolicy"), path));
    errors.extend(validate_side_effects(webhook, requirements, &path.child("sideEffects")));
    let timeout = webhook.int("timeoutSeconds").unwrap_or(TIMEOUT_SECONDS);
    if !(1..=TIMEOUT_SECONDS_MAX).contains(&timeout) {
        let detail = format!("the timeout value must be between 1 and {TIMEOUT_SECONDS_MAX} seconds");
        errors.push(FieldError::invalid(path.child("timeoutSeconds"), &timeout.to_string(), &detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if webhook.has(field) {
            errors.extend(validate_label_selector(webhook.at(field), &path.child(field)));
        }
    }
    errors.extend(webhook_client::validate(webhook.at("clientConfig"), &path.child("clientConfig")));
    errors
}

fn validate_name(name: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let faults = dns1123_subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    } else if !faults.is_empty() {
        errors.push(FieldError::invalid_str(path.clone(), name, &faults.join(",")));
    } else if name.split('.').count() < NAME_LABELS_MIN {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid_str(path.clone(), name, detail));
    }
    errors
}

fn validate_side_effects(webhook: &Value, requirements: Requirements, path: &Path) -> Option<FieldError> {
    let supported: &[&str] = if requirements.harmless { &HARMLESS } else { &SIDE_EFFECTS };
    match webhook.at("sideEffects").as_str() {
        None => {
            let detail = format!("must specify one of {}", supported.join(", "));
            Some(FieldError::required(path.clone(), &detail))
        }
        // few: four values.
        Some(class) if !supported.contains(&class) => {
            Some(FieldError::not_supported(path.clone(), class, supported))
        }
        Some(_) => None,
    }
}

fn row(object: &Value, now: &str) -> Vec<Cell> {
    vec![
        object.at("metadata").at("name").clone(),
        i64::try_from(object.items("webhooks").len()).unwrap_or(i64::MAX).into(),
        age::age(object, now).into(),
    ]
}
