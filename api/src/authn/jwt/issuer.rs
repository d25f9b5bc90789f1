//! An issuer of tokens: from a token to its user.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orch_bounded::ExpiringMap;
use ring::digest::{SHA256, digest};

use super::super::User;
use super::claims::Rules;
use super::key_source::{KeySource, Keys};
use super::token::{JwtError, Parts, check};
use crate::ambient::Timestamp;

/// Verified tokens of one issuer that are remembered.
const VERIFIED_MAX: usize = 4 << 10;
/// Bytes of their users together. Most have less than 1 KiB; a token may hold 8 KiB, which expressions can multiply.
const VERIFIED_BYTES_MAX: usize = 16 << 20;
/// How long a verified token is remembered, as in the reference; never past its end.
const VERIFIED_SPAN: Duration = Duration::from_secs(10);

/// Settings of an issuer.
#[derive(Debug)]
pub struct IssuerSettings {
    /// The tokens of which one must be meant for this server.
    pub audiences: Vec<String>,
    /// From claims to a user.
    pub rules: Rules,
}

/// An issuer whose tokens are accepted.
pub struct Issuer {
    settings: IssuerSettings,
    source: Arc<KeySource>,
    verified: ExpiringMap<[u8; 32], Arc<User>, Timestamp>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Issuer {
    /// The issuer whose keys `source` fetches.
    pub fn new(settings: IssuerSettings, source: KeySource) -> Self {
        Issuer {
            settings,
            source: Arc::new(source),
            verified: ExpiringMap::new(VERIFIED_MAX, VERIFIED_BYTES_MAX),
        }
    }

    pub(super) fn url(&self) -> &str {
        self.source.issuer()
    }

    pub(super) fn source(&self) -> &KeySource {
        &self.source
    }

    /// Goes on with the keys of `other`, which fetches them from the same place.
    pub(super) fn take_source(&mut self, other: &Issuer) {
        self.source = other.source.clone();
    }

    /// The user of `token` at `now`.
    pub(super) async fn user(&self, token: &[u8], now: Timestamp) -> Result<Arc<User>, JwtError> {
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, token).as_ref());
        if let Some(user) = self.verified.get(&id, now) {
            return Ok(user);
        }
        let parts = Parts::of(token)?;
        self.verify(&parts, now).await?;
        let claims = parts.claims()?;
        let seconds = now.0 / 1_000_000;
        let end = check(&claims, self.url(), &self.settings.audiences, seconds)?;
        let user = Arc::new(self.settings.rules.user(claims)?);
        let span = VERIFIED_SPAN.min(Duration::from_secs(end.saturating_sub(seconds)));
        self.verified.put(id, user.clone(), user.weight(), now, span);
        Ok(user)
    }

    /// Checks the signature. A key that is not known may be new: the keys are fetched again, and the token is tried again.
    async fn verify(&self, parts: &Parts<'_>, now: Timestamp) -> Result<(), JwtError> {
        let keys = self.source.current();
        if verifies(&keys, parts) {
            return Ok(());
        }
        self.source.refresh(keys.fetched, now).await;
        let newer = self.source.current();
        match newer.fetched {
            None => Err(JwtError::NoKeys),
            Some(_) if newer.fetched != keys.fetched && verifies(&newer, parts) => Ok(()),
            Some(_) => Err(JwtError::Signature),
        }
    }
}

/// Whether one of the keys that the token may mean made its signature.
fn verifies(keys: &Keys, parts: &Parts<'_>) -> bool {
    let Parts { message, signature, algorithm, key_id, .. } = parts;
    let may_be_meant = |id: &str| key_id.is_empty() || id == key_id;
    let mut meant = keys.keys.iter().filter(|key| may_be_meant(&key.id));
    // few: the keys of one issuer, of which a token names one.
    meant.any(|key| key.verifies(*algorithm, message, signature))
}
