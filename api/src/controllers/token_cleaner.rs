//! Removes bootstrap tokens that have expired.
//!
//! Owns the order in which they expire, kept up to date with changes. A secret that was written again since it was looked at
//! stays and is looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, ObjectPath, Revision, State, Store};

use super::client::{Client, Place, Propagation, is_overtaken};
use super::turns::any_changed;
use crate::authn::bootstrap_token;
use crate::error::ApiError;
use crate::follow::{Applied, Derived, Follower};

const SECRETS: &str = "secrets";

/// The shortest wait between two passes: a token is removed a second after its end, when it has long been refused.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait: the history still holds the changes since, and a clock that was set is noticed.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Removals of one pass. Tokens are made by people: more expire over several passes.
const BATCH_MAX: usize = 64;

/// A stored token, ordered by its end in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    ends_at: u64,
    path: Arc<str>,
    uid: String,
    revision: Revision,
}

/// The bootstrap tokens with an end, the soonest first.
struct Ends {
    brand: &'static Brand,
    source: Arc<str>,
    by_path: BTreeMap<Arc<str>, Entry>,
    entries: BTreeSet<Entry>,
}

impl Ends {
    fn new(brand: &'static Brand) -> Self {
        Ends { brand, source: SECRETS.into(), by_path: BTreeMap::new(), entries: BTreeSet::new() }
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        if ObjectPath::of(path).namespace() != self.brand.system_namespace {
            return;
        }
        if let Some(old) = self.by_path.remove(path) {
            self.entries.remove(&old);
        }
        let Some(object) = object else { return };
        if let Some(ends_at) = bootstrap_token::expires_at(self.brand, &object.json) {
            let uid = object.index.uid.to_string();
            let entry = Entry { ends_at, path: path.clone(), uid, revision: object.revision };
            self.by_path.insert(path.clone(), entry.clone());
            self.entries.insert(entry);
        }
    }

    fn ended(&self, now: u64) -> Vec<Entry> {
        self.entries.iter().take_while(|entry| entry.ends_at <= now).take(BATCH_MAX).cloned().collect()
    }

    /// Time from `now` until the next end, clamped to the bounds of the wait. `None`: no token has an end.
    fn quiet(&self, now: u64) -> Option<Duration> {
        let soonest = self.entries.first()?;
        Some(Duration::from_secs(soonest.ends_at.saturating_sub(now)).clamp(WAIT_MIN, WAIT_MAX))
    }
}

impl Derived for Ends {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        self.by_path.clear();
        self.entries.clear();
        for (path, object) in state.collection(SECRETS).within(self.brand.system_namespace, "") {
            self.set(path, Some(object));
        }
    }
}

/// Removes expired tokens. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [store.subscribe(&SECRETS.into())];
    let mut ends = Follower::new(Ends::new(client.registry().brand), &client.newest().await?);
    loop {
        // date: a token says when it ends. The wait is bounded, whatever the time of day.
        match ends.value().quiet(client.now_ms() / 1000) {
            Some(quiet) => store.sleep(quiet).await,
            None => any_changed(&mut changed).await,
        }
        // date: as above.
        let ended = ends.advance(&Applied::of(store)).ended(client.now_ms() / 1000);
        for entry in ended {
            let Some(resource) = client.stored_resource(SECRETS) else { break };
            let place = Place { resource: &resource, path: &entry.path };
            let revision = Some(entry.revision);
            match client.delete(place, &entry.uid, revision, Propagation::Background).await {
                Err(error) if !is_overtaken(&error) => return Err(error),
                Err(_) => {}
                Ok(()) => tracing::info!(path = %entry.path, "an expired bootstrap token was removed"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use orch_schema::json;
    use orch_schema::value::Value;

    use super::*;
    use crate::controllers::testing::Fixture;

    fn token(name: &str, kind: &str, expiration: &str) -> Value {
        let data = json!({"expiration": BASE64_STANDARD.encode(expiration)});
        json!({"metadata": {"name": name}, "type": kind, "data": data})
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_removed_after_its_end_and_nothing_else_is() {
        let fixture = Fixture::new();
        let system = "orch-system";
        for namespace in [system, "n"] {
            fixture.namespace(namespace).await;
        }
        // The clock of the fixture stands at 2026-01-02T02:49:05Z.
        let (kind, past) = ("bootstrap.orch.io/token", "2026-01-02T02:49:00Z");
        fixture.create(SECRETS, system, token("past", kind, past)).await;
        fixture.create(SECRETS, system, token("damaged", kind, "tomorrow")).await;
        fixture.create(SECRETS, system, token("soon", kind, "2026-01-02T02:50:05Z")).await;
        fixture.create(SECRETS, system, token("eternal", kind, "")).await;
        fixture.create(SECRETS, system, token("other", "Opaque", past)).await;
        fixture.create(SECRETS, "n", token("elsewhere", kind, past)).await;
        let left = || {
            let state = fixture.state();
            let paths = state.collection(SECRETS);
            paths.range_from("").map(|(path, _)| path.to_string()).collect::<Vec<_>>()
        };
        fixture.while_running(run(&fixture.client()), 60).await;
        assert_eq!(left(), ["n/elsewhere", "orch-system/eternal", "orch-system/other", "orch-system/soon"]);
        fixture.advance(Duration::from_secs(60));
        fixture.while_running(run(&fixture.client()), 60).await;
        assert_eq!(left(), ["n/elsewhere", "orch-system/eternal", "orch-system/other"]);
    }
}
