//! Service account tokens: made on request, verified, and held against the objects that they are bound to.
//!
//! Owns the issuer, its keys and the cache of verified tokens. Two kinds of tokens are accepted: those that were requested,
//! and those that secrets keep (`secret_token`), whose uses are recorded (`last_uses`).
//!
//! Invariant: a token whose account, secret or bound object is gone is refused as soon as this node has applied the removal,
//! whether cached or not; one whose key was taken away, as soon as the keys are replaced.

mod cache;
mod keys;
mod last_uses;
mod lookup;
mod object;
mod secret_token;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod token;
mod uses;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use orch_proto::Brand;
use serde_json::json;

use self::cache::Cache;
pub use self::keys::{Curve, Keys, PublicKey, Signer, SigningFailed, VerifyingKey};
pub(crate) use self::last_uses::{LastUse, LastUses, SecretKey};
use self::lookup::Seen;
pub use self::secret_token::SecretClaims;
use self::secret_token::SecretToken;
pub(crate) use self::secret_token::{DAY_S, INVALID_SINCE, LAST_USED, day_of, day_text};
pub use self::token::{Claims, ObjectRef, TokenError};
use super::authenticator::Moment;
use super::service_account_name::ServiceAccountName;
use super::user::User;
use crate::follow::Applied;

/// Verifies and makes the service account tokens of a node.
pub struct ServiceAccounts {
    settings: Settings,
    keys: RwLock<Arc<Keys>>,
    cache: Cache,
    last_uses: LastUses,
    brand: &'static Brand,
}

/// Settings of the issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `iss` of accepted tokens, each a URL. The first is that of the tokens that are made here.
    pub issuers: Vec<String>,
    /// Audiences of this server; tokens are meant for them unless their request names others.
    pub audiences: Vec<String>,
    /// URL where verifiers find the keys.
    pub keys_url: String,
    /// Longest life of a token in seconds; `None`: as long as a request may ask for.
    pub life_s_max: Option<u64>,
    /// Whether the tokens that pods mount stay valid for longer than they say, with a time from which on they are stale.
    pub extends_mounted: bool,
}

/// A token whose signature and claims are valid, and the objects it depends on as they were last seen.
#[derive(Debug)]
struct Verified {
    claims: Claims,
    user: Arc<User>,
    seen: Seen,
    /// Of a token that a secret keeps.
    kept: Option<SecretToken>,
}

impl Verified {
    /// Bytes of memory that the texts of a client's choice hold, as the allocator counts them.
    fn held_bytes(&self) -> usize {
        let audiences = self.claims.audiences.iter();
        let audiences: usize =
            audiences.map(|text| size_of::<String>() + text.len().next_multiple_of(16)).sum();
        audiences + self.user.held_bytes()
    }

    fn is_current(&self, applied: &Applied, now: u64) -> bool {
        now < self.claims.expires_at && self.seen.is_current(applied, now)
    }
}

impl fmt::Debug for ServiceAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccounts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The holder of a token, and the audiences that it is meant for.
pub type UserAndAudiences = (Arc<User>, Vec<String>);

