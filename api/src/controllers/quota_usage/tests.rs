//! The loop over one state machine in memory.

use super::*;
use crate::controllers::testing::{Fixture, pod};
use crate::request::Verb;

const PODS: &str = "pods";

async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.namespace("n").await;
    fixture
}

fn quota(hard: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})
}

impl Fixture {
    fn status(&self) -> Value {
        self.read(QUOTAS, "n/q").at("status").clone()
    }

    /// Lets the loop run until it has nothing to do.
    async fn settle(&self) {
        self.while_running(run(&self.client()), 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_quota_gets_the_usage_of_its_namespace() {
    let fixture = fixture().await;
    for name in ["a", "b"] {
        fixture.create(PODS, "n", pod(name)).await;
    }
    fixture.namespace("other").await;
    fixture.create(PODS, "other", pod("c")).await;
    fixture.create("configmaps", "n", json!({"metadata": {"name": "m"}})).await;
    let hard =
        json!({"pods": "5", "count/configmaps": "5", "secrets": "1", "count/widgets.example.com": "1"});
    fixture.create(QUOTAS, "n", quota(hard.clone())).await;
    fixture.settle().await;
    let status = fixture.status();
    assert!(is_unchanged(&status["hard"], &hard), "{status}");
    assert_eq!(
        amounts(&status, "used")
            .into_iter()
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect::<Vec<_>>(),
        ["count/configmaps=1", "pods=2", "secrets=0",]
    );
}

#[tokio::test(start_paused = true)]
async fn writes_are_charged_from_then_on_and_give_back() {
    let fixture = fixture().await;
    fixture.create(QUOTAS, "n", quota(json!({"pods": "2"}))).await;
    fixture.settle().await;
    let used = || fixture.status()["used"]["pods"].clone();
    assert_eq!(used(), "0");
    fixture.create(PODS, "n", pod("a")).await;
    fixture.create(PODS, "n", pod("b")).await;
    assert_eq!(used(), "2");
    let refused = fixture.send(Verb::Create, PODS, "n/", "application/json", &pod("c")).await;
    assert!(matches!(refused, Err(ApiError::Forbidden { .. })));
    fixture.delete(PODS, "n/a", json!({})).await;
    assert_eq!(used(), "1");
    fixture.create(PODS, "n", pod("c")).await;
    assert_eq!(used(), "2");
}

#[tokio::test(start_paused = true)]
async fn usage_that_differs_is_repaired() {
    let fixture = fixture().await;
    fixture.create(QUOTAS, "n", quota(json!({"pods": "9", "secrets": "9"}))).await;
    fixture.settle().await;
    fixture.create(PODS, "n", pod("a")).await;
    // Behind the back of admission.
    fixture.remove_by_force(PODS, "n/a").await;
    fixture.put_raw("secrets", "n", "s").await;
    assert_eq!(fixture.status()["used"], json!({"pods": "1", "secrets": "0"}));
    let client = fixture.client();
    // The clock of the fixture stands still: the wait is not by the time of day.
    let passed = fixture.store().sleep(VERIFY_WAIT + Duration::from_secs(1));
    fixture.beside(run(&client), passed).await;
    assert_eq!(fixture.status()["used"], json!({"pods": "0", "secrets": "1"}));
}

#[tokio::test(start_paused = true)]
async fn changed_limits_are_counted_and_old_ones_leave_the_status() {
    let fixture = fixture().await;
    fixture.create(QUOTAS, "n", quota(json!({"pods": "9"}))).await;
    fixture.create("configmaps", "n", json!({"metadata": {"name": "m"}})).await;
    fixture.settle().await;
    fixture.merge(QUOTAS, "n/q", json!({"spec": {"hard": {"pods": null, "configmaps": "3"}}})).await;
    fixture.settle().await;
    assert_eq!(fixture.status(), json!({"hard": {"configmaps": "3"}, "used": {"configmaps": "1"}}));
}

#[tokio::test(start_paused = true)]
async fn scopes_choose_what_is_counted() {
    let fixture = fixture().await;
    let mut burstable = pod("b");
    burstable["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m"}});
    fixture.create(PODS, "n", pod("a")).await;
    fixture.create(PODS, "n", burstable).await;
    let mut scoped = quota(json!({"pods": "9", "requests.cpu": "9"}));
    scoped["spec"]["scopes"] = json!(["NotBestEffort"]);
    fixture.create(QUOTAS, "n", scoped).await;
    fixture.settle().await;
    assert_eq!(fixture.status()["used"], json!({"pods": "1", "requests.cpu": "500m"}));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_ends_holds_up_no_other_quota() {
    let fixture = Fixture::hanging();
    for namespace in ["stuck", "n"] {
        fixture.namespace(namespace).await;
        fixture.create(QUOTAS, namespace, quota(json!({"pods": "9"}))).await;
    }
    fixture.settle().await;
    assert_eq!(fixture.status()["used"], json!({"pods": "0"}));
    assert!(!fixture.read(QUOTAS, "stuck/q").at("status").has("used"));
}
