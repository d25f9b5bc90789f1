//! The error of a write that a policy refuses, and what audit events tell of a violation.

use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::Value;

use super::prepared::Binding;
use crate::admission::{Attributes, Refusal, forbidden};
use crate::error::{ApiError, PolicyReason, Subject};

/// The first violation for which a write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) policy: String,
    /// Empty for an error of the policy itself.
    pub(super) binding: String,
    pub(super) message: String,
    /// As the policy names it; may be empty.
    pub(super) reason: String,
}

impl Denial {
    /// The refusal of a write by a validating policy.
    pub(super) fn refusal(self, attributes: &Attributes<'_>) -> Refusal {
        let Denial { policy, binding, message, reason } = self;
        let by = match &*binding {
            "" => format!("ValidatingAdmissionPolicy '{policy}'"),
            binding => format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"),
        };
        let cause = format!("{by} denied request: {message}");
        let reason = match &*reason {
            "Unauthorized" => PolicyReason::Unauthorized,
            "Forbidden" => PolicyReason::Forbidden,
            "RequestEntityTooLarge" => PolicyReason::TooLarge,
            _ => PolicyReason::Invalid,
        };
        let subject = subject(attributes);
        let ApiError::Forbidden { message, .. } = forbidden(subject.clone(), &cause) else {
            return Refusal::Forbidden(cause);
        };
        Refusal::Error(ApiError::DeniedByPolicy { subject, message, reason, causes: vec![cause] })
    }
}

/// The object, as refusals of policies name it: one of a collection that is deleted has no name there.
pub(super) fn subject(attributes: &Attributes<'_>) -> Subject {
    let is_of_collection = attributes.deletion.is_some() && attributes.path_name.is_empty();
    match is_of_collection {
        true => Subject { name: "Unknown".to_owned(), ..attributes.subject() },
        false => attributes.subject(),
    }
}

/// The reason why a mutation was not made.
#[derive(Debug)]
pub(super) enum PolicyFault {
    /// The failure policy says what follows.
    Policy(String),
    /// The request fails.
    Request(ApiError),
}

/// Errors of mutating policies, in order.
#[derive(Debug, Default)]
pub(super) struct PolicyErrors {
    first: Option<PolicyReason>,
    messages: Vec<String>,
}

impl PolicyErrors {
    /// Adds the error of a condition or mutation.
    pub(super) fn add_failure(&mut self, policy: &str, binding: &str, reason: &str) {
        self.first.get_or_insert(PolicyReason::InvalidMutation);
        self.messages.push(format!("policy '{policy}' with binding '{binding}' denied request: {reason}"));
    }

    /// Adds the error of a policy that cannot be evaluated.
    pub(super) fn add_misconfiguration(&mut self, policy: &str, binding: Option<&str>, reason: &str) {
        self.first.get_or_insert(PolicyReason::Forbidden);
        self.messages.push(match binding {
            Some(binding) => format!(
                "policy '{policy}' with binding '{binding}' denied request: failed to configure binding: {reason}"
            ),
            None => format!("policy \"{policy}\" denied request: failed to configure policy: {reason}"),
        });
    }

    /// # Errors
    /// The refusal, where there are errors.
    pub(super) fn refusal(self, attributes: &Attributes<'_>) -> Result<(), Refusal> {
        let (Some(reason), Some(message)) = (self.first, self.messages.first().cloned()) else {
            return Ok(());
        };
        let (subject, causes) = (subject(attributes), self.messages);
        Err(Refusal::Error(ApiError::DeniedByPolicy { subject, message, reason, causes }))
    }
}

/// Adds the annotation of a violation to the audit events of the request. The first one counts.
pub(super) fn annotate_violation(
    attributes: &Attributes<'_>,
    policy: &str,
    binding: &Binding,
    at: usize,
    message: &str,
) {
    attributes.annotate(|| violation_key(attributes.brand), || violation_text(policy, binding, at, message));
}

/// The value of the annotation.
fn violation_text(policy: &str, binding: &Binding, at: usize, message: &str) -> String {
    let actions: Vec<Value> = binding.action_names().into_iter().map(Value::from).collect();
    let violations = json!([{
        "message": message,
        "policy": policy,
        "binding": &*binding.name,
        "expressionIndex": i64::try_from(at).unwrap_or(i64::MAX),
        "validationActions": actions,
    }]);
    let mut text = String::new();
    for letter in violations.to_string().chars() {
        match letter {
            // The reference's JSON has these as escapes. They stand in texts only.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(letter)))
            }
            other => text.push(other),
        }
    }
    text
}

fn violation_key(brand: &Brand) -> String {
    format!("{}/validation_failure", brand.group("validation.policy.admission"))
}

#[cfg(test)]
mod tests {
    use super::super::prepared::Action;
    use super::*;

    #[test]
    fn a_violation_is_told_as_the_json_of_the_reference() {
        let binding =
            Binding { name: "b".into(), matching: None, params: None, actions: vec![Action::Audit] };
        let message = "failed expression: object.spec.replicas <= 5 && '\u{2028}' != \"x\"";
        assert_eq!(
            violation_text("p", &binding, 1, message),
            "[{\"message\":\"failed expression: object.spec.replicas \\u003c= 5 \\u0026\\u0026 '\\u2028' != \\\"x\\\"\",\"policy\":\"p\",\
             \"binding\":\"b\",\"expressionIndex\":1,\"validationActions\":[\"Audit\"]}]"
        );
    }
}