impl ServiceAccounts {
    /// The tokens of the cluster under `brand`.
    pub fn new(brand: &'static Brand, settings: Settings, keys: Keys) -> Self {
        let (keys, cache) = (RwLock::new(Arc::new(keys)), Cache::default());
        ServiceAccounts { settings, keys, cache, last_uses: LastUses::default(), brand }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The keys in use.
    pub fn keys(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keys. Tokens of keys that are no longer among them are refused from now on.
    pub fn replace_keys(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.cache.clear();
    }

    /// The issuer of the tokens that are made here.
    fn issuer(&self) -> &str {
        self.settings.issuers.first().map_or("", String::as_str)
    }

    /// The uses of kept tokens that are still to be recorded.
    pub(crate) fn last_uses(&self) -> &LastUses {
        &self.last_uses
    }

    /// The holder of `token` and the audiences it is meant for. `None`: the token names another issuer, or is no JSON Web
    /// Token. The use of a token that a secret keeps is recorded.
    ///
    /// # Errors
    /// The token is not valid, is for none of the audiences `wanted`, or an object that it is bound to is gone.
    pub fn holder(
        &self,
        token: &[u8],
        wanted: &[String],
        at: Moment<'_>,
    ) -> Result<Option<UserAndAudiences>, TokenError> {
        let found = self.admitted(token, wanted, at)?;
        Ok(found.map(|found| (found.user.clone(), found.claims.audiences.clone())))
    }

    /// The holder of `token`, if it is meant for this server. `None` as of [`Self::holder`].
    ///
    /// # Errors
    /// As of [`Self::holder`].
    pub fn user(&self, token: &[u8], at: Moment<'_>) -> Result<Option<Arc<User>>, TokenError> {
        let Some(found) = self.admitted(token, &self.settings.audiences, at)? else {
            return Ok(None);
        };
        uses::count(&found.claims, at.seconds());
        Ok(Some(found.user.clone()))
    }

    fn admitted(
        &self,
        token: &[u8],
        wanted: &[String],
        at: Moment<'_>,
    ) -> Result<Option<Arc<Verified>>, TokenError> {
        let found = self.verified(token, wanted, at.applied, at.seconds())?;
        if let Some(kept) = found.as_ref().and_then(|found| found.kept.as_ref()) {
            uses::count_kept(kept);
            self.last_uses.note(kept, at.seconds());
            kept.admit(at.remarks, self.brand)?;
        }
        Ok(found)
    }

    fn verified(
        &self,
        token: &[u8],
        wanted: &[String],
        applied: &Applied,
        now: u64,
    ) -> Result<Option<Arc<Verified>>, TokenError> {
        if token.len() > token::TOKEN_BYTES_MAX {
            return Ok(None);
        }
        let id = cache::digest_of(token);
        if let Some(known) = self.cache.find(&id)
            && known.is_current(applied, now)
        {
            return known.claims.check_audience(wanted).map(|()| Some(known));
        }
        self.cache.forget(&id);
        // Read before the signature is checked: a token of keys that are replaced meanwhile is not kept.
        let epoch = self.cache.epoch();
        let verified = match token::unverified_issuer(token) {
            Some(issuer) if issuer == self.brand.secret_token_issuer => {
                self.verify_kept(token, wanted, applied)?
            }
            // few: the issuers of one server.
            Some(issuer) if self.settings.issuers.contains(&issuer) => {
                self.verify_requested(token, wanted, applied, now)?
            }
            _ => return Ok(None),
        };
        let verified = Arc::new(verified);
        self.cache.keep(id, verified.clone(), epoch, now);
        Ok(Some(verified))
    }

    fn verify_requested(
        &self,
        token: &[u8],
        wanted: &[String],
        applied: &Applied,
        now: u64,
    ) -> Result<Verified, TokenError> {
        let (keys, issuers) = (self.keys(), &self.settings.issuers);
        let domain = self.brand.label_domain;
        let claims = Claims::verify(token, issuers, domain, keys.verifying(), wanted, now)?;
        let seen = Seen::of(&claims, applied, now)?;
        let user = Arc::new(self.user_of(&claims));
        Ok(Verified { claims, user, seen, kept: None })
    }

    fn verify_kept(
        &self,
        token: &[u8],
        wanted: &[String],
        applied: &Applied,
    ) -> Result<Verified, TokenError> {
        let payload = token::verified(token, self.keys().verifying())?;
        if payload.get("iss").and_then(serde_json::Value::as_str) != Some(self.brand.secret_token_issuer) {
            return Err(TokenError::Claim("iss"));
        }
        let kept = SecretClaims::read(&payload, self.brand)?;
        let claims = Claims {
            audiences: self.settings.audiences.clone(),
            expires_at: u64::MAX,
            namespace: kept.namespace.clone(),
            account: kept.account.clone(),
            ..Claims::default()
        };
        claims.check_audience(wanted)?;
        let (seen, kept) = kept.look_up(token, self.brand, applied)?;
        let user = Arc::new(self.user_of(&claims));
        Ok(Verified { claims, user, seen, kept: Some(kept) })
    }

    fn user_of(&self, claims: &Claims) -> User {
        let name = ServiceAccountName { namespace: &claims.namespace, name: &claims.account.name };
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, value: String| {
            if !value.is_empty() {
                extra.insert(format!("authentication.{}/{key}", self.brand.label_domain), vec![value]);
            }
        };
        if !claims.id.is_empty() {
            add("credential-id", format!("JTI={}", claims.id));
        }
        for (key, object) in [("node", &claims.node), ("pod", &claims.pod)] {
            if let Some(object) = object {
                add(&format!("{key}-name"), object.name.clone());
                add(&format!("{key}-uid"), object.uid.clone());
            }
        }
        let (name, groups) = (name.user_name(), name.groups().to_vec());
        User { name, uid: claims.account.uid.clone(), groups, extra }.authenticated()
    }

    /// The token that says `claims`.
    ///
    /// # Errors
    /// This node signs no tokens, or the key cannot be used.
    pub fn issue(&self, claims: &Claims) -> Result<String, SigningFailed> {
        let keys = self.keys();
        let signer = keys.signer().ok_or(SigningFailed)?;
        claims.sign(self.issuer(), self.brand.label_domain, &**signer)
    }

    /// The token for a secret that is to keep it.
    ///
    /// # Errors
    /// This node signs no tokens, or the key cannot be used.
    pub fn issue_kept(&self, claims: &SecretClaims) -> Result<String, SigningFailed> {
        let keys = self.keys();
        let signer = keys.signer().ok_or(SigningFailed)?;
        claims.sign(self.brand, &**signer)
    }

    /// The keys as a JSON Web Key Set (RFC 7517).
    pub fn key_set(&self) -> String {
        self.keys().key_set().to_string()
    }

    /// Whether the documents of OpenID discovery are served: the issuer is an https URL, as its specification demands.
    pub fn has_discovery(&self) -> bool {
        self.issuer().starts_with("https://")
    }

    /// The document of OpenID discovery.
    pub fn discovery(&self) -> String {
        let keys = self.keys();
        let mut algorithms: Vec<_> = keys.verifying().iter().map(VerifyingKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": self.issuer(),
            "jwks_uri": self.settings.keys_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
        .to_string()
    }
}

/// Path of the document of OpenID discovery.
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
/// Path of the key set.
pub const KEYS_PATH: &str = "/openid/v1/jwks";
