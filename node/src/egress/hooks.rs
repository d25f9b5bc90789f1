//! The servers that objects of the API name: webhooks of admission and of conversion.
//!
//! Owns which of them are kept ready, and for how long. Each is a [`Target`] of its own, so that one that hangs holds no place of
//! another. Invariant: two configurations share a connection only if address, host and authorities are the same.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use orch_api::egress::{EgressError, Outgoing, Reach, Reply};
use orch_api::webhook::{Call, Caller};
use parking_lot::Mutex;

use super::{Bounds, Credentials, Origin, Target, Trust};

/// Servers that are kept ready; the one that was asked longest ago goes. The reference keeps as many.
const TARGETS_MAX: usize = 200;

/// For servers that objects name: a hook may answer more requests at once than a review's server, and each new connection costs a
/// handshake. A call may have effects, so it is made once.
const BOUNDS: Bounds = Bounds { requests: 256, idle: 64, sends_again: false };

/// The webhooks of this node.
pub struct Hooks {
    reach: Reach,
    targets: Mutex<HashMap<Server, Known>>,
}

/// A server: where it is dialled, who it has to be, and who vouches for that.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Server {
    origin: Origin,
    at: Option<(String, u16)>,
    authorities: Option<Arc<[u8]>>,
}

struct Known {
    target: Arc<Target>,
    asked: Instant,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Hooks {
    /// Webhooks at the addresses of `reach`.
    pub fn new(reach: Reach) -> Hooks {
        Hooks { reach, targets: Mutex::default() }
    }

    /// The target of `call`, made where there is none.
    fn target(&self, call: &Call) -> Result<Arc<Target>, EgressError> {
        let server = Server {
            origin: Origin::of(&call.url),
            at: call.at.clone(),
            authorities: call.authorities.clone(),
        };
        let mut targets = self.targets.lock();
        if let Some(known) = targets.get_mut(&server) {
            known.asked = Instant::now();
            return Ok(known.target.clone());
        }
        let trust = Trust::of_object(call.authorities.as_deref()).map_err(|error| {
            let reason = orch_serving::Causes(&error).to_string();
            EgressError::Unreachable { host: call.url.host.clone(), reason }
        })?;
        let mut target = Target::bounded(self.reach.clone(), &trust, Credentials::None, BOUNDS);
        target.at.clone_from(&call.at);
        let target = Arc::new(target);
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
        let target = match self.target(&call) {
            Ok(target) => target,
            Err(error) => return ready(Err(error)).boxed(),
        };
        let Call { url, document, timeout, answer_bytes_max, trace, .. } = call;
        async move {
            let request = Outgoing { url, document: Some(document), timeout, trace };
            target.ask_in_time(&request, answer_bytes_max).await
        }
        .boxed()
    }
}
