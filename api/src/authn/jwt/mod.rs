//! Authentication by tokens (JWT) of configured issuers.
//!
//! Owns which issuer a token is held against, and the memory of verified ones. Invariants: a token is verified by keys
//! of the issuer that it names and by no others; an algorithm is accepted only with a key of its kind; a token counts no
//! longer than its own end.
//!
//!     Issuers     the issuers of the configuration, replaced as a whole
//!       Issuer    claims -> user, by the configuration's rules
//!         KeySource   the issuer's keys, fetched over egress
//!           Key       one public key with its algorithm

mod claims;
mod issuer;
mod key;
mod key_source;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::HeaderMap;
use parking_lot::RwLock;

pub use self::claims::{ClaimRule, Mapping, Rules, UserRule, compile_claims, compile_user};
pub use self::issuer::{Issuer, IssuerSettings};
pub use self::key_source::{KeySource, KeySourceSettings};
pub use self::token::JwtError;
use super::authenticator::bearer_token;
use super::{Finding, Found, Holder, Method, Moment, Peer, TOKEN_BYTES_MAX, Unauthenticated, User, found};
use crate::ambient::{Ambient, Timestamp};

/// How often keys that are missing are asked for again, and due ones looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The issuers of the configuration.
pub struct Issuers {
    issuers: RwLock<Arc<[Issuer]>>,
    ambient: Arc<dyn Ambient>,
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.current().iter()).finish()
    }
}

impl Issuers {
    /// These issuers.
    pub fn new(issuers: Vec<Issuer>, ambient: Arc<dyn Ambient>) -> Self {
        Issuers { issuers: RwLock::new(issuers.into()), ambient }
    }

    /// Accepts the tokens of `issuers` from now on, and of no others. Keys that are known already are kept.
    pub fn replace(&self, issuers: Vec<Issuer>) {
        let mut issuers = issuers;
        let before = self.current();
        for issuer in &mut issuers {
            // few: at most 64 issuers, as of the configuration's check.
            if let Some(same) = before.iter().find(|old| old.source().is_same(issuer.source())) {
                issuer.take_source(same);
            }
        }
        *self.issuers.write() = issuers.into();
    }

    /// Keeps the keys of all issuers: fetched at once, again where that failed, and anew when they are old. Ends never.
    pub async fn keep_keys(&self) {
        loop {
            let issuers = self.current();
            let now = self.ambient.now();
            // A server that does not answer holds up no other.
            let pause = join_all(issuers.iter().map(|issuer| issuer.source().refresh_if_due(now)));
            pause.await;
            match issuers.first() {
                Some(issuer) => issuer.source().pause(LOOK_EVERY).await,
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    fn current(&self) -> Arc<[Issuer]> {
        self.issuers.read().clone()
    }

    async fn find(&self, token: &[u8], now: Timestamp) -> Found<Arc<User>> {
        if token.len() > TOKEN_BYTES_MAX {
            return Ok(None);
        }
        let Some(named) = token::unverified_issuer(token) else { return Ok(None) };
        let issuers = self.current();
        // few: at most 64 issuers, as of the configuration's check.
        let Some(issuer) = issuers.iter().find(|issuer| issuer.url() == named) else { return Ok(None) };
        let user = issuer.user(token, now).await;
        user.map(Some).map_err(|fault| match fault {
            JwtError::NoKeys => Unauthenticated::Undecided(fault.to_string()),
            fault => Unauthenticated::Token(fault.to_string()),
        })
    }
}

impl Method for Arc<Issuers> {
    fn user<'a>(&'a self, _peer: &'a Peer, headers: &'a HeaderMap, at: Moment<'a>) -> Finding<'a, Arc<User>> {
        match bearer_token(headers) {
            None => found(Ok(None)),
            Some(token) => Finding::Right(Box::pin(self.find(token, at.now))),
        }
    }

    fn holder<'a>(&'a self, token: &'a [u8], at: Moment<'a>) -> Finding<'a, Holder> {
        Finding::Right(Box::pin(async move {
            let user = self.find(token, at.now).await?;
            // The token's own audiences are those of the configuration: it is meant for this server.
            Ok(user.map(Holder::agnostic))
        }))
    }
}
