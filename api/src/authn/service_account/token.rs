//! The form of service account tokens: JSON Web Tokens in compact serialization (RFC 7519).
//!
//! Owns the claims and the checks that need nothing but the token, the keys and the time. It reads no object.
//!
//! Invariant: what a token says is looked at only behind a valid signature by the algorithm of the key; the header
//! chooses among the keys and nothing else.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use orch_schema::excerpt::quoted;
use serde_json::{Map, Value, json};

use super::keys::{Signer, SigningFailed, VerifyingKey};
use super::object;

/// Bytes of the longest token that is looked at.
pub(super) const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Bytes of a list of audiences after which an error shows no further one: a review names as many as fit into a body.
const AUDIENCES_BYTES_MAX: usize = 1 << 10;

/// Seconds that the clocks of two members may differ: a token is valid this much before the moment it was made. The
/// reference's leeway.
const SKEW_S: u64 = 60;

/// An object by name and uid. The uid of a node is empty where the pod ran on a node without an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRef {
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
}

/// The claims of a token. Times in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The audiences that the token is meant for.
    pub audiences: Vec<String>,
    /// When it was made.
    pub issued_at: u64,
    /// When it ends.
    pub expires_at: u64,
    /// Its id.
    pub id: String,
    /// Namespace of the account.
    pub namespace: String,
    /// The account.
    pub account: ObjectRef,
    /// The pod that it is bound to.
    pub pod: Option<ObjectRef>,
    /// The secret that it is bound to.
    pub secret: Option<ObjectRef>,
    /// The node that it is bound to, or that its pod runs on.
    pub node: Option<ObjectRef>,
    /// When its holder should have asked for a new one.
    pub warn_after: Option<u64>,
}

/// The reason why a token is refused. The log shows it, the answer to its holder does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token that this server reads.
    #[error("the token is malformed")]
    Malformed,
    /// No key of this server made the signature.
    #[error("no key verifies the token")]
    Signature,
    /// A claim is missing, of the wrong type, or contradicts another.
    #[error("the token's claim {0} is missing or wrong")]
    Claim(&'static str),
    /// `exp` has passed.
    #[error("service account token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYet,
    /// No audience of the token is accepted.
    #[error("token audiences {found} is invalid for the target audiences {wanted}")]
    Audience {
        /// Audiences of the token, as shown.
        found: String,
        /// Audiences that were asked for, as shown.
        wanted: String,
    },
    /// The token's account is gone, or an object is another of the same name, as the message tells.
    #[error("{0}")]
    Object(String),
    /// The object that the token is bound to is gone.
    #[error("service account token has been invalidated")]
    Unbound,
    /// An object has been deleted for a while, or cannot be read.
    #[error("service account token has been invalidated")]
    Invalidated,
    /// The secret that keeps the token is marked as unused for long.
    #[error(
        "the token in secret {secret} of service account {account} has been marked invalid; tokens come from token requests, \
         or from secrets made by hand, and the token is good again for a while once the secret's label {label} is removed"
    )]
    MarkedInvalid {
        /// Namespace and name of the secret.
        secret: String,
        /// Namespace and name of the account.
        account: String,
        /// The label that is the mark.
        label: String,
    },
}

impl TokenError {
    /// Whether the signature and the claims are good, and an object is missing or another: a member that has not applied
    /// the newest writes may lack the object.
    pub fn is_of_an_object(&self) -> bool {
        match self {
            TokenError::Object(_) | TokenError::Unbound => true,
            TokenError::Malformed
            | TokenError::Signature
            | TokenError::Claim(_)
            | TokenError::Expired
            | TokenError::NotYet
            | TokenError::Audience { .. }
            | TokenError::Invalidated
            | TokenError::MarkedInvalid { .. } => false,
        }
    }

    /// The fault of a token for `found` where `wanted` is asked for.
    pub fn audience(found: &[String], wanted: &[String]) -> TokenError {
        TokenError::Audience { found: shown(found), wanted: shown(wanted) }
    }
}

