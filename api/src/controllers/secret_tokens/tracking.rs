//! Records in secrets on which day the tokens that they keep were last used.
//!
//! Owns the label, which every member writes for the uses that it has seen, at most once a day for each secret. A use is never
//! refused or held up because it cannot be recorded.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_rules::Action;
use orch_schema::json;

use super::SECRETS;
use crate::authn::service_account::{LAST_USED, LastUse, SecretKey};
use crate::controllers::client::{Client, Moment, Place, for_each, is_overtaken};
use crate::controllers::turns::GATHER;
use crate::error::ApiError;

/// Concurrent writes: recording is less urgent than what clients write.
const CONCURRENT_WRITES_MAX: usize = 4;

/// Time until a secret whose label could not be written is tried again, if it is used then.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Limits warnings: any number of secrets may refuse to be written.
static UNRECORDED: WarningLimit<Moment> = WarningLimit::new();

/// Records uses. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let Some(accounts) = client.gate().service_accounts().cloned() else {
        return std::future::pending().await;
    };
    // The time of the next attempt on a secret that could not be written.
    let mut refused: BTreeMap<SecretKey, Duration> = BTreeMap::new();
    loop {
        let noted = accounts.last_uses().take().await;
        let now = client.store().elapsed();
        // set: looked up by key.
        refused.retain(|_, again| *again > now);
        // set: looked up by key.
        let due = noted.into_iter().filter(|(key, _)| !refused.contains_key(key));
        let records = for_each(due, CONCURRENT_WRITES_MAX, |(key, last_use)| async move {
            let result = record(client, &key, &last_use).await;
            (key, result)
        });
        for ((namespace, name), result) in records.await {
            let Err(error) = result else { continue };
            if !is_overtaken(&error)
                && let Some(left_out) = UNRECORDED.pass_at(client.moment())
            {
                tracing::warn!(%error, %namespace, %name, left_out, "the last use of a token is not recorded");
            }
            refused.insert((namespace, name), now.saturating_add(REFUSED_PAUSE));
        }
        client.store().sleep(GATHER).await;
    }
}

async fn record<S: Store>(
    client: &Client<S>,
    (namespace, name): &SecretKey,
    last_use: &LastUse,
) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(SECRETS) else { return Ok(()) };
    let label = client.registry().brand.label(LAST_USED);
    let patch = json!({"metadata": {
        "uid": last_use.uid.as_str(),
        "labels": {(label.as_str()): last_use.day.as_str()},
    }});
    let path = format!("{namespace}/{name}");
    client.patch(Place { resource: &resource, path: &path }, Action::Object, &patch).await
}
