//! Tokens of service accounts that secrets keep: they have no end and no audience of their own.
//!
//! Owns their claims, and what ends one: the secret that it names is gone, is being deleted or keeps another token; the account
//! is gone, is being deleted or another of the same name; the secret is marked as unused for long. As in the reference they
//! are meant for this server alone.
//!
//! Invariant: such a token is good only while the secret that it names holds its very bytes.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use orch_proto::Brand;
use orch_raft::Key;
use orch_raft::object::SharedObject;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use time::Date;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::keys::{Signer, SigningFailed};
use super::lookup::{ACCOUNTS, Seen, absent, another};
use super::token::{ObjectRef, TokenError, signed};
use crate::authn::Remarks;
use crate::authn::bootstrap_token::is_same;
use crate::follow::Applied;

const SECRETS: &str = "secrets";

/// The claims of a token that a secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretClaims {
    /// Namespace of secret and account.
    pub namespace: String,
    /// Name of the secret.
    pub secret: String,
    /// The account.
    pub account: ObjectRef,
}

/// The way in which a secret came to keep a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its account lists it, as those that older clusters made for each account.
    Generated,
    /// A client asked for it by creating the secret.
    ByHand,
}

/// A good token, or a token marked as unused for long, with the fields by which its use is recorded.
#[derive(Debug)]
pub(super) struct SecretToken {
    pub(super) namespace: String,
    pub(super) secret: String,
    pub(super) secret_uid: String,
    /// Day of the last recorded use, counted from 1970.
    pub(super) last_used: Option<i64>,
    pub(super) origin: Origin,
    pub(super) is_marked_invalid: bool,
    account: String,
}

#[derive(Deserialize)]
struct StoredSecret<'a> {
    #[serde(default, borrow)]
    data: Data<'a>,
}

#[derive(Default, Deserialize)]
struct Data<'a> {
    /// In base64.
    #[serde(default, borrow)]
    token: Cow<'a, str>,
}

#[derive(Deserialize)]
struct StoredAccount<'a> {
    #[serde(default, borrow)]
    secrets: Vec<Named<'a>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(default, borrow)]
    name: Cow<'a, str>,
}

impl SecretClaims {
    /// The token that says this, signed by `signer`.
    ///
    /// # Errors
    /// The key cannot be used.
    pub(super) fn sign(&self, brand: &Brand, signer: &dyn Signer) -> Result<String, SigningFailed> {
        let mut payload = Map::new();
        payload.insert("iss".to_owned(), json!(brand.secret_token_issuer));
        payload.insert("sub".to_owned(), json!(self.subject()));
        let claims = [
            ("namespace", &self.namespace),
            ("secret.name", &self.secret),
            ("service-account.name", &self.account.name),
            ("service-account.uid", &self.account.uid),
        ];
        for (name, value) in claims {
            payload.insert(claim(brand, name), json!(value));
        }
        signed(&Value::Object(payload), signer)
    }

