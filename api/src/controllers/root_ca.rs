//! Publishes the authority of the servers' certificates: every active namespace has a config map with it, which pods mount
//! beside their tokens. One that is rotated is published anew.

use std::convert::Infallible;
use std::fmt::Debug;

use futures::future::{BoxFuture, Either, select};
use orch_proto::Brand;
use orch_raft::Store;
use orch_raft::object::SharedObject;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::Client;
use super::each_namespace::{self, Wanted};
use crate::error::ApiError;

/// Key of the authority in the config map.
const KEY: &str = "ca.crt";

/// Name of the config map: `orch-root-ca.crt`.
pub(crate) fn config_map_name(brand: &Brand) -> String {
    format!("{}-root-ca.crt", brand.component_prefix)
}

/// The authority of the servers' certificates, as this node trusts it.
pub trait RootAuthority: Debug + Send + Sync {
    /// Its certificates, PEM: two while it is rotated.
    fn current(&self) -> String;

    /// Completes when they change after the call.
    fn changed(&self) -> BoxFuture<'static, ()>;
}

/// Keeps a config map with `authority` in every namespace. Completes only with an error.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    authority: &dyn RootAuthority,
) -> Result<Infallible, ApiError> {
    loop {
        let changed = authority.changed();
        let current = authority.current();
        if let Either::Left((ended, _)) = select(Box::pin(publish(client, &current)), changed).await {
            return ended;
        }
    }
}

async fn publish<S: Store>(client: &Client<S>, authority: &str) -> Result<Infallible, ApiError> {
    let brand = client.registry().brand;
    let name = config_map_name(brand);
    let description = "Certificate authority of the API servers, for clients inside the cluster.";
    let annotations = json!({(brand.label("description").as_str()): description});
    let data = json!({(KEY): authority});
    let wanted = Wanted {
        storage: "configmaps",
        object: json!({"metadata": {"name": name.as_str(), "annotations": annotations}, "data": data}),
        patch: json!({"data": data}),
        name,
        is_right: has_authority,
    };
    each_namespace::run(client, wanted).await
}

/// Whether the config map holds the authority. Other keys are their owner's.
fn has_authority(wanted: &Wanted, found: &SharedObject) -> bool {
    let found: Result<Value, _> = serde_json::from_slice(&found.json);
    found.is_ok_and(|found| found.at("data").at(KEY) == wanted.object.at("data").at(KEY))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::controllers::testing::Fixture;

    const MAPS: &str = "configmaps";

    /// An authority that tests replace.
    #[derive(Debug)]
    struct Replaceable(watch::Sender<String>);

    impl Replaceable {
        fn new(authority: &str) -> Arc<Replaceable> {
            Arc::new(Replaceable(watch::Sender::new(authority.to_owned())))
        }
    }

    impl RootAuthority for Replaceable {
        fn current(&self) -> String {
            self.0.borrow().clone()
        }

        fn changed(&self) -> BoxFuture<'static, ()> {
            let mut changes = self.0.subscribe();
            Box::pin(async move { changes.changed().await.unwrap() })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_authority_is_published_anew() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let authority = Replaceable::new("old");
        let steps = async {
            let settled = || tokio::time::sleep(Duration::from_secs(1));
            settled().await;
            assert_eq!(fixture.read(MAPS, "n/orch-root-ca.crt")["data"], json!({"ca.crt": "old"}));
            authority.0.send_replace("old and new".to_owned());
            settled().await;
            assert_eq!(fixture.read(MAPS, "n/orch-root-ca.crt")["data"], json!({"ca.crt": "old and new"}));
        };
        fixture.beside(run(&fixture.client(), &*authority), steps).await;
    }

    #[tokio::test(start_paused = true)]
    async fn every_namespace_has_the_authority_and_a_changed_one_is_mended() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let path = "n/orch-root-ca.crt";
        let steps = async {
            let settled = || tokio::time::sleep(Duration::from_secs(1));
            settled().await;
            assert_eq!(fixture.read(MAPS, path)["data"], json!({"ca.crt": "PEM"}));
            fixture.merge(MAPS, path, json!({"data": {"ca.crt": "mine", "more": "x"}})).await;
            settled().await;
            assert_eq!(fixture.read(MAPS, path)["data"], json!({"ca.crt": "PEM", "more": "x"}));
            let frozen = json!({"immutable": true, "data": {"ca.crt": "mine"}});
            fixture.merge(MAPS, path, frozen).await;
            settled().await;
            let before = fixture.state().applied();
            fixture.namespace("m").await;
            settled().await;
            assert!(
                fixture.exists(MAPS, "m/orch-root-ca.crt"),
                "one that cannot be mended holds up no other"
            );
            assert!(fixture.state().applied().0 < before.0 + 10, "and is not tried again and again");
            fixture.delete(MAPS, path, json!({})).await;
            settled().await;
            assert_eq!(fixture.read(MAPS, path)["data"], json!({"ca.crt": "PEM"}));
        };
        fixture.beside(run(&fixture.client(), &*Replaceable::new("PEM")), steps).await;
    }
}
