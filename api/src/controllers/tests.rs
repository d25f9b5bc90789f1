//! All loops together, as a node runs them.

use serde_json::json;

use super::testing::Fixture;
use super::*;

#[tokio::test(start_paused = true)]
async fn loops_run_until_they_are_stopped() {
    let fixture = Fixture::new();
    let stopping = tokio::time::sleep(Duration::from_secs(10));
    let steps = async {
        fixture.store().sleep(Duration::from_secs(2)).await;
        fixture.create("namespaces", "", json!({"metadata": {"name": "n"}})).await;
        fixture.delete("namespaces", "n", json!({})).await;
    };
    let ((), ()) = tokio::join!(run(fixture.pipeline(), Options::default(), stopping), steps);
    assert!(fixture.exists("namespaces", "default"));
    assert!(!fixture.exists("namespaces", "n"));
}

#[tokio::test]
async fn loops_can_be_carried_from_thread_to_thread() {
    fn check<T: Send>(_: &T) {}
    let fixture = Fixture::new();
    check(&run(fixture.pipeline(), Options::default(), std::future::ready(())));
}