/// A list of audiences as the reference shows it: each quoted, separated by spaces, in brackets. Three dots stand for those
/// beyond [`AUDIENCES_BYTES_MAX`].
fn shown(audiences: &[String]) -> String {
    let mut text = String::from("[");
    for (at, audience) in audiences.iter().enumerate() {
        if at > 0 {
            text.push(' ');
        }
        if text.len() > AUDIENCES_BYTES_MAX {
            text.push_str("...");
            break;
        }
        text.push_str(&quoted(audience));
    }
    text.push(']');
    text
}

impl Claims {
    /// The token that says this, signed by `signer`. `domain` names the claim of objects, `orch.io`.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn sign(&self, issuer: &str, domain: &str, signer: &dyn Signer) -> Result<String, SigningFailed> {
        signed(&self.payload(issuer, domain), signer)
    }

    fn payload(&self, issuer: &str, domain: &str) -> Value {
        let mut objects = Map::new();
        objects.insert("namespace".to_owned(), json!(self.namespace));
        let account = Some(&self.account);
        let (node, pod, secret) = (self.node.as_ref(), self.pod.as_ref(), self.secret.as_ref());
        for (key, object) in [("node", node), ("pod", pod), ("secret", secret), ("serviceaccount", account)] {
            if let Some(object) = object {
                objects.insert(key.to_owned(), reference(object));
            }
        }
        if let Some(time) = self.warn_after {
            objects.insert("warnafter".to_owned(), json!(time));
        }
        let mut payload = json!({
            "aud": self.audiences, "exp": self.expires_at, "iat": self.issued_at, "nbf": self.issued_at,
            "iss": issuer, "jti": self.id,
            "sub": format!("system:serviceaccount:{}:{}", self.namespace, self.account.name),
        });
        payload[domain] = Value::Object(objects);
        payload
    }

    /// The claims of `token`, verified at `now` in seconds since 1970. As in the reference, its audiences are checked before its
    /// times.
    ///
    /// # Errors
    /// The token is not one of these issuers for one of the audiences `wanted` that is valid now.
    pub fn verify(
        token: &[u8],
        issuers: &[String],
        domain: &str,
        keys: &[VerifyingKey],
        wanted: &[String],
        now: u64,
    ) -> Result<Claims, TokenError> {
        let payload = verified(token, keys)?;
        if !is_issued(&payload, issuers) {
            return Err(TokenError::Claim("iss"));
        }
        let claims = Claims::read(&payload, domain)?;
        claims.check_audience(wanted)?;
        let begins_at = payload.get("nbf").map_or(Some(claims.issued_at), Value::as_u64);
        let begins_at = begins_at.ok_or(TokenError::Claim("nbf"))?.max(claims.issued_at);
        if now >= claims.expires_at {
            return Err(TokenError::Expired);
        }
        if begins_at > now.saturating_add(SKEW_S) {
            return Err(TokenError::NotYet);
        }
        Ok(claims)
    }

    /// Checks that the token is meant for one of the audiences `wanted`.
    ///
    /// # Errors
    /// No audience of the token is accepted.
    pub fn check_audience(&self, wanted: &[String]) -> Result<(), TokenError> {
        let is_meant = match wanted {
            // few: a server has one or two names.
            [] | [_] | [_, _] => self.audiences.iter().any(|audience| wanted.contains(audience)),
            // A review names as many as fit into a body.
            many => {
                let many: HashSet<&String> = many.iter().collect();
                self.audiences.iter().any(|audience| many.contains(audience))
            }
        };
        if is_meant { Ok(()) } else { Err(TokenError::audience(&self.audiences, wanted)) }
    }

    fn read(payload: &Map<String, Value>, domain: &str) -> Result<Claims, TokenError> {
        let missing = TokenError::Claim;
        let number = |name| payload.get(name).and_then(Value::as_u64).ok_or(missing(name));
        let audiences = match payload.get("aud").ok_or(missing("aud"))? {
            Value::String(one) => vec![one.clone()],
            Value::Array(several) => {
                let texts = several.iter().map(|audience| audience.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().ok_or(missing("aud"))?
            }
            _ => return Err(missing("aud")),
        };
        let objects = payload.get(domain).ok_or(missing("objects"))?;
        let object = |name: &str| objects.get(name).map(read_reference).transpose();
        let claims = Claims {
            audiences,
            issued_at: number("iat")?,
            expires_at: number("exp")?,
            id: text(payload.get("jti")),
            namespace: text(objects.get("namespace")),
            account: object("serviceaccount")?.ok_or(missing("serviceaccount"))?,
            pod: object("pod")?,
            secret: object("secret")?,
            node: object("node")?,
            warn_after: objects.get("warnafter").and_then(Value::as_u64),
        };
        let subject = format!("system:serviceaccount:{}:{}", claims.namespace, claims.account.name);
        if payload.get("sub").and_then(Value::as_str) != Some(subject.as_str()) {
            return Err(missing("sub"));
        }
        Ok(claims)
    }
}

