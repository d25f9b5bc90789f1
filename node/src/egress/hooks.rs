//! The servers that objects of the API name: webhooks of admission and of conversion.
//!
//! Owns which of them are kept ready, and for how long. Each is a [`Target`] of its own, so that one that hangs holds no place of
//! another. No file is read under the lock. Invariant: two configurations share a connection only if address, host, authorities and
//! who this server is to them are the same.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::egress::{EgressError, Outgoing, Reach, Reply};
use orch_api::webhook::{Call, Caller};
use parking_lot::Mutex;

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
    /// As whom it is called.
    user: Option<UserKey>,
}

struct Known {
    target: Arc<Target>,
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
        if let Some(known) = self.targets.lock().get_mut(&server) {
            known.asked = Instant::now();
            return Ok(known.target.clone());
        }
        // The machine's authorities are a file of some hundred certificates.
        let (authorities, pair) =
            (call.authorities.clone(), user.and_then(|(_, identity)| identity.pair.clone()));
        let made = tokio::task::spawn_blocking(move || {
            let pair = pair.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
            Trust::of_object(authorities.as_deref(), pair)
        });
        let made = made.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let trust = made.map_err(|error| {
            let reason = orch_serving::Causes(&error).to_string();
            EgressError::Unreachable { host: call.url.host.clone(), reason }
        })?;
        let credentials = user.map_or(Credentials::None, |(_, identity)| identity.credentials.clone());
        let mut target = Target::bounded(self.reach.clone(), &trust, credentials, BOUNDS);
        target.at.clone_from(&call.at);
        let target = Arc::new(target);
        let mut targets = self.targets.lock();
        // Another call may have made it meanwhile: they share connections and places.
        if let Some(known) = targets.get(&server) {
            return Ok(known.target.clone());
        }
        if targets.len() >= TARGETS_MAX {
            let oldest =
                targets.iter().min_by_key(|(_, known)| known.asked).map(|(server, _)| server.clone());
            oldest.and_then(|oldest| targets.remove(&oldest));
        }
        targets.insert(server, Known { target: target.clone(), asked: Instant::now() });
        Ok(target)
    }
}

impl Caller for Hooks {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let inner = self.0.clone();
        async move {
            let target = inner.target(&call).await?;
            let Call { url, document, timeout, answer_bytes_max, .. } = call;
            let request = Outgoing { url, document: Some(document), timeout };
            target.ask_in_time(&request, answer_bytes_max).await
        }
        .boxed()
    }
}
