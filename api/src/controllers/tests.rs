//! All loops together, as a node runs them.

use std::sync::atomic::{AtomicBool, Ordering};

use orch_schema::json;

use super::testing::Fixture;
use super::*;
use crate::testing::{ProposalOutcome, ScriptedStore};

#[tokio::test(start_paused = true)]
async fn only_the_leader_acts_and_a_new_one_takes_up_the_work() {
    let fixture = Fixture::new();
    let leads = Arc::new(AtomicBool::new(false));
    let store = ScriptedStore {
        below: fixture.store().clone(),
        leads: leads.clone(),
        fate: ProposalOutcome::Applied,
        lag: Arc::default(),
    };
    let running = run(fixture.pipeline_over(store), Options::default(), std::future::pending());
    let steps = async {
        let settled = || fixture.store().sleep(Duration::from_secs(5));
        fixture.namespace("n").await;
        fixture.create("configmaps", "n", json!({"metadata": {"name": "c"}})).await;
        fixture.delete("namespaces", "n", json!({})).await;
        let before = fixture.state().applied();
        settled().await;
        assert_eq!(fixture.state().applied(), before, "a follower does nothing");
        leads.store(true, Ordering::Relaxed);
        settled().await;
        assert!(fixture.exists("namespaces", "default") && !fixture.exists("namespaces", "n"));
        leads.store(false, Ordering::Relaxed);
        settled().await;
        fixture.remove_by_force("namespaces", "default").await;
        let before = fixture.state().applied();
        settled().await;
        assert_eq!(fixture.state().applied(), before, "nor does one that led");
        leads.store(true, Ordering::Relaxed);
        settled().await;
        assert!(fixture.exists("namespaces", "default"));
    };
    fixture.beside(running, steps).await;
}

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
