//! Deletes requests that nobody needs any more.
//!
//! Owns their deadlines, those of the reference: a day for a request that nobody decided, an hour for one that was denied,
//! failed or has its certificate; at once when the certificate has expired.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_raft::object::SharedObject;
use orch_raft::{Change, Revision, State, Store};
use orch_rules::certificates::not_after;
use orch_rules::validate::tree::Tree;
use orch_schema::budget::count_step;
use orch_schema::value::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::REQUESTS;
use crate::controllers::client::{Client, Place, Propagation, is_overtaken};
use crate::controllers::turns::any_changed;
use crate::error::ApiError;
use crate::follow::{Applied, Derived, Follower};

const PENDING_S: i64 = 24 * 3600;
const DECIDED_S: i64 = 3600;

/// Bounds of the wait for the next deadline: a burst is taken in together; a clock that was set is noticed.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Requests deleted in one turn.
const BATCH_MAX: usize = 100;

/// The deadlines of all requests.
#[derive(Default)]
pub(super) struct Deadlines {
    by_path: BTreeMap<Arc<str>, Entry>,
    order: BTreeSet<(i64, Arc<str>)>,
}

#[derive(Clone, Debug)]
struct Entry {
    deadline_s: i64,
    uid: String,
    revision: Revision,
}

impl Deadlines {
    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        if let Some(entry) = self.by_path.remove(path) {
            self.order.remove(&(entry.deadline_s, path.clone()));
        }
        let entry = object.and_then(|object| {
            let deadline_s = deadline(&serde_json::from_slice(&object.json).ok()?)?;
            Some(Entry { deadline_s, uid: object.index.uid.clone(), revision: object.revision })
        });
        if let Some(entry) = entry {
            self.order.insert((entry.deadline_s, path.clone()));
            self.by_path.insert(path.clone(), entry);
        }
    }

    fn past(&self, now_s: i64) -> Vec<(Arc<str>, Entry)> {
        let past = self.order.iter().take_while(|(deadline, _)| *deadline < now_s).take(BATCH_MAX);
        past.filter_map(|(_, path)| Some((path.clone(), self.by_path.get(path)?.clone()))).collect()
    }
}

impl Derived for Deadlines {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| REQUESTS.into());
        std::iter::once(&*SOURCE)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        *self = Deadlines::default();
        for (path, object) in state.collection(REQUESTS).range_from("") {
            self.set(path, Some(object));
        }
    }
}

/// Deletes requests past their deadlines. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let Some(resource) = client.stored_resource(REQUESTS) else {
        return Err(ApiError::Internal("requests for certificates are not served".to_owned()));
    };
    let mut changed = [store.subscribe(&Arc::from(REQUESTS))];
    let mut follower = Follower::new(Deadlines::default(), &client.newest().await?);
    loop {
        let now_s = now(client);
        match follower.value().order.first() {
            Some((deadline_s, _)) => {
                let left = Duration::from_secs(u64::try_from(deadline_s - now_s).unwrap_or_default());
                store.sleep(left.clamp(WAIT_MIN, WAIT_MAX)).await;
            }
            None => any_changed(&mut changed).await,
        }
        for (path, entry) in follower.advance(&Applied::of(store)).past(now(client)) {
            let place = Place { resource: &resource, path: &path };
            let deleted =
                client.delete(place, &entry.uid, Some(entry.revision), Propagation::Background).await;
            match deleted {
                Err(error) if !is_overtaken(&error) => return Err(error),
                _ => {
                    tracing::debug!(request = %path, "certificate request removed: nobody needs it any more")
                }
            }
        }
    }
}

fn now<S: Store>(client: &Client<S>) -> i64 {
    // date: deadlines follow from times in the requests.
    i64::try_from(client.now_ms() / 1000).unwrap_or(i64::MAX)
}

/// The second after which the request is deleted, since 1970. `None`: it stays.
pub(super) fn deadline(request: &Value) -> Option<i64> {
    let conditions = request.at("status").items("conditions");
    if conditions.is_empty() {
        return Some(seconds(request.at("metadata").text("creationTimestamp"))?.saturating_add(PENDING_S));
    }
    let certificate = request.at("status").text("certificate");
    let of = |condition: &Value| {
        let decided = || Some(seconds(condition.text("lastUpdateTime"))?.saturating_add(DECIDED_S));
        match condition.text("type") {
            "Denied" | "Failed" => decided(),
            "Approved" if !certificate.is_empty() => {
                let expired = not_after(&STANDARD.decode(certificate).unwrap_or_default());
                decided().into_iter().chain(expired).min()
            }
            _ => None,
        }
    };
    conditions.iter().take_while(|_| count_step()).filter_map(of).min()
}

fn seconds(text: &str) -> Option<i64> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp)
}
