//! The credential of a watch or another request that outlasts its first answer, checked again while it runs.
//!
//! Owns a copy of the headers that prove and choose a user: `Authorization`, headers of impersonation, and those of an
//! allowed front proxy. They are copied, since a header's bytes keep the whole head of its request in memory. Never shows
//! them. Two credentials are equal where every authentication finds the same for both: watches of one client share one.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::impersonate;
use super::peer::Peer;
use super::user::User;

/// The credential by which a request was let in.
#[derive(Clone)]
pub struct Credential {
    peer: Arc<Peer>,
    headers: Arc<HeaderMap>,
    user: Arc<User>,
}

impl Credential {
    /// The credential in the stripped `headers` of a request of `peer`, authenticated as `user`. `is_identity` tells the
    /// headers of front proxies.
    pub(super) fn new(
        peer: Arc<Peer>,
        headers: &HeaderMap,
        user: Arc<User>,
        is_identity: impl Fn(&HeaderName) -> bool,
    ) -> Credential {
        let is_kept = |name: &HeaderName| {
            *name == AUTHORIZATION || name.as_str().starts_with(impersonate::PREFIX) || is_identity(name)
        };
        let sent = || headers.iter().filter(|(name, _)| is_kept(name));
        // The map of a usual request is as large as its one header.
        let mut kept = HeaderMap::with_capacity(sent().count());
        for (name, value) in sent() {
            // A copy of a value is a value.
            if let Ok(mut copy) = HeaderValue::from_bytes(value.as_bytes()) {
                copy.set_sensitive(true);
                kept.append(name.clone(), copy);
            }
        }
        Credential { peer, headers: Arc::new(kept), user }
    }

    /// Bytes of memory that its headers hold: their texts, and what the map keeps beside each.
    pub(crate) fn held_bytes(&self) -> usize {
        const FIELD_BYTES: usize = 96;
        let fields = self.headers.iter().map(|(name, value)| FIELD_BYTES + name.as_str().len() + value.len());
        fields.sum()
    }

    /// The connection that it came by.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether it still stands for the same user: a name may have been given to another one.
    pub fn is_of(&self, user: &User) -> bool {
        (&self.user.name, &self.user.uid) == (&user.name, &user.uid)
    }
}

impl PartialEq for Credential {
    fn eq(&self, other: &Credential) -> bool {
        self.is_of(&other.user) && self.headers == other.headers && self.peer.is_like(&other.peer)
    }
}

impl Eq for Credential {}

impl Hash for Credential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.user.name, &self.user.uid, self.peer.address.ip()).hash(state);
        // Equal maps may be in another order.
        let mut fields: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        fields.sort_unstable();
        fields.hash(state);
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("user", &self.user.name).finish_non_exhaustive()
    }
}
