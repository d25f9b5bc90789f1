//! Bootstrap tokens: secrets of the system namespace with which nodes join a cluster.
//!
//! Owns their form, the user they identify, and when one has expired. The secret is looked up by the public half of the
//! token; the secret half is compared in constant time. It never deletes a secret: the loop `token_cleaner` does.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use orch_proto::Brand;
use orch_raft::Key;
use ring::hmac;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::authenticator::{Finding, Found, Holder, Method, Moment, bearer_token, found};
use super::peer::Peer;
use super::unauthenticated::Unauthenticated;
use super::user::User;

/// Storage resource of secrets.
const SECRETS: &str = "secrets";
/// Start of the names of these secrets; the id follows.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// Group of every holder, and the start of the others that a secret may name.
const GROUP: &str = "system:bootstrappers";
/// Characters of the id.
const ID_LENGTH: usize = 6;
/// Characters of the secret half.
const SECRET_LENGTH: usize = 16;
/// Longest name of a group behind `system:bootstrappers:`: that of the reference.
const GROUP_LENGTH_MAX: usize = 256;

/// Authenticates by bootstrap tokens.
#[derive(Debug)]
pub struct BootstrapTokens {
    brand: &'static Brand,
}

/// The fields of a secret that bootstrap tokens use.
#[derive(Deserialize)]
struct Secret<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(rename = "type", default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(rename = "deletionTimestamp", default, borrow)]
    deleted_at: Option<Cow<'a, str>>,
}

/// Values in base64, empty where absent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Data<'a> {
    #[serde(borrow)]
    token_id: Cow<'a, str>,
    #[serde(borrow)]
    token_secret: Cow<'a, str>,
    #[serde(borrow)]
    expiration: Cow<'a, str>,
    #[serde(borrow)]
    usage_bootstrap_authentication: Cow<'a, str>,
    #[serde(borrow)]
    auth_extra_groups: Cow<'a, str>,
}

impl BootstrapTokens {
    /// The bootstrap tokens of a cluster under `brand`.
    pub fn new(brand: &'static Brand) -> Self {
        BootstrapTokens { brand }
    }

    /// The user of `token`; `None`: it is no bootstrap token, or not one that is valid now.
    ///
    /// # Errors
    /// `UnknownBootstrapToken`: there is no secret of its name.
    fn user_of(&self, token: &[u8], at: Moment<'_>) -> Found<Arc<User>> {
        let Some((id, secret)) = parse(token) else { return Ok(None) };
        let name = format!("{NAME_PREFIX}{id}");
        let key = Key::new(&SECRETS.into(), self.brand.system_namespace, &name).ok();
        let object = key.and_then(|key| at.applied.state.object(&key));
        let object = object.ok_or(Unauthenticated::UnknownBootstrapToken)?;
        let found: Option<Secret<'_>> = serde_json::from_slice(&object.json).ok();
        let user = found.and_then(|found| user(self.brand, &found, id, secret, at.seconds()));
        if user.is_none() {
            tracing::debug!(%name, "a bootstrap token is not valid");
        }
        Ok(user)
    }
}

impl Method for BootstrapTokens {
    fn user<'a>(&'a self, _peer: &'a Peer, headers: &'a HeaderMap, at: Moment<'a>) -> Finding<'a, Arc<User>> {
        let Some(token) = bearer_token(headers) else { return found(Ok(None)) };
        found(self.user_of(token, at).and_then(|user| user.map(Some).ok_or(Unauthenticated::InvalidToken)))
    }

    fn holder<'a>(&'a self, token: &'a [u8], at: Moment<'a>) -> Finding<'a, Holder> {
        found(self.user_of(token, at).map(|user| user.map(Holder::agnostic)))
    }
}

/// The end in seconds since 1970 of the bootstrap token in the stored secret `json`; 0 where its expiration cannot be
/// read. `None`: it has no end, is no bootstrap token, or is being deleted.
pub(crate) fn expires_at(brand: &Brand, json: &[u8]) -> Option<u64> {
    let secret: Secret<'_> = serde_json::from_slice(json).ok()?;
    if secret.kind != type_of(brand) || secret.metadata.deleted_at.is_some() {
        return None;
    }
    expiration(&secret.data)
}

/// The `type` of the secrets.
fn type_of(brand: &Brand) -> String {
    format!("bootstrap.{}/token", brand.label_domain)
}

/// Id and secret half of `token`.
fn parse(token: &[u8]) -> Option<(&str, &str)> {
    let (id, secret) = std::str::from_utf8(token).ok()?.split_once('.')?;
    let is_part = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is_part(id, ID_LENGTH) && is_part(secret, SECRET_LENGTH)).then_some((id, secret))
}

fn user(brand: &Brand, stored: &Secret<'_>, id: &str, secret: &str, now: u64) -> Option<Arc<User>> {
    let data = &stored.data;
    let is_right = is_same(&decoded(&data.token_secret)?, secret.as_bytes());
    let is_usable = stored.metadata.deleted_at.is_none()
        && stored.kind == type_of(brand)
        && decoded(&data.token_id)? == id.as_bytes()
        && expiration(data).is_none_or(|end| now < end)
        && decoded(&data.usage_bootstrap_authentication)? == b"true";
    if !is_right || !is_usable {
        return None;
    }
    let groups = groups(&String::from_utf8(decoded(&data.auth_extra_groups)?).ok()?)?;
    let user = User { name: format!("system:bootstrap:{id}"), groups, ..User::default() };
    Some(Arc::new(user.authenticated()))
}

