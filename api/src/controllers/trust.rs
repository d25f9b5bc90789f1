//! The config map `extension-apiserver-authentication`: how other servers may tell this cluster's clients and front
//! proxies, for those that sit behind it.
//!
//! Owns keeping the object's data as [`Announcement`] computes it, when either changes or the object is removed, and now and then, since
//! authorities expire. It parses no certificate.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, select};
use orch_raft::Store;
use orch_raft::state::NAMESPACES;
use orch_rules::Action;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place, is_overtaken};
use super::turns::{Pace, any_changed};
use crate::ambient::Timestamp;
use crate::error::ApiError;

/// Name of the config map, the same under every brand, since programs of others look for it.
const NAME: &str = "extension-apiserver-authentication";

const CONFIG_MAPS: &str = "configmaps";

/// Time after which the data is computed again although nothing has changed: for so long it may name an authority that is to leave it.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// A node's authorities of clients and front proxies, as the config map announces them.
pub trait Announcement: Debug + Send + Sync {
    /// The data that the config map should have instead of `found`: what is still needed of that, and this node's own.
    fn data(&self, found: &BTreeMap<String, String>, now: Timestamp) -> BTreeMap<String, String>;

    /// Completes when this node's own changes after the call.
    fn changed(&self) -> BoxFuture<'static, ()>;
}

/// Keeps the config map. Completes only with an error.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    announcement: &dyn Announcement,
) -> Result<Infallible, ApiError> {
    let store = client.store();
    // The namespace of the config map may be made after the first look.
    let mut written = [CONFIG_MAPS, NAMESPACES].map(|resource| store.subscribe(&Arc::from(resource)));
    let mut pace = Pace::new();
    loop {
        let changed = announcement.changed();
        reconcile(client, announcement).await?;
        let late = Box::pin(store.sleep(LOOK_EVERY));
        select(select(Box::pin(any_changed(&mut written)), changed), late).await;
        pace.turn(store).await;
    }
}

