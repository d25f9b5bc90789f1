//! Loops over requests for certificates: approval of kubelets' client certificates, the built-in signers, clean-up.
//!
//! Owns how the first two find their work: a queue of the requests that are open for them, in which a request that
//! cannot be decided yet comes again with a back-off. Certificates are signed by the node's [`crate::signing`].

mod approving;
mod cleaning;
mod signing;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_rules::certificates::{CertificateRequest, RequestError};
use orch_rules::validate::tree::Tree;
use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::Value;

pub(super) use self::approving::run as approve;
pub(super) use self::cleaning::run as clean;
pub(super) use self::signing::run as sign;
use super::client::{Client, Place};
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};

/// Storage resource of requests for certificates.
const REQUESTS: &str = "certificatesigningrequests.certificates";

/// Requests that are worked on at once: signing takes a thread for a millisecond with the slowest keys.
const REQUESTS_AT_ONCE: usize = 8;

/// Logged where the handling of a request fails.
const WARNING: &str = "a certificate request cannot be handled yet";

/// The requests that are open for a loop.
struct Open {
    brand: &'static Brand,
    is_open: fn(&Brand, &Value) -> bool,
    queue: Queue<Arc<str>>,
}

impl Open {
    fn look(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let parsed = object.and_then(|object| serde_json::from_slice(&object.json).ok());
        match parsed {
            Some(request) if (self.is_open)(self.brand, &request) => self.queue.add(path, Duration::ZERO),
            _ => self.queue.forget_failures(path),
        }
    }
}

impl Derived for Open {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| REQUESTS.into());
        std::iter::once(&*SOURCE)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.look(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        for (path, object) in state.collection(REQUESTS).range_from("") {
            self.look(path, Some(object));
        }
    }
}

impl Queued for Open {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// Calls `act` for each request for which `is_open` holds, again and again while it waits. Completes only with an error.
async fn work<'a, S, F>(
    (client, name): (&'a Client<S>, &'static str),
    is_open: fn(&Brand, &Value) -> bool,
    act: impl Fn(Stored, Applied) -> F,
) -> Result<Infallible, ApiError>
where
    S: Store,
    F: Future<Output = Result<Progress, ApiError>> + Send + 'a,
{
    let brand = client.registry().brand;
    let open = Open { brand, is_open, queue: Queue::default() };
    let mut rounds = Rounds::new((client, name), [REQUESTS.into()], open, REQUESTS_AT_ONCE).await?;
    loop {
        let Round { due, applied } = rounds
            .next(|open, path, result| end(client, &mut open.queue, (path, path), result, WARNING))
            .await;
        for path in due {
            let stored = Stored::of(&applied.state, &path).filter(|stored| is_open(brand, &stored.object));
            match stored.map(|stored| act(stored, applied.clone())) {
                Some(pass) => rounds.start(path, pass),
                None => rounds.done(&path),
            }
        }
    }
}

/// A request as it was when a loop looked at it.
struct Stored {
    path: String,
    uid: String,
    revision: orch_raft::Revision,
    object: Value,
}

impl Stored {
    fn of(state: &State, path: &str) -> Option<Stored> {
        let collection = state.collection(REQUESTS);
        let found = collection.get(path)?;
        let object = serde_json::from_slice(&found.json).ok()?;
        Some(Stored { path: path.to_owned(), uid: found.index.uid.clone(), revision: found.revision, object })
    }

    fn spec(&self) -> &Value {
        self.object.at("spec")
    }

    fn usages(&self) -> Vec<&str> {
        self.spec().texts("usages")
    }

    fn request(&self) -> Result<CertificateRequest, RequestError> {
        CertificateRequest::parse(&STANDARD.decode(self.spec().text("request")).unwrap_or_default())
    }

    /// Adds a condition through the sub-resource of `action`, if the request is still the same.
    async fn add_condition<S: Store>(
        &self,
        client: &Client<S>,
        action: Action,
        condition: Value,
    ) -> Result<(), ApiError> {
        let mut conditions = self.object.at("status").items("conditions").to_vec();
        conditions.push(condition);
        self.patch_status(client, action, json!({"conditions": Value::Array(conditions)})).await
    }

    async fn patch_status<S: Store>(
        &self,
        client: &Client<S>,
        action: Action,
        status: Value,
    ) -> Result<(), ApiError> {
        let Some(resource) = client.stored_resource(REQUESTS) else { return Ok(()) };
        let patch = json!({
            "metadata": {"uid": self.uid.as_str(), "resourceVersion": self.revision.to_string()},
            "status": status,
        });
        client.patch(Place { resource: &resource, path: &self.path }, action, &patch).await
    }
}

/// Whether a request has a condition of this type.
fn has_condition(request: &Value, kind: &str) -> bool {
    let mut conditions = request.at("status").items("conditions").iter().take_while(|_| count_step());
    // once: one pass for each request.
    conditions.any(|condition| condition.text("type") == kind)
}
