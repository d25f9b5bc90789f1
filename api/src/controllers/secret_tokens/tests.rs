//! Secrets that keep tokens, through the pipeline on one state machine in memory.

use std::convert::Infallible;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use orch_schema::json;
use tokio::sync::watch;

use super::*;
use crate::authn::Moment;
use crate::authn::service_account::ServiceAccounts;
use crate::authn::service_account::testing::{accounts, elliptic};
use crate::controllers::testing::{Fixture, pod};
use crate::error::ApiError;
use crate::exchange::Exchange;

const TYPE: &str = "orch.io/service-account-token";

/// A server that makes tokens, with the namespace `n` and the account `robot` in it.
async fn with_account() -> (Fixture, Arc<ServiceAccounts>) {
    let tokens = Arc::new(accounts(elliptic()));
    let fixture = Fixture::with_service_accounts(tokens.clone());
    fixture.namespace("n").await;
    fixture.create(ACCOUNTS, "n", json!({"metadata": {"name": "robot"}})).await;
    (fixture, tokens)
}

fn secret(name: &str, account: &str) -> Value {
    let annotations = json!({"orch.io/service-account.name": account});
    json!({"metadata": {"name": name, "annotations": annotations}, "type": TYPE})
}

/// Runs a loop of `fixture` for a second.
async fn run(fixture: &Fixture, work: impl Future<Output = Result<Infallible, ApiError>>) {
    fixture.while_running(work, 1).await;
}

fn datum(fixture: &Fixture, path: &str, key: &str) -> String {
    let decoded = BASE64_STANDARD.decode(fixture.read(SECRETS, path)["data"].text(key)).unwrap();
    String::from_utf8(decoded).unwrap()
}