async fn reconcile<S: Store>(client: &Client<S>, announcement: &dyn Announcement) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(CONFIG_MAPS) else { return Ok(()) };
    let namespace = client.registry().brand.system_namespace;
    let path = format!("{namespace}/{NAME}");
    let state = client.most_recent().await?;
    let stored = state.collection(CONFIG_MAPS).get(path.as_str()).cloned();
    // date: certificates say when they end.
    let now = Timestamp(client.now_ms().saturating_mul(1000));
    let sent = match stored {
        None => {
            let data = announcement.data(&BTreeMap::new(), now);
            let object = json!({"metadata": {"name": NAME}, "data": map_value(&data)});
            client.create(&resource, namespace, &object).await
        }
        Some(object) => {
            let object: Value = serde_json::from_slice(&object.json).unwrap_or_default();
            let found = data_of(&object);
            let data = announcement.data(&found, now);
            if data == found {
                return Ok(());
            }
            let patch = patch(&object, &found, &data);
            client.patch(Place { resource: &resource, path: &path }, Action::Object, &patch).await
        }
    };
    match sent {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The texts in `data` of a config map.
fn data_of(object: &Value) -> BTreeMap<String, String> {
    let entries = object["data"].as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
}

/// The merge patch of `object` from the data `found` to `data`.
fn patch(object: &Value, found: &BTreeMap<String, String>, data: &BTreeMap<String, String>) -> Value {
    let mut changes = map_value(data);
    for key in found.keys().filter(|key| !data.contains_key(*key)) {
        changes[key.as_str()] = Value::Null;
    }
    json!({"metadata": {"resourceVersion": object["metadata"]["resourceVersion"]}, "data": changes})
}

fn map_value(data: &BTreeMap<String, String>) -> Value {
    let mut map = json!({});
    for (key, value) in data {
        map[key.as_str()] = json!(value.as_str());
    }
    map
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Notify;

    use super::*;
    use crate::controllers::testing::Fixture;

    /// Announces the names that it was given and those that it finds, joined by commas.
    #[derive(Debug, Default)]
    struct Names {
        own: Mutex<String>,
        changed: Arc<Notify>,
    }

    impl Announcement for Names {
        /// Names that begin with `old` have expired in 2027.
        fn data(&self, found: &BTreeMap<String, String>, now: Timestamp) -> BTreeMap<String, String> {
            let own = self.own.lock().unwrap().clone();
            let mut names: Vec<&str> =
                found.get("names").map(|names| names.split(',').collect()).unwrap_or_default();
            names.retain(|name| !name.starts_with("old") || now.seconds_text().as_str() < "2027");
            if !names.contains(&own.as_str()) {
                names.push(&own);
            }
            BTreeMap::from([("names".to_owned(), names.join(","))])
        }

        fn changed(&self) -> BoxFuture<'static, ()> {
            let changed = self.changed.clone();
            Box::pin(async move { changed.notified().await })
        }
    }

    impl Names {
        fn set(&self, own: &str) {
            own.clone_into(&mut self.own.lock().unwrap());
            self.changed.notify_one();
        }
    }

    const PATH: &str = "orch-system/extension-apiserver-authentication";

    #[tokio::test(start_paused = true)]
    async fn the_config_map_follows_the_node_and_keeps_what_others_announce() {
        let fixture = Fixture::new();
        fixture.while_running(super::super::bootstrap::run(&fixture.client(), None), 1).await;
        let names = Names::default();
        names.set("a");
        let client = fixture.client();
        let data = || fixture.read(CONFIG_MAPS, PATH)["data"].clone();
        let steps = async {
            fixture.store().sleep(Duration::from_secs(3)).await;
            assert_eq!(data(), json!({"names": "a"}));
            names.set("b");
            fixture.store().sleep(Duration::from_secs(3)).await;
            assert_eq!(data(), json!({"names": "a,b"}));
            fixture.remove_by_force(CONFIG_MAPS, PATH).await;
            fixture.store().sleep(Duration::from_secs(3)).await;
            assert_eq!(data(), json!({"names": "b"}));
            let edit = json!({"data": {"names": "x", "other": "y"}});
            let resource = client.stored_resource(CONFIG_MAPS).unwrap();
            let place = Place { resource: &resource, path: PATH };
            client.patch(place, Action::Object, &edit).await.unwrap();
            fixture.store().sleep(Duration::from_secs(3)).await;
            assert_eq!(data(), json!({"names": "x,b"}), "keys that nothing needs go");
            let before = fixture.state().applied();
            fixture.store().sleep(Duration::from_secs(60)).await;
            assert_eq!(fixture.state().applied(), before, "what is right is not written again");
        };
        fixture.beside(run(&client, &names), steps).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_has_expired_leaves_although_nothing_changes() {
        let fixture = Fixture::new();
        fixture.while_running(super::super::bootstrap::run(&fixture.client(), None), 1).await;
        let names = Names::default();
        names.set("a");
        let found = json!({"metadata": {"name": NAME}, "data": {"names": "old,a"}});
        fixture.create(CONFIG_MAPS, "orch-system", found).await;
        let client = fixture.client();
        let data = || fixture.read(CONFIG_MAPS, PATH)["data"].clone();
        let steps = async {
            fixture.store().sleep(Duration::from_secs(3)).await;
            assert_eq!(data(), json!({"names": "old,a"}));
            fixture.advance(Duration::from_secs(366 * 86_400));
            fixture.store().sleep(LOOK_EVERY).await;
            assert_eq!(data(), json!({"names": "a"}));
        };
        fixture.beside(run(&client, &names), steps).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_config_map_is_written_once_its_namespace_is_there() {
        let fixture = Fixture::new();
        let names = Names::default();
        names.set("a");
        let client = fixture.client();
        let steps = async {
            fixture.store().sleep(Duration::from_secs(3)).await;
            fixture.create("namespaces", "", json!({"metadata": {"name": "orch-system"}})).await;
            fixture.store().sleep(Duration::from_secs(3)).await;
            assert_eq!(fixture.read(CONFIG_MAPS, PATH)["data"].clone(), json!({"names": "a"}));
        };
        fixture.beside(run(&client, &names), steps).await;
    }
}
