//! The config map `…-apiserver-legacy-service-account-token-tracking`: the day since which the cluster notes the use of
//! long-lived service account tokens.
//!
//! Owns the name and the date. The cleaner of unused tokens, here or in a controller manager beside this
//! server, counts from that date, so that it is never changed while it can be read: a later one would only keep tokens longer,
//! an earlier one would remove tokens that were never observed. The object is made again when it is removed, and the date is
//! set to the current day when it cannot be read.

use std::convert::Infallible;
use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::Store;
use orch_raft::object::SharedObject;
use orch_raft::state::NAMESPACES;
use orch_rules::Action;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};

use super::client::{Client, Place, is_overtaken};
use super::turns::{Pace, any_changed};
use crate::error::ApiError;

/// Key of the date in the config map.
pub(super) const SINCE: &str = "since";

const CONFIG_MAPS: &str = "configmaps";

/// Length of a date: `2006-01-02`.
const DATE_LENGTH: usize = 10;

/// Name of the config map.
pub(super) fn config_map_name(brand: &Brand) -> String {
    format!("{}-apiserver-legacy-service-account-token-tracking", brand.component_prefix)
}

/// Keeps the config map. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    // The namespace of the config map may be made after the first look.
    let mut written = [CONFIG_MAPS, NAMESPACES].map(|resource| store.subscribe(&Arc::from(resource)));
    let mut pace = Pace::new();
    client.most_recent().await?;
    loop {
        reconcile(client).await?;
        any_changed(&mut written).await;
        pace.turn(store).await;
    }
}

async fn reconcile<S: Store>(client: &Client<S>) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(CONFIG_MAPS) else { return Ok(()) };
    let brand = client.registry().brand;
    let (namespace, name) = (brand.system_namespace, config_map_name(brand));
    let path = format!("{namespace}/{name}");
    let state = client.store().state();
    let today = &client.now_text()[..DATE_LENGTH];
    let data = json!({(SINCE): today});
    let sent = match state.collection(CONFIG_MAPS).get(path.as_str()) {
        None => {
            let object = json!({"metadata": {"name": name.as_str()}, "data": data});
            client.create(&resource, namespace, &object).await
        }
        Some(found) if has_date(found) => return Ok(()),
        Some(found) => {
            let metadata =
                json!({"uid": found.index.uid.as_str(), "resourceVersion": found.revision.to_string()});
            let patch = json!({"metadata": metadata, "data": data});
            client.patch(Place { resource: &resource, path: &path }, Action::Object, &patch).await
        }
    };
    match sent {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether the date of the config map can be read.
fn has_date(found: &SharedObject) -> bool {
    let object: Value = serde_json::from_slice(&found.json).unwrap_or_default();
    object["data"][SINCE].as_str().is_some_and(is_date)
}

fn is_date(text: &str) -> bool {
    text.len() == DATE_LENGTH && Instant::parse(&format!("{text}T00:00:00Z"), Precision::Seconds).is_some()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::controllers::testing::Fixture;

    const PATH: &str = "orch-system/orch-apiserver-legacy-service-account-token-tracking";

    #[test]
    fn a_date_is_a_day_of_the_calendar() {
        for (text, expected) in [
            ("2026-01-02", true),
            ("2024-02-29", true),
            ("2026-02-29", false),
            ("2026-1-02", false),
            ("+026-01-02", false),
            ("2026-01-02T00:00:00Z", false),
            ("tomorrow!!", false),
            ("", false),
        ] {
            assert_eq!(is_date(text), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_date_is_that_of_the_first_run_and_is_mended_where_it_is_lost() {
        let fixture = Fixture::new();
        let client = fixture.client();
        let since = || fixture.read(CONFIG_MAPS, PATH)["data"][SINCE].clone();
        let settled = || fixture.store().sleep(Duration::from_secs(2));
        let day = Duration::from_secs(24 * 3600);
        let steps = async {
            settled().await;
            assert!(!fixture.exists(CONFIG_MAPS, PATH), "there is no namespace yet");
            fixture.namespace("orch-system").await;
            settled().await;
            // The clock of the fixture stands at 2026-01-02T02:49:05Z.
            assert_eq!(since(), "2026-01-02");
            fixture.advance(day);
            fixture.merge(CONFIG_MAPS, PATH, json!({"data": {"more": "x"}})).await;
            settled().await;
            assert_eq!(since(), "2026-01-02", "a date that can be read stays");
            fixture.merge(CONFIG_MAPS, PATH, json!({"data": {"since": "2020-05-05"}})).await;
            settled().await;
            assert_eq!(since(), "2020-05-05", "an operator's date stays");
            fixture.merge(CONFIG_MAPS, PATH, json!({"data": {"since": "long ago"}})).await;
            settled().await;
            assert_eq!(fixture.read(CONFIG_MAPS, PATH)["data"], json!({"more": "x", "since": "2026-01-03"}));
            fixture.advance(day);
            fixture.remove_by_force(CONFIG_MAPS, PATH).await;
            settled().await;
            assert_eq!(since(), "2026-01-04");
            let before = fixture.state().applied();
            fixture.store().sleep(Duration::from_secs(60)).await;
            assert_eq!(fixture.state().applied(), before, "what is right is not written again");
        };
        fixture.beside(run(&client), steps).await;
    }
}