/// The token with this payload, signed by `signer`.
pub(super) fn signed(payload: &Value, signer: &dyn Signer) -> Result<String, SigningFailed> {
    let header = json!({"alg": signer.key().algorithm(), "kid": signer.key().id()});
    let mut token = BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
    token.push('.');
    BASE64_URL_SAFE_NO_PAD.encode_string(payload.to_string(), &mut token);
    let signature = signer.sign(token.as_bytes())?;
    token.push('.');
    BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

/// The issuer that `token` names. Nothing is verified: tokens of other issuers are left to others.
pub(super) fn unverified_issuer(token: &[u8]) -> Option<String> {
    let payload = token.split(|&byte| byte == b'.').nth(1).and_then(decode)?;
    payload.get("iss").and_then(Value::as_str).map(str::to_owned)
}

fn is_issued(payload: &Map<String, Value>, issuers: &[String]) -> bool {
    let issuer = payload.get("iss").and_then(Value::as_str);
    // few: the issuers of one server.
    issuer.is_some_and(|issuer| issuers.iter().any(|known| known == issuer))
}

/// The payload of `token`, once one of `keys` verifies its signature.
pub(super) fn verified(token: &[u8], keys: &[VerifyingKey]) -> Result<Map<String, Value>, TokenError> {
    let malformed = || TokenError::Malformed;
    let mut parts = token.split(|&byte| byte == b'.');
    let mut part = || parts.next().ok_or_else(malformed);
    let (header, payload, signature) = (part()?, part()?, part()?);
    if parts.next().is_some() {
        return Err(malformed());
    }
    let message = &token[..header.len() + 1 + payload.len()];
    let header = decode(header).ok_or_else(malformed)?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?;
    // An extension that must be understood is not; this server makes none.
    if header.contains_key("crit") {
        return Err(malformed());
    }
    let algorithm = header.get("alg").and_then(Value::as_str).ok_or_else(malformed)?;
    let id = header.get("kid").map(|id| id.as_str().ok_or_else(malformed)).transpose()?;
    let is_meant = |key: &&VerifyingKey| {
        key.algorithm() == algorithm && id.is_none_or(|id| id.is_empty() || id == key.id())
    };
    // few: the keys in an operator's files.
    if !keys.iter().filter(is_meant).any(|key| key.verifies(message, &signature)) {
        return Err(TokenError::Signature);
    }
    decode(payload).ok_or_else(malformed)
}

/// The JSON object whose text is `part` in base64.
fn decode(part: &[u8]) -> Option<Map<String, Value>> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    object::parse(&json)
}

fn reference(object: &ObjectRef) -> Value {
    match object.uid.as_str() {
        "" => json!({"name": object.name}),
        uid => json!({"name": object.name, "uid": uid}),
    }
}

fn read_reference(value: &Value) -> Result<ObjectRef, TokenError> {
    let name = text(value.get("name"));
    let found = ObjectRef { name, uid: text(value.get("uid")) };
    if found.name.is_empty() { Err(TokenError::Claim("name")) } else { Ok(found) }
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}
