//! Service account tokens: made on request, verified, and held against the objects that they are bound to.
//!
//! Owns the issuer, its keys and the cache of verified tokens. Invariant: a token whose account or bound object is gone
//! is refused as soon as this node has applied the removal, whether cached or not.

mod keys;
mod lookup;
mod token;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use orch_proto::Brand;
use ring::digest::{SHA256, digest};
use serde_json::json;

pub use keys::{PublicKey, Signer, SigningFailed, VerifyingKey};
pub use token::{Claims, ObjectRef, TokenFault};

use self::lookup::Seen;
use super::service_account_name::ServiceAccountName;
use super::user::User;
use crate::follow::Applied;

/// Tokens that the cache holds: about 1 KiB each.
const CACHED_MAX: usize = 8 << 10;

/// What a node knows about its service account tokens.
#[derive(Debug)]
pub struct ServiceAccounts {
    settings: Settings,
    keys: Vec<VerifyingKey>,
    /// Verified tokens by their digest.
    cache: RwLock<HashMap<[u8; 32], Arc<Verified>>>,
    domain: &'static str,
}

/// Settings of the issuer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `iss` of tokens made here, a URL, and of those that are accepted besides.
    pub issuers: Vec<String>,
    /// Audiences of this server; tokens are meant for them unless their request says otherwise.
    pub audiences: Vec<String>,
    /// URL where verifiers find the keys.
    pub keys_url: String,
    /// Signs new tokens; without it none are made.
    pub signer: Option<Arc<dyn Signer>>,
    /// Keys of tokens made elsewhere or earlier.
    pub keys: Vec<VerifyingKey>,
    /// Longest life of a token, in seconds.
    pub life_s_max: u64,
}

/// A token whose signature and claims are valid, and the objects it depends on as they were last seen.
#[derive(Debug)]
pub(super) struct Verified {
    claims: Claims,
    user: Arc<User>,
    seen: Seen,
}

impl ServiceAccounts {
    /// The tokens of the cluster under `brand`.
    pub fn new(brand: &'static Brand, settings: Settings) -> Self {
        let mut keys: Vec<VerifyingKey> = Vec::new();
        let own = settings.signer.iter().map(|signer| signer.key());
        for key in own.chain(&settings.keys) {
            // few: the keys of the flags.
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        ServiceAccounts { settings, keys, cache: RwLock::default(), domain: brand.label_domain }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The issuer of the tokens that are made here.
    fn issuer(&self) -> &str {
        self.settings.issuers.first().map_or("", String::as_str)
    }

    /// Whether `token` claims to be one of these.
    pub fn is_own(&self, token: &[u8]) -> bool {
        token.len() <= token::TOKEN_BYTES_MAX && Claims::is_by(token, &self.settings.issuers)
    }

    /// The holder of `token` and the audiences it is meant for, at `now` in seconds since 1970.
    ///
    /// # Errors
    /// The token is not valid, or what it is bound to is gone.
    pub fn holder(
        &self,
        token: &[u8],
        applied: &Applied,
        now: u64,
    ) -> Result<(Arc<User>, Vec<String>), TokenFault> {
        let found = self.verified(token, applied, now)?;
        Ok((found.user.clone(), found.claims.audiences.clone()))
    }

    /// The holder of `token`, if it is meant for this server.
    ///
    /// # Errors
    /// As of [`Self::holder`]; the token is meant for others.
    pub fn user(&self, token: &[u8], applied: &Applied, now: u64) -> Result<Arc<User>, TokenFault> {
        let found = self.verified(token, applied, now)?;
        let wanted = &self.settings.audiences;
        // few: the audiences of one token and of one server.
        if found.claims.audiences.iter().any(|audience| wanted.contains(audience)) {
            return Ok(found.user.clone());
        }
        Err(TokenFault::Audience { found: found.claims.audiences.clone(), wanted: wanted.clone() })
    }

    fn verified(&self, token: &[u8], applied: &Applied, now: u64) -> Result<Arc<Verified>, TokenFault> {
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, token).as_ref());
        let cached = self.cache.read().expect("no panic under the lock").get(&id).cloned();
        if let Some(cached) = cached
            && now < cached.claims.expires_at
            && cached.seen.is_current(&cached.claims, applied, now)
        {
            return Ok(cached);
        }
        let found = self.verify_anew(token, applied, now);
        let mut cache = self.cache.write().expect("no panic under the lock");
        match &found {
            Ok(verified) => {
                if cache.len() >= CACHED_MAX {
                    cache.retain(|_, held| now < held.claims.expires_at);
                }
                if cache.len() >= CACHED_MAX {
                    cache.clear();
                }
                cache.insert(id, verified.clone());
            }
            Err(_) => drop(cache.remove(&id)),
        }
        found
    }

    fn verify_anew(&self, token: &[u8], applied: &Applied, now: u64) -> Result<Arc<Verified>, TokenFault> {
        let claims = Claims::verify(token, &self.settings.issuers, self.domain, &self.keys, now)?;
        let seen = Seen::of(&claims, applied, now).ok_or(TokenFault::Invalidated)?;
        let user = Arc::new(self.user_of(&claims));
        Ok(Arc::new(Verified { claims, user, seen }))
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
        let signer = self.settings.signer.as_deref().ok_or(SigningFailed)?;
        claims.sign(self.issuer(), self.domain, signer)
    }

    /// The keys as a JSON Web Key Set (RFC 7517).
    pub fn key_set(&self) -> String {
        let keys: Vec<_> = self.keys.iter().map(VerifyingKey::jwk).collect();
        json!({"keys": keys}).to_string()
    }

    /// The document of OpenID discovery.
    pub fn discovery(&self) -> String {
        let mut algorithms: Vec<_> = self.keys.iter().map(VerifyingKey::algorithm).collect();
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