    /// Reads a verified payload.
    ///
    /// # Errors
    /// A claim is missing or empty, or the subject is another account.
    pub(super) fn read(payload: &Map<String, Value>, brand: &Brand) -> Result<Self, TokenError> {
        let text = |name: &'static str| {
            let value = payload.get(&claim(brand, name)).and_then(Value::as_str);
            value.filter(|value| !value.is_empty()).map(str::to_owned).ok_or(TokenError::Claim(name))
        };
        let (namespace, secret) = (text("namespace")?, text("secret.name")?);
        let account = ObjectRef { name: text("service-account.name")?, uid: text("service-account.uid")? };
        let claims = SecretClaims { namespace, secret, account };
        let subject = payload.get("sub").and_then(Value::as_str);
        if subject == Some(claims.subject().as_str()) { Ok(claims) } else { Err(TokenError::Claim("sub")) }
    }

    fn subject(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account.name)
    }

    /// Holds `token`, which says this, against its secret and account.
    ///
    /// # Errors
    /// The secret or the account is gone, is being deleted or is another than the token was made for.
    pub(super) fn look_up(
        &self,
        token: &[u8],
        brand: &Brand,
        applied: &Applied,
    ) -> Result<(Seen, SecretToken), TokenError> {
        let find = |resource: &str, name: &str| {
            let key = Key::new(&resource.into(), &self.namespace, name).ok();
            let found = key.as_ref().and_then(|key| applied.state.object(key)).cloned();
            key.zip(found).ok_or_else(|| absent(resource, name))
        };
        let (secret_key, secret) = find(SECRETS, &self.secret)?;
        if secret.index.terminating {
            return Err(TokenError::Invalidated);
        }
        let stored: StoredSecret<'_> =
            serde_json::from_slice(&secret.json).map_err(|_| TokenError::Invalidated)?;
        let kept = BASE64_STANDARD.decode(&*stored.data.token).map_err(|_| TokenError::Invalidated)?;
        if kept.is_empty() || !is_same(&kept, token) {
            return Err(TokenError::Object("the token does not match the server's copy".to_owned()));
        }
        let (account_key, account) = find(ACCOUNTS, &self.account.name)?;
        if account.index.terminating {
            return Err(TokenError::Invalidated);
        }
        if account.index.uid != self.account.uid {
            return Err(another(ACCOUNTS, &account.index.uid, &self.account.uid));
        }
        let listing: StoredAccount<'_> =
            serde_json::from_slice(&account.json).map_err(|_| TokenError::Invalidated)?;
        // once: for each version of the account.
        let is_listed = listing.secrets.iter().any(|listed| listed.name == self.secret.as_str());
        let found = SecretToken {
            namespace: self.namespace.clone(),
            secret: self.secret.clone(),
            secret_uid: secret.index.uid.clone(),
            last_used: day_of(label(&secret, &brand.label(LAST_USED))),
            origin: if is_listed { Origin::Generated } else { Origin::ByHand },
            is_marked_invalid: !label(&secret, &brand.label(INVALID_SINCE)).is_empty(),
            account: self.account.name.clone(),
        };
        let seen = [(secret_key, secret.revision), (account_key, account.revision)];
        Ok((Seen::versions(seen.into()), found))
    }
}

/// Label with the day of a token's last use.
pub(crate) const LAST_USED: &str = "legacy-token-last-used";
/// Label with the day since which a token is refused, because nothing had used it for long.
pub(crate) const INVALID_SINCE: &str = "legacy-token-invalid-since";

impl SecretToken {
    /// Tells the client and the audit of a use.
    ///
    /// # Errors
    /// The token is marked as unused for long.
    pub(super) fn admit(&self, remarks: &dyn Remarks, brand: &Brand) -> Result<(), TokenError> {
        let annotate = |name: &str, text: String| {
            remarks.annotate(&|| format!("{}/legacy-token{name}", brand.group("authentication")), &text);
        };
        annotate("", format!("system:serviceaccount:{}:{}", self.namespace, self.account));
        if self.is_marked_invalid {
            annotate("-invalidated", format!("{}/{}", self.secret, self.namespace));
            return Err(TokenError::MarkedInvalid {
                secret: format!("{}/{}", self.namespace, self.secret),
                account: format!("{}/{}", self.namespace, self.account),
                label: brand.label(INVALID_SINCE),
            });
        }
        match self.origin {
            Origin::Generated => {
                annotate("-autogenerated-secret", self.secret.clone());
                remarks.warn(
                    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
                     auto-generated secret-based tokens.",
                );
            }
            Origin::ByHand => annotate("-manual-secret", self.secret.clone()),
        }
        Ok(())
    }
}

fn claim(brand: &Brand, name: &str) -> String {
    format!("{}/serviceaccount/{name}", brand.label_domain)
}

/// The value of the label `name`; empty where it is absent.
fn label<'a>(object: &'a SharedObject, name: &str) -> &'a str {
    object.index.labels.find(name).unwrap_or_default()
}

/// The day that `text` names in the form `2026-01-02`, counted from 1970.
pub(crate) fn day_of(text: &str) -> Option<i64> {
    let date = Date::parse(text, &DAY_FORM).ok()?;
    Some(i64::from(date.to_julian_day()) - i64::from(JULIAN_DAY_OF_1970))
}

/// The text of a day counted from 1970.
pub(crate) fn day_text(day: i64) -> Option<String> {
    let date = i32::try_from(day.checked_add(i64::from(JULIAN_DAY_OF_1970))?).ok()?;
    Date::from_julian_day(date).ok().map(|date| date.to_string())
}

const DAY_FORM: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// The Julian day of January 1, 1970.
const JULIAN_DAY_OF_1970: i32 = 2_440_588;

/// Seconds of a day.
pub(crate) const DAY_S: u64 = 24 * 60 * 60;
