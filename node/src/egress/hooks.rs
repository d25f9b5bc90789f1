//! The servers that objects of the API name: webhooks of admission and of conversion.
//!
//! Owns which of them are kept ready, and for how long. Each is a [`Target`] of its own, so that one that hangs holds no place of
//! another. No file is read under the lock. Invariant: two configurations share a connection only if address, host, authorities
//! and who this server is to them are the same.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::egress::{EgressError, Outgoing, Reach, Reply};
use orch_api::webhook::{Call, Caller};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::hook_users::{HookUsers, UserKey};
use super::{Bounds, Credentials, Origin, Target, Trust};

/// Servers that are kept ready; the one that was asked longest ago goes. The reference keeps as many.
const TARGETS_MAX: usize = 200;

/// For servers that objects name: a hook may answer more requests at once than a review's server, and each new connection costs a
/// handshake. A call may have effects, so it is made once.
const BOUNDS: Bounds = Bounds { requests: 256, idle: 64, sends_again: false };

/// The webhooks of this node.
pub struct Hooks(Arc<Inner>);

struct Inner {
    reach: Reach,
    users: HookUsers,
    targets: Mutex<HashMap<Server, Known>>,
}

/// A server: where it is dialled, who it has to be, and who vouches for that.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Server {
    origin: Origin,
    at: Option<(String, u16)>,
    authorities: Option<Arc<[u8]>>,
    /// The user of a client configuration whose credentials it gets; `None`: no credentials.
    user: Option<UserKey>,
}

struct Known {
    /// Made by the first call, for those that come meanwhile, too: its authorities are parsed once.
    target: Arc<OnceCell<Arc<Target>>>,
    asked: Instant,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("reach", &self.0.reach).finish_non_exhaustive()
    }
}

impl Hooks {
    /// Webhooks at the addresses of `reach`, called as `users`.
    pub fn new(reach: Reach, users: HookUsers) -> Hooks {
        Hooks(Arc::new(Inner { reach, users, targets: Mutex::default() }))
    }
}

impl Inner {
    /// The target of `call`, made where there is none.
    async fn target(&self, call: &Call) -> Result<Arc<Target>, EgressError> {
        let user = self.users.find(call.purpose, &call.url.host, call.url.port);
        let server = Server {
            origin: Origin::of(&call.url),
            at: call.at.clone(),
            authorities: call.authorities.clone(),
            user: user.map(|(key, _)| key),
        };
        let known = self.known(server);
        let make = || async {
            let pair = user.and_then(|(_, identity)| identity.pair.clone());
            let credentials = user.map_or(Credentials::None, |(_, identity)| identity.credentials.clone());
            self.make(call, pair, credentials).await
        };
        known.get_or_try_init(make).await.cloned()
    }

    /// The place of a target, made where there is none.
    fn known(&self, server: Server) -> Arc<OnceCell<Arc<Target>>> {
        let mut targets = self.targets.lock();
        if let Some(known) = targets.get_mut(&server) {
            known.asked = Instant::now();
            return known.target.clone();
        }
        if targets.len() >= TARGETS_MAX {
            let oldest =
                targets.iter().min_by_key(|(_, known)| known.asked).map(|(server, _)| server.clone());
            oldest.and_then(|oldest| targets.remove(&oldest));
        }
        let target: Arc<OnceCell<Arc<Target>>> = Arc::default();
        targets.insert(server, Known { target: target.clone(), asked: Instant::now() });
        target
    }

    /// A target for `call`, which is shown `pair`.
    async fn make(
        &self,
        call: &Call,
        pair: Option<(Vec<u8>, Vec<u8>)>,
        credentials: Credentials,
    ) -> Result<Arc<Target>, EgressError> {
        // The machine's authorities are a file of some hundred certificates.
        let authorities = call.authorities.clone();
        let made = tokio::task::spawn_blocking(move || {
            let pair = pair.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
            Trust::of_object(authorities.as_deref(), pair)
        });
        let failed = |reason: String| EgressError::Unreachable { host: call.url.host.clone(), reason };
        // A node that stops starts no more such work.
        let made = made.await.map_err(|error| failed(error.to_string()))?;
        let trust = made.map_err(|error| failed(orch_serving::Causes(&error).to_string()))?;
        let mut target = Target::bounded(self.reach.clone(), &trust, credentials, BOUNDS);
        target.at.clone_from(&call.at);
        Ok(Arc::new(target))
    }
}

impl Caller for Hooks {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let inner = self.0.clone();
        async move {
            let began = Instant::now();
            let target = tokio::time::timeout(call.timeout, inner.target(&call)).await;
            let late = || EgressError::Timeout { host: call.url.host.clone() };
            let target = target.map_err(|_| late())??;
            let Call { url, document, timeout, answer_bytes_max, trace, .. } = call;
            let timeout = timeout.saturating_sub(began.elapsed());
            let request = Outgoing { url, document: Some(document), timeout, trace };
            target.ask_in_time(&request, answer_bytes_max).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orch_api::egress::{Local, Scheme, Url};
    use orch_api::webhook::Purpose;

    use super::*;
    use crate::certs::Authority;

    #[tokio::test]
    async fn calls_that_come_together_make_one_target() {
        let authority = Authority::create("ca", time::OffsetDateTime::now_utc()).unwrap();
        let url =
            Url { scheme: Scheme::Https, host: "hook.example".to_owned(), port: 443, target: "/".to_owned() };
        let call = Call {
            url,
            at: None,
            authorities: Some(authority.pair.certificate.as_bytes().into()),
            document: bytes::Bytes::new(),
            timeout: Duration::from_secs(1),
            answer_bytes_max: 1 << 10,
            purpose: Purpose::Mutating,
            trace: None,
        };
        let hooks = Hooks::new(Reach::of_objects(Local::Any), HookUsers::default());
        let made = futures::future::join_all((0..16).map(|_| hooks.0.target(&call))).await;
        let first = made[0].as_ref().unwrap();
        assert!(made.iter().all(|made| made.as_ref().is_ok_and(|target| Arc::ptr_eq(target, first))));
        let broken = Call { authorities: Some(b"no certificate".as_slice().into()), ..call };
        assert!(hooks.0.target(&broken).await.is_err() && hooks.0.target(&broken).await.is_err());
    }
}
