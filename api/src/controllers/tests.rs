//! All loops together, as a node runs them.

use std::sync::atomic::{AtomicBool, Ordering};

use orch_raft::memory::MemoryStore;
use orch_raft::store::{ProposeError, ReadError};
use orch_raft::{Change, Collection, Compacted, Outcome, Revision, State, Subscription, Transaction};
use serde_json::json;

use super::testing::Fixture;
use super::*;

/// A store whose leadership is given and taken by hand.
#[derive(Clone)]
struct Switched {
    below: MemoryStore,
    leads: Arc<AtomicBool>,
}

impl Store for Switched {
    fn state(&self) -> Arc<State> {
        self.below.state()
    }

    fn propose(
        &self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<Outcome, ProposeError>> + Send {
        self.below.propose(transaction)
    }

    fn barrier(&self) -> impl Future<Output = Result<Revision, ReadError>> + Send {
        self.below.barrier()
    }

    fn wait_applied(&self, at_least: Revision, timeout: Duration) -> impl Future<Output = bool> + Send {
        self.below.wait_applied(at_least, timeout)
    }

    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted> {
        self.below.past_changes(resource, after)
    }

    async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        self.below.collection_at(resource, revision).await
    }

    fn subscribe(&self, resource: &Arc<str>) -> Subscription {
        self.below.subscribe(resource)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.below.sleep(duration)
    }

    fn may_serve(&self) -> Result<(), ReadError> {
        self.below.may_serve()
    }

    fn revocations(&self) -> u64 {
        self.below.revocations()
    }

    fn is_short_of_space(&self) -> bool {
        self.below.is_short_of_space()
    }

    fn is_leader(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_acts_and_a_new_one_takes_up_the_work() {
    let fixture = Fixture::new();
    let leads = Arc::new(AtomicBool::new(false));
    let store = Switched { below: fixture.store().clone(), leads: leads.clone() };
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