fn user_of(fixture: &Fixture, tokens: &ServiceAccounts, token: &str) -> String {
    let (applied, exchange) = (fixture.applied(), Exchange::internal());
    let now = crate::ambient::Timestamp(fixture.now_ms() * 1000);
    let at = Moment { applied: &applied, now, remarks: &exchange };
    match tokens.user(token.as_bytes(), at) {
        Ok(user) => user.map(|user| user.name.clone()).unwrap_or_default(),
        Err(fault) => fault.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_filled_with_a_token_that_is_accepted() {
    let (fixture, tokens) = with_account().await;
    let (authority, authorities) = watch::channel("first".to_owned());
    fixture.create(SECRETS, "n", secret("s", "robot")).await;
    fixture.create(SECRETS, "n", json!({"metadata": {"name": "other"}})).await;
    let client = fixture.client();
    let steps = async {
        let settled = || tokio::time::sleep(Duration::from_secs(1));
        settled().await;
        let token = datum(&fixture, "n/s", "token");
        assert_eq!(user_of(&fixture, &tokens, &token), "system:serviceaccount:n:robot");
        assert_eq!(["ca.crt", "namespace"].map(|key| datum(&fixture, "n/s", key)), ["first", "n"]);
        let uid = fixture.read(ACCOUNTS, "n/robot")["metadata"]["uid"].clone();
        let annotations = fixture.read(SECRETS, "n/s")["metadata"]["annotations"].clone();
        assert_eq!(annotations["orch.io/service-account.uid"], uid);
        assert!(!fixture.read(SECRETS, "n/other").has("data"));
        let before = fixture.state().applied();
        settled().await;
        assert_eq!(fixture.state().applied(), before, "nothing is written without need");
        authority.send("second".to_owned()).unwrap();
        settled().await;
        assert_eq!(datum(&fixture, "n/s", "ca.crt"), "second");
        assert_eq!(datum(&fixture, "n/s", "token"), token, "it keeps its token");
        fixture.merge(SECRETS, "n/s", json!({"data": {"token": null}})).await;
        settled().await;
        assert_ne!(datum(&fixture, "n/s", "token"), token, "a new one");
        assert_eq!(user_of(&fixture, &tokens, &token), "the token does not match the server's copy");
    };
    fixture.beside(fill(&client, Some(authorities)), steps).await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_goes_with_its_account() {
    let (fixture, _) = with_account().await;
    let client = fixture.client();
    fixture.create(ACCOUNTS, "n", json!({"metadata": {"name": "second"}})).await;
    for (name, account) in [("s", "robot"), ("t", "second"), ("stray", "nobody")] {
        fixture.create(SECRETS, "n", secret(name, account)).await;
    }
    run(&fixture, fill(&client, None)).await;
    assert!(!fixture.exists(SECRETS, "n/stray"), "its account does not exist");
    assert!(!fixture.read(SECRETS, "n/s")["data"].has("ca.crt"), "none is published");
    fixture.delete(ACCOUNTS, "n/robot", json!({})).await;
    fixture.create(ACCOUNTS, "n", json!({"metadata": {"name": "robot"}})).await;
    run(&fixture, fill(&client, None)).await;
    assert_eq!((fixture.exists(SECRETS, "n/s"), fixture.exists(SECRETS, "n/t")), (false, true));
}

#[tokio::test(start_paused = true)]
async fn an_account_no_longer_lists_a_secret_that_is_gone() {
    let (fixture, _) = with_account().await;
    fixture.create(SECRETS, "n", secret("s", "robot")).await;
    fixture.merge(ACCOUNTS, "n/robot", json!({"secrets": [{"name": "s"}, {"name": "mine"}]})).await;
    let client = fixture.client();
    let steps = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.delete(SECRETS, "n/s", json!({})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    fixture.beside(fill(&client, None), steps).await;
    assert_eq!(fixture.read(ACCOUNTS, "n/robot")["secrets"], json!([{"name": "mine"}]));
}

#[tokio::test(start_paused = true)]
async fn the_day_of_a_use_is_recorded() {
    let (fixture, tokens) = with_account().await;
    fixture.create(SECRETS, "n", secret("s", "robot")).await;
    let client = fixture.client();
    run(&fixture, fill(&client, None)).await;
    let token = datum(&fixture, "n/s", "token");
    let label = || {
        fixture.read(SECRETS, "n/s")["metadata"]["labels"].text("orch.io/legacy-token-last-used").to_owned()
    };
    for expected in ["2026-01-02", "2026-01-03"] {
        user_of(&fixture, &tokens, &token);
        run(&fixture, track(&client)).await;
        assert_eq!(label(), expected);
        let before = fixture.state().applied();
        user_of(&fixture, &tokens, &token);
        run(&fixture, track(&client)).await;
        assert_eq!(fixture.state().applied(), before, "once a day");
        fixture.advance(Duration::from_secs(24 * 3600));
    }
}

#[tokio::test(start_paused = true)]
async fn generated_tokens_that_nothing_uses_are_refused_after_a_year_and_deleted_after_two() {
    let (fixture, tokens) = with_account().await;
    fixture.namespace("orch-system").await;
    for name in ["listed", "mounted", "by-hand"] {
        fixture.create(SECRETS, "n", secret(name, "robot")).await;
    }
    let listed = json!({"secrets": [{"name": "listed"}, {"name": "mounted"}]});
    fixture.merge(ACCOUNTS, "n/robot", listed).await;
    let mut mounting = pod("p");
    mounting["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "mounted"}}]);
    fixture.create("pods", "n", mounting).await;
    let client = fixture.client();
    run(&fixture, fill(&client, None)).await;
    let token = datum(&fixture, "n/listed", "token");
    let year = Duration::from_secs(366 * 24 * 3600);
    let marks = || {
        ["listed", "mounted", "by-hand"].map(|name| {
            let secret = fixture.read(SECRETS, &format!("n/{name}"));
            secret["metadata"]["labels"].text("orch.io/legacy-token-invalid-since").to_owned()
        })
    };
    fixture.advance(year);
    run(&fixture, clean(&client)).await;
    assert_eq!(marks(), ["", "", ""], "nothing tells how long uses have been tracked");
    let name = "orch-apiserver-legacy-service-account-token-tracking";
    let tracking = json!({"metadata": {"name": name}, "data": {"since": "2026-01-01"}});
    fixture.create("configmaps", "orch-system", tracking).await;
    run(&fixture, clean(&client)).await;
    assert_eq!(marks(), ["2027-01-03", "", ""]);
    assert!(user_of(&fixture, &tokens, &token).contains("has been marked invalid"));
    fixture.advance(year);
    run(&fixture, clean(&client)).await;
    assert!(!fixture.exists(SECRETS, "n/listed"));
    assert!(fixture.exists(SECRETS, "n/mounted") && fixture.exists(SECRETS, "n/by-hand"));
}
