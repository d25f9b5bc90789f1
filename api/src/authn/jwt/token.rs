//! The parts of a token (RFC 7515 in its compact form) and the checks that need no configuration.
//!
//! Owns which headers are understood and when a token is valid in time. Invariant: nothing that a token says decides
//! how it is verified, but for the choice among algorithms of its key.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::key::Algorithm;

/// How far an issuer's clock may be ahead, as in the reference's library.
const SKEW_S: f64 = 300.0;

/// The fault of a token. Shown to whoever reviews it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// The text is no token, or its header is not understood.
    #[error("oidc: verify token: oidc: malformed jwt")]
    Malformed,
    /// The token's algorithm is not accepted.
    #[error("oidc: verify token: oidc: id token signed with unsupported algorithm")]
    Algorithm,
    /// The keys of the token's issuer are not known yet.
    #[error("oidc: authenticator not initialized")]
    NoKeys,
    /// No key of the issuer made the token's signature.
    #[error("oidc: verify token: failed to verify signature: failed to verify id token signature")]
    Signature,
    /// `exp` has passed.
    #[error("oidc: verify token: oidc: token is expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("oidc: verify token: oidc: current time before the nbf (not before) time")]
    NotYet,
    /// No audience of the token is accepted.
    #[error("oidc: expected audience in {wanted:?}")]
    Audience {
        /// Audiences of the configuration.
        wanted: Vec<String>,
    },
    /// A rule of the configuration refuses its claims. Holds the reason.
    #[error("oidc: {0}")]
    Claims(String),
}

/// A token in its parts. Nothing is verified.
pub(super) struct Parts<'a> {
    /// Header and payload as they are signed.
    pub(super) message: &'a [u8],
    pub(super) signature: Vec<u8>,
    pub(super) algorithm: Algorithm,
    /// `kid`; empty where the token names no key.
    pub(super) key_id: String,
    payload: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes `token` apart.
    pub(super) fn of(token: &'a [u8]) -> Result<Parts<'a>, JwtError> {
        let mut parts = token.split(|&byte| byte == b'.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(JwtError::Malformed);
        };
        let message = &token[..header.len() + 1 + payload.len()];
        let header = decode(header).ok_or(JwtError::Malformed)?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtError::Malformed)?;
        // Extensions that must be understood are not, and `b64` would change what is signed.
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(JwtError::Malformed);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).ok_or(JwtError::Malformed)?;
        let algorithm = Algorithm::named(algorithm).ok_or(JwtError::Algorithm)?;
        let key_id = match header.get("kid") {
            None => String::new(),
            Some(id) => id.as_str().ok_or(JwtError::Malformed)?.to_owned(),
        };
        Ok(Parts { message, signature, algorithm, key_id, payload })
    }

    /// The claims. They count only once the signature is verified.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, JwtError> {
        decode(self.payload).ok_or(JwtError::Malformed)
    }
}

/// The issuer that `token` names, unverified; `None` if it is no token.
pub(super) fn unverified_issuer(token: &[u8]) -> Option<String> {
    let mut parts = token.split(|&byte| byte == b'.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    match decode(payload)?.get("iss")?.as_str()? {
        // The issuer's own older spelling, as in the reference.
        "accounts.google.com" => Some("https://accounts.google.com".to_owned()),
        issuer => Some(issuer.to_owned()),
    }
}

/// Checks issuer, audience, end and beginning at `now`, in seconds since 1970. Returns the end.
pub(super) fn check(
    claims: &Map<String, Value>,
    issuer: &str,
    audiences: &[String],
    now: u64,
) -> Result<u64, JwtError> {
    let named = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
    let is_old_spelling = named == "accounts.google.com" && issuer == "https://accounts.google.com";
    if named != issuer && !is_old_spelling {
        return Err(JwtError::Claims(
            "verify token: oidc: id token issued by a different provider".to_owned(),
        ));
    }
    let meant: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    // few: the audiences of one token and of one issuer.
    if !audiences.iter().any(|wanted| meant.contains(&wanted.as_str())) {
        return Err(JwtError::Audience { wanted: audiences.to_vec() });
    }
    let seconds = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().filter(|time| time.is_finite()).map(Some).ok_or(JwtError::Malformed),
    };
    // Seconds since 1970 are far below 2^53.
    #[expect(clippy::cast_precision_loss, reason = "times are small enough to be exact")]
    let moment = now as f64;
    let end = seconds("exp")?.ok_or(JwtError::Expired)?;
    if moment >= end {
        return Err(JwtError::Expired);
    }
    if seconds("nbf")?.is_some_and(|begin| begin > moment + SKEW_S) {
        return Err(JwtError::NotYet);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above `now`, and saturates")]
    Ok(end as u64)
}

/// The JSON object whose text is `part` in base64.
fn decode(part: &[u8]) -> Option<Map<String, Value>> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&json).ok()
}
