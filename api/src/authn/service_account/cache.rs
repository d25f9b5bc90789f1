//! The cache of verified tokens, by the digest of the token.
//!
//! Owns its bound and the epoch of the keys: a token that was verified with keys that have been replaced since is not kept.
//! It never decides whether a token is still good: its caller checks expiry and objects. The tokens' texts are not held.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use ring::digest::{SHA256, digest};

use super::Verified;

/// Tokens that the cache holds, about 1 KiB each: every pod of a large node pool has one, and 8 MiB are few beside the
/// objects. Beyond it the expired are dropped, or else all, which costs a signature check each.
const CACHED_MAX: usize = 8 << 10;

/// Bytes of one token that is held, so that all together take 32 MiB at most. The audiences are the choice of the client that
/// requests a token: a thousand of them fit into a token and would take 60 KiB. Such a token is verified each time.
const TOKEN_HELD_BYTES_MAX: usize = 4 << 10;

/// SHA-256 of a token.
pub(super) type TokenDigest = [u8; 32];

/// Verified tokens. Safe to share.
#[derive(Default)]
pub(super) struct Cache(RwLock<Content>);

#[derive(Default)]
struct Content {
    /// How often the keys were replaced.
    epoch: u64,
    tokens: HashMap<TokenDigest, Arc<Verified>>,
}

/// The digest under which `token` is cached.
pub(super) fn digest_of(token: &[u8]) -> TokenDigest {
    let mut id = [0; 32];
    id.copy_from_slice(digest(&SHA256, token).as_ref());
    id
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl Cache {
    /// The token of this digest.
    pub(super) fn find(&self, id: &TokenDigest) -> Option<Arc<Verified>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).tokens.get(id).cloned()
    }

    /// The epoch of the keys, for [`Self::keep`].
    pub(super) fn epoch(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).epoch
    }

    /// Keeps a token that was verified with the keys of `epoch`.
    pub(super) fn keep(&self, id: TokenDigest, verified: Arc<Verified>, epoch: u64, now: u64) {
        let mut content = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if content.epoch != epoch || verified.held_bytes() > TOKEN_HELD_BYTES_MAX {
            return;
        }
        if content.tokens.len() >= CACHED_MAX {
            content.tokens.retain(|_, held| now < held.claims.expires_at);
        }
        if content.tokens.len() >= CACHED_MAX {
            content.tokens.clear();
        }
        content.tokens.insert(id, verified);
    }

    /// Drops the token of this digest, if it is held.
    pub(super) fn forget(&self, id: &TokenDigest) {
        if self.find(id).is_some() {
            self.0.write().unwrap_or_else(PoisonError::into_inner).tokens.remove(id);
        }
    }

    /// Drops all tokens: the keys were replaced.
    pub(super) fn clear(&self) {
        let mut content = self.0.write().unwrap_or_else(PoisonError::into_inner);
        content.epoch += 1;
        content.tokens.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Claims, Seen};
    use super::*;
    use crate::authn::User;

    fn verified(expires_at: u64) -> Arc<Verified> {
        let claims = Claims { expires_at, ..Claims::default() };
        Arc::new(Verified { claims, user: Arc::new(User::anonymous()), seen: Seen::default(), kept: None })
    }

    fn id(at: usize) -> TokenDigest {
        digest_of(&at.to_be_bytes())
    }

    #[test]
    fn the_cache_is_bounded_and_expired_tokens_make_room_first() {
        let cache = Cache::default();
        let len = || cache.0.read().unwrap().tokens.len();
        for at in 0..CACHED_MAX {
            cache.keep(id(at), verified(if at < 10 { 1 } else { 9 }), 0, 0);
        }
        assert_eq!(len(), CACHED_MAX);
        cache.keep(id(CACHED_MAX), verified(9), 0, 5);
        assert_eq!(len(), CACHED_MAX - 9, "ten expired, one new");
        for at in 0..CACHED_MAX {
            cache.keep(id(CACHED_MAX + at), verified(9), 0, 5);
        }
        assert!(len() <= CACHED_MAX);
    }

    #[test]
    fn a_token_of_a_thousand_audiences_is_verified_each_time() {
        let cache = Cache::default();
        for (at, audiences, is_held) in [(0, 1, true), (1, 10, true), (2, 1_000, false)] {
            let claims = Claims { audiences: vec!["a".to_owned(); audiences], ..Claims::default() };
            let (user, seen) = (Arc::new(User::anonymous()), Seen::default());
            cache.keep(id(at), Arc::new(Verified { claims, user, seen, kept: None }), 0, 0);
            assert_eq!(cache.find(&id(at)).is_some(), is_held, "{audiences}");
        }
    }

    #[test]
    fn a_token_verified_with_keys_of_an_earlier_epoch_is_not_kept() {
        let cache = Cache::default();
        let epoch = cache.epoch();
        cache.clear();
        cache.keep(id(0), verified(9), epoch, 0);
        assert!(cache.find(&id(0)).is_none());
        cache.keep(id(0), verified(9), cache.epoch(), 0);
        assert!(cache.find(&id(0)).is_some());
        cache.forget(&id(0));
        assert!(cache.find(&id(0)).is_none());
    }
}
