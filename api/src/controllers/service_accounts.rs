//! Default service accounts: every active namespace has an account called `default`.

use std::convert::Infallible;

use orch_raft::Store;
use orch_schema::json;

use super::client::Client;
use super::each_namespace::{self, Wanted};
use crate::error::ApiError;

/// Creates the accounts that are absent, now and whenever one is deleted. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let wanted = Wanted {
        storage: "serviceaccounts",
        name: "default".to_owned(),
        object: json!({"metadata": {"name": "default"}}),
        patch: json!({}),
        is_right: |_, _| true,
    };
    each_namespace::run((client, "serviceaccount"), wanted).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::controllers::testing::Fixture;

    const ACCOUNTS: &str = "serviceaccounts";

    #[tokio::test(start_paused = true)]
    async fn every_namespace_has_a_default_account_until_its_deletion() {
        let fixture = Fixture::new();
        fixture.namespace("before").await;
        let steps = async {
            let settled = || tokio::time::sleep(Duration::from_secs(1));
            settled().await;
            assert!(fixture.exists(ACCOUNTS, "before/default"));
            fixture.namespace("later").await;
            settled().await;
            assert!(fixture.exists(ACCOUNTS, "later/default"));
            fixture.delete(ACCOUNTS, "later/default", json!({})).await;
            settled().await;
            assert!(fixture.exists(ACCOUNTS, "later/default"), "a deleted one comes back");
            fixture.delete("namespaces", "later", json!({})).await;
            fixture.delete(ACCOUNTS, "later/default", json!({})).await;
            settled().await;
            assert!(!fixture.exists(ACCOUNTS, "later/default"), "the namespace is being deleted");
            let before = fixture.state().applied();
            settled().await;
            assert_eq!(fixture.state().applied(), before, "nothing is written without need");
        };
        fixture.beside(run(&fixture.client()), steps).await;
    }
}
