//! Service account tokens: made on request, verified, and held against the objects that they are bound to.
//!
//! Owns the issuer, its keys and the cache of verified tokens. Invariant: a token whose account or bound object is gone
//! is refused as soon as this node has applied the removal, whether cached or not; one whose key was taken away, as soon
//! as the keys are replaced.

mod cache;
mod keys;
mod lookup;
mod object;
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
use self::lookup::Seen;
pub use self::token::{Claims, ObjectRef, TokenFault};
use super::service_account_name::ServiceAccountName;
use super::user::User;
use crate::follow::Applied;

/// Verifies and makes the service account tokens of a node.
pub struct ServiceAccounts {
    settings: Settings,
    keys: RwLock<Arc<Keys>>,
    cache: Cache,
    domain: &'static str,
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
        ServiceAccounts { settings, keys, cache, domain: brand.label_domain }
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

    /// The holder of `token` and the audiences it is meant for, at `now` in seconds since 1970. `None`: the token says
    /// that somebody else made it, or is no JSON Web Token.
    ///
    /// # Errors
    /// The token is not valid, is for none of the audiences `wanted`, or an object that it is bound to is gone.
    pub fn holder(
        &self,
        token: &[u8],
        wanted: &[String],
        applied: &Applied,
        now: u64,
    ) -> Result<Option<UserAndAudiences>, TokenFault> {
        let found = self.verified(token, wanted, applied, now)?;
        Ok(found.map(|found| (found.user.clone(), found.claims.audiences.clone())))
    }

    /// The holder of `token`, if it is meant for this server. `None` as of [`Self::holder`].
    ///
    /// # Errors
    /// As of [`Self::holder`].
    pub fn user(&self, token: &[u8], applied: &Applied, now: u64) -> Result<Option<Arc<User>>, TokenFault> {
        let Some(found) = self.verified(token, &self.settings.audiences, applied, now)? else {
            return Ok(None);
        };
        uses::count(&found.claims, now);
        Ok(Some(found.user.clone()))
    }

    fn verified(
        &self,
        token: &[u8],
        wanted: &[String],
        applied: &Applied,
        now: u64,
    ) -> Result<Option<Arc<Verified>>, TokenFault> {
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
        if !Claims::is_by(token, &self.settings.issuers) {
            return Ok(None);
        }
        // Read before the signature is checked: a token of keys that are replaced meanwhile is not kept.
        let epoch = self.cache.epoch();
        let verified = Arc::new(self.verify_anew(token, wanted, applied, now)?);
        self.cache.keep(id, verified.clone(), epoch, now);
        Ok(Some(verified))
    }

    fn verify_anew(
        &self,
        token: &[u8],
        wanted: &[String],
        applied: &Applied,
        now: u64,
    ) -> Result<Verified, TokenFault> {
        let keys = self.keys();
        let claims =
            Claims::verify(token, &self.settings.issuers, self.domain, keys.verifying(), wanted, now)?;
        let seen = Seen::of(&claims, applied, now)?;
        let user = Arc::new(self.user_of(&claims));
        Ok(Verified { claims, user, seen })
    }

    fn user_of(&self, claims: &Claims) -> User {
        let name = ServiceAccountName { namespace: &claims.namespace, name: &claims.account.name };
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, value: String| {
            if !value.is_empty() {
                extra.insert(format!("authentication.{}/{key}", self.domain), vec![value]);
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
        claims.sign(self.issuer(), self.domain, &**signer)
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
