//! Publishes the authority of the servers' certificates: every active namespace has a config map with it, which pods mount
//! beside their tokens.

use std::convert::Infallible;
use std::pin::pin;

use futures::future::{Either, select};
use orch_raft::Store;
use orch_raft::object::SharedObject;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use tokio::sync::watch;

use super::client::Client;
use super::each_namespace::{self, Wanted};
use crate::admission::root_ca_config_map;
use crate::error::ApiError;

/// Key of the authority in the config map.
const KEY: &str = "ca.crt";

/// Keeps a config map with `authority`, PEM, in every namespace, and writes a later version into all of them. Completes
/// only with an error.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    mut authority: watch::Receiver<String>,
) -> Result<Infallible, ApiError> {
    loop {
        let current = authority.borrow_and_update().clone();
        let publish = pin!(publish(client, &current));
        let changed = pin!(async {
            if authority.changed().await.is_err() {
                // There are no later versions.
                std::future::pending().await
            }
        });
        if let Either::Left((Err(error), _)) = select(publish, changed).await {
            return Err(error);
        }
    }
}

/// Keeps a config map with `authority` in every namespace.
async fn publish<S: Store>(client: &Client<S>, authority: &str) -> Result<Infallible, ApiError> {
    let brand = client.registry().brand;
    let name = root_ca_config_map(brand);
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
    each_namespace::run((client, "root_ca_cert_publisher"), wanted).await
}

/// Whether the config map holds the authority. Other keys are their owner's.
fn has_authority(wanted: &Wanted, found: &SharedObject) -> bool {
    let found: Result<Value, _> = serde_json::from_slice(&found.json);
    found.is_ok_and(|found| found.at("data").at(KEY) == wanted.object.at("data").at(KEY))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::controllers::testing::Fixture;

    const MAPS: &str = "configmaps";

    #[tokio::test(start_paused = true)]
    async fn every_namespace_has_the_authority_and_a_changed_one_is_mended() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let path = "n/orch-root-ca.crt";
        let (sender, authority) = watch::channel("PEM".to_owned());
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
            sender.send_replace("OLD AND NEW".to_owned());
            settled().await;
            for path in [path, "m/orch-root-ca.crt"] {
                assert_eq!(fixture.read(MAPS, path)["data"], json!({"ca.crt": "OLD AND NEW"}), "{path}");
            }
            drop(sender);
            fixture.delete(MAPS, path, json!({})).await;
            settled().await;
            assert_eq!(
                fixture.read(MAPS, path)["data"],
                json!({"ca.crt": "OLD AND NEW"}),
                "the last one stays"
            );
        };
        fixture.beside(run(&fixture.client(), authority), steps).await;
    }
}