/// The groups of a holder, sorted, with those of the comma-separated list `more`. `None`: a group that no token may give.
fn groups(more: &str) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    if !more.is_empty() {
        for group in more.split(',') {
            let name = group.strip_prefix(GROUP)?.strip_prefix(':')?;
            let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b':' | b'-');
            let ends_well =
                name.bytes().last().is_some_and(|byte| is_inner(byte) && byte != b':' && byte != b'-');
            if name.len() > GROUP_LENGTH_MAX || !name.bytes().all(is_inner) || !ends_well {
                return None;
            }
            groups.insert(group.to_owned());
        }
    }
    Some(groups.into_iter().collect())
}

/// The end of a token in seconds since 1970: 0 where it cannot be read, `None` where it has none.
fn expiration(data: &Data<'_>) -> Option<u64> {
    let text = decoded(&data.expiration).unwrap_or_else(|| b"?".to_vec());
    if text.is_empty() {
        return None;
    }
    let time = std::str::from_utf8(&text).ok().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    Some(time.and_then(|time| u64::try_from(time.unix_timestamp()).ok()).unwrap_or_default())
}

/// Compares in a time that does not depend on the content: by authentication codes, whose key need not be secret.
pub(super) fn is_same(left: &[u8], right: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"comparison");
    hmac::verify(&key, left, hmac::sign(&key, right).as_ref()).is_ok()
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "abcdef";
    const SECRET: &str = "0123456789abcdef";

    fn secret() -> Value {
        json!({
            "metadata": {}, "type": "bootstrap.orch.io/token",
            "data": {
                "token-id": "abcdef", "token-secret": SECRET, "usage-bootstrap-authentication": "true",
                "expiration": "2026-01-02T03:04:05Z", "description": "a node",
            },
        })
    }

    /// Second of the secret's expiration.
    const END: u64 = 1_767_323_045;

    /// Name and groups of the user of the token with the id and the secret half of the constants.
    fn found(stored: &Value, now: u64) -> Option<String> {
        let mut stored = stored.clone();
        for (_, value) in stored["data"].as_object_mut().unwrap() {
            *value = json!(BASE64_STANDARD.encode(value.as_str().unwrap()));
        }
        let stored = stored.to_string();
        let stored: Secret<'_> = serde_json::from_str(&stored).unwrap();
        let user = user(&ORCH, &stored, ID, SECRET, now)?;
        Some(format!("{} {}", user.name, user.groups.join(" ")))
    }

    #[test]
    fn a_token_identifies_its_holder_until_it_expires() {
        let expected = "system:bootstrap:abcdef system:bootstrappers system:authenticated";
        assert_eq!(found(&secret(), END - 1).as_deref(), Some(expected));
        assert_eq!(found(&secret(), END), None);
        let mut eternal = secret();
        eternal["data"].as_object_mut().unwrap().remove("expiration");
        assert_eq!(found(&eternal, u64::MAX).as_deref(), Some(expected));
    }

    #[test]
    fn groups_beside_that_of_all_holders_lie_below_it() {
        let base = "system:bootstrappers";
        for (groups, expected) in [
            ("", Some("system:bootstrappers")),
            (
                "system:bootstrappers:b,system:bootstrappers:a:b-c",
                Some("system:bootstrappers system:bootstrappers:a:b-c system:bootstrappers:b"),
            ),
            ("system:masters", None),
            ("system:bootstrappers", None),
            ("system:bootstrappers:", None),
            ("system:bootstrappers:a-", None),
            ("system:bootstrappers:A", None),
            ("system:bootstrappers:a,", None),
            ("system:bootstrappers:a, system:bootstrappers:b", None),
            (&format!("{base}:{}", "a".repeat(257)), None),
        ] {
            assert_eq!(
                super::groups(groups).map(|groups| groups.join(" ")).as_deref(),
                expected,
                "{groups:?}"
            );
        }
    }

    #[test]
    fn a_secret_that_is_not_quite_one_identifies_nobody() {
        for (path, value) in [
            ("/type", json!("Opaque")),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("/data/token-id", json!("other1")),
            ("/data/token-secret", json!("0123456789abcdee")),
            ("/data/token-secret", json!("")),
            ("/data/expiration", json!("tomorrow")),
            ("/data/usage-bootstrap-authentication", json!("yes")),
            ("/data/auth-extra-groups", json!("system:masters")),
        ] {
            let mut stored = secret();
            let (parent, name) = path.rsplit_once('/').unwrap();
            stored.pointer_mut(parent).unwrap()[name] = value;
            assert_eq!(found(&stored, END - 1), None, "{path}");
        }
    }

    #[test]
    fn tokens_have_one_form() {
        assert_eq!(parse(b"abcdef.0123456789abcdef"), Some((ID, SECRET)));
        for other in [
            "abcdef",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcdeF",
            "abcdef.0123456789abcdef.x",
            "\u{e9}bcde.0123456789abcdef",
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }
}
