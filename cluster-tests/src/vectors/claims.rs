//! Claims of service account tokens, for steps that judge them.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The claims of a JSON Web Token; its times as seconds after `iat`.
pub(super) fn claims(token: &str) -> Result<Value> {
    let payload = token.split('.').nth(1).context("the token has no payload")?;
    let payload: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload)?)?;
    let issued_at = payload["iat"].as_i64().unwrap_or_default();
    Ok(shifted(payload, issued_at, ""))
}

/// `value` with the times in it, which have these names, as seconds after `start`.
fn shifted(value: Value, start: i64, name: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let shift = |(name, field): (String, Value)| {
                let field = shifted(field, start, &name);
                (name, field)
            };
            Value::Object(fields.into_iter().map(shift).collect())
        }
        Value::Number(time) if matches!(name, "iat" | "nbf" | "exp" | "warnafter") => {
            json!(time.as_i64().unwrap_or_default() - start)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_after_the_moment_of_issue() {
        let payload = json!({"iat": 100, "exp": 160, "aud": ["100"], "x": {"warnafter": 130, "n": 100}});
        let token = format!("h.{}.s", URL_SAFE_NO_PAD.encode(payload.to_string()));
        let expected = json!({"iat": 0, "exp": 60, "aud": ["100"], "x": {"warnafter": 30, "n": 100}});
        assert_eq!(claims(&token).unwrap(), expected);
        assert!(claims("x").is_err());
    }
}
