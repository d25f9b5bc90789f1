//! certificates/v1 CertificateSigningRequest: somebody asks a signer for a certificate, somebody approves, the signer
//! answers.
//!
//! Owns who may write which part: the server says who asked, the object itself never changes, `approval` writes
//! conditions and `status` the certificate and the conditions of signers.

mod validate;

use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use crate::Action;
use crate::kinds::age::{age, human_duration};
use crate::kinds::{Cell, Context, NameRule, Strategy, object_meta};
use crate::validate::FieldErrors;
use crate::validate::tree::{Tree, carry, child_mut, items_mut, set, set_default_text, unset};

use self::validate::{
    APPROVED, DENIED, FAILED, Tolerance, validate_change, validate_encoded, validate_request,
};

/// The rules of requests for certificates.
#[derive(Debug)]
pub struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        for field in ["username", "uid", "groups", "extra"] {
            unset(spec, field);
        }
        let user = context.user;
        for (field, text) in [("username", user.name), ("uid", user.uid)] {
            if !text.is_empty() {
                set(spec, field, text);
            }
        }
        let texts = |texts: &[String]| Value::Array(texts.iter().map(|text| json!(text.as_str())).collect());
        if !user.groups.is_empty() {
            set(spec, "groups", texts(user.groups));
        }
        if !user.extra.is_empty() {
            let extra: Map = user.extra.iter().map(|(key, values)| (key.as_str(), texts(values))).collect();
            set(spec, "extra", Value::Object(extra));
        }
        set(new, "status", json!({}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        carry(old, new, "spec");
        match context.action {
            Action::Status => {
                preserve_conditions(old, new, APPROVED);
                preserve_conditions(old, new, DENIED);
                set_condition_times(old, new, context.now);
            }
            Action::Approval => {
                set_condition_times(old, new, context.now);
                let conditions = new.at("status").get("conditions").cloned();
                carry(old, new, "status");
                let status = child_mut(new, "status");
                match conditions {
                    Some(conditions) => set(status, "conditions", conditions),
                    None => unset(status, "conditions"),
                }
            }
            _ => carry(old, new, "status"),
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        // Updates keep the spec, so that the signature is checked once.
        errors.extend(validate_encoded(new));
        errors.extend(validate_request(context, new, Tolerance::default()));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::PathSegment);
        errors.extend(validate_request(context, new, Tolerance::of(context.brand, old, new)));
        errors.extend(validate_change(context, old, new));
        errors.extend(object_meta::on_update(context, old, new));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let signer = match spec.text("signerName") {
            "" => "<none>",
            name => name,
        };
        let duration = spec.int("expirationSeconds").map_or_else(|| "<none>".to_owned(), human_duration);
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(age(object, now)),
            json!(signer),
            json!(spec.text("username")),
            json!(duration),
            json!(summary(object.at("status"))),
        ])
    }
}

/// The state of a request as tables show it: `Approved,Issued`.
fn summary(status: &Value) -> String {
    let has = |kind: &str| {
        let mut conditions = status.items("conditions").iter().take_while(|_| count_step());
        // once: three passes for a row.
        conditions.any(|condition| condition.text("type") == kind)
    };
    let mut text = match () {
        () if has(DENIED) => "Denied",
        () if has(APPROVED) => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has(FAILED) {
        text.push_str(",Failed");
    }
    if !status.is_empty_at("certificate") {
        text.push_str(",Issued");
    }
    text
}

/// Keeps the conditions of type `kind` as they were, unless some were added or removed, which validation refuses.
fn preserve_conditions(old: &Value, new: &mut Value, kind: &str) {
    let is_kind = |condition: &&Value| count_step() && condition.text("type") == kind;
    let before = || old.at("status").items("conditions").iter().filter(is_kind);
    if before().count() != new.at("status").items("conditions").iter().filter(is_kind).count() {
        return;
    }
    let mut stored = before().cloned();
    let status = child_mut(new, "status");
    for condition in items_mut(status, "conditions").iter_mut().filter(|condition| is_kind(&&**condition)) {
        if let Some(stored) = stored.next() {
            *condition = stored;
        }
    }
}

/// Sets the times that a condition lacks: of its update to `now`; of its transition to that of the stored condition
/// with the same type and status, or to `now`.
fn set_condition_times(old: &Value, new: &mut Value, now: &str) {
    let stored = transition_times(old);
    let status = child_mut(new, "status");
    for condition in items_mut(status, "conditions").iter_mut().take_while(|_| count_step()) {
        if !condition.is_object() {
            continue;
        }
        set_default_text(condition, "lastUpdateTime", now);
        let own = (condition.text("type").to_owned(), condition.text("status").to_owned());
        let since = stored.get(&own).map_or(now, String::as_str);
        set_default_text(condition, "lastTransitionTime", since);
    }
}

/// The transition times of the stored conditions by type and status, the first of each.
fn transition_times(old: &Value) -> std::collections::HashMap<(String, String), String> {
    let mut times = std::collections::HashMap::new();
    for condition in old.at("status").items("conditions").iter().take_while(|_| count_step()) {
        let time = condition.text("lastTransitionTime");
        if !time.is_empty() {
            let key = (condition.text("type").to_owned(), condition.text("status").to_owned());
            times.entry(key).or_insert_with(|| time.to_owned());
        }
    }
    times
}

#[cfg(test)]
mod tests;
