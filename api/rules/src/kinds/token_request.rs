//! Requests for tokens of service accounts: documents that are answered and never stored.
//!
//! Owns the limits of a token's life. Which objects it may be bound to is settled where they are looked up.

use orch_schema::value::Value;

use super::{Context, Strategy};
use crate::validate::errors::FieldErrors;
use crate::validate::field::{FieldError, Path};
use crate::validate::tree::{Tree, child_mut, set_default};

/// A token's life in seconds where the request names none: that of the reference.
const LIFE_S: i64 = 60 * 60;
/// Shortest life of a token: that of the reference, so that holders have time to ask for the next.
const LIFE_S_MIN: i64 = 10 * 60;
/// Longest life of a token: that of the reference.
const LIFE_S_MAX: i64 = 1 << 32;

/// The body of a POST to a service account's `token`.
pub struct TokenRequest;

impl Strategy for TokenRequest {
    fn default(&self, _context: &Context<'_>, value: &mut Value) {
        set_default(child_mut(value, "spec"), "expirationSeconds", LIFE_S);
    }

    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = || Path::new("spec").child("expirationSeconds");
        let life = new.at("spec").int("expirationSeconds").unwrap_or_default();
        if life < LIFE_S_MIN {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid(path(), &life.to_string(), detail));
        }
        if life > LIFE_S_MAX {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(FieldError::invalid(path(), &life.to_string(), detail));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn a_token_lives_an_hour_unless_told_otherwise_within_limits() {
        let mut request = json!({});
        TokenRequest.default(&CONTEXT, &mut request);
        assert_eq!(request, json!({"spec": {"expirationSeconds": 3600}}));
        for (life, wrong) in [
            (0, Some("may not specify a duration less than 10 minutes")),
            (599, Some("may not specify a duration less than 10 minutes")),
            (600, None),
            (LIFE_S_MAX, None),
            (LIFE_S_MAX + 1, Some("may not specify a duration larger than 2^32 seconds")),
        ] {
            let request = json!({"spec": {"expirationSeconds": life}});
            let errors = TokenRequest.validate_create(&CONTEXT, &request);
            let told = errors.shown().iter().map(ToString::to_string).next();
            let expected =
                wrong.map(|detail| format!("spec.expirationSeconds: Invalid value: {life}: {detail}"));
            assert_eq!(told, expected);
        }
    }
}
