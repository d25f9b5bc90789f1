//! Tests of the loop and the stored locks against the small API server.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::elector::{ElectionEnd, Elector, Leadership, Turn};
use super::lease::{LeaseLock, Lock, LockError};
use super::machine::{Machine, Timing, Version};
use super::record::{Record, leader_annotation};
use super::{Annotated, AnnotatedLock};
use crate::client::ObjectKey;
use crate::client::testing::{FakeApi, Fault, PATIENCE, eventually};

/// Short, so that take-overs take seconds.
fn timing() -> Timing {
    let millis = Duration::from_millis;
    Timing::new(millis(2_000), millis(1_200), millis(200)).unwrap()
}

struct Contender {
    leadership: Leadership,
    stop: CancellationToken,
    running: JoinHandle<ElectionEnd>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Contender {
    fn start(name: &str, lock: impl Lock + 'static) -> Self {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let (stop, hears) = (CancellationToken::new(), told.clone());
        let announce = move |_, _, message| hears.lock().push(message);
        let machine = Machine::new(name.to_owned(), timing());
        let (elector, leadership) = Elector::new(lock, machine, Box::new(announce));
        Self { leadership, running: tokio::spawn(elector.run(stop.clone())), stop, told }
    }

    fn leads(&self) -> bool {
        self.leadership.holds(Instant::now())
    }

    async fn stop(self) -> ElectionEnd {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.running).await.unwrap().unwrap()
    }
}

fn lease(api: &FakeApi) -> LeaseLock {
    LeaseLock::new(api.client(), ObjectKey::new("default", "lock"))
}

fn holder(api: &FakeApi) -> String {
    let lease = api.store().get("leases", "default", "lock");
    lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned)).unwrap_or_default()
}

#[tokio::test]
async fn a_single_process_leads_and_a_clean_stop_lets_the_next_in() {
    let api = FakeApi::start().await;
    let one = Contender::start("one", lease(&api));
    eventually("the first leads", || one.leads()).await;
    let two = Contender::start("two", lease(&api));
    eventually("the first has renewed", || api.count("PUT") >= 2).await;
    assert!(!two.leads() && holder(&api) == "one");
    let told = one.told.clone();
    assert_eq!(one.stop().await, ElectionEnd::Stopped);
    assert_eq!(*told.lock(), ["one became leader", "one stopped leading"]);
    eventually("the second leads", || two.leads()).await;
    let stored = api.store().get("leases", "default", "lock").unwrap();
    assert_eq!(stored["spec"]["leaseTransitions"], 1, "a release counts as no transition");
    two.stop().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_another_starts() {
    let api = FakeApi::start().await;
    let one = Contender::start("one", lease(&api));
    eventually("the first leads", || one.leads()).await;
    api.plant("PUT", "/leases", usize::MAX, Fault::LostBefore);
    eventually("the first has lost", || !one.leads()).await;
    assert_eq!(holder(&api), "one", "nobody has taken over yet");
    let told = one.told.clone();
    assert_eq!(tokio::time::timeout(PATIENCE, one.running).await.unwrap().unwrap(), ElectionEnd::Lost);
    assert_eq!(told.lock().last().unwrap(), "one stopped leading");
}

#[tokio::test]
async fn a_leader_that_vanishes_is_replaced() {
    let api = FakeApi::start().await;
    let one = Contender::start("one", lease(&api));
    eventually("the first leads", || one.leads()).await;
    one.running.abort();
    let two = Contender::start("two", lease(&api));
    eventually("the second leads", || two.leads()).await;
    assert_eq!(holder(&api), "two");
    two.stop().await;
}

#[tokio::test]
async fn the_other_lock_types_write_both_objects() {
    for (beside, plural) in [(Annotated::Endpoints, "endpoints"), (Annotated::ConfigMap, "configmaps")] {
        let api = FakeApi::start().await;
        let one = Contender::start("one", AnnotatedLock::new(lease(&api), beside));
        let annotation = leader_annotation(FakeApi::brand());
        let record = || {
            let object = api.store().get(plural, "default", "lock")?;
            Record::from_annotation(object["metadata"]["annotations"][&annotation].as_str()?)
        };
        eventually("the annotation names the leader", || {
            record().is_some_and(|record| record.holder == "one")
        })
        .await;
        assert_eq!(holder(&api), "one");
        one.stop().await;
        assert_eq!((record().unwrap().holder.as_str(), holder(&api).as_str()), ("", ""));
    }
}

#[tokio::test]
async fn a_second_object_that_cannot_be_written_does_not_cost_the_lock() {
    let api = FakeApi::start().await;
    api.plant("GET", "/configmaps", usize::MAX, Fault::Status(403, 0));
    let one = Contender::start("one", AnnotatedLock::new(lease(&api), Annotated::ConfigMap));
    eventually("it renews", || api.count("PUT") >= 3).await;
    assert!(one.leads());
    one.stop().await;
}

#[tokio::test]
async fn a_lock_without_its_namespace_is_an_error_and_no_conflict() {
    let api = FakeApi::start().await;
    let record = Record { holder: "one".to_owned(), ..Record::default() };
    api.plant("POST", "/leases", 1, Fault::Status(404, 0));
    let missing = lease(&api).create(&record).await.unwrap_err();
    assert!(matches!(missing, LockError::Client(_)), "{missing:?}");
    // A Lease that was deleted meanwhile is another's doing: the next read finds out.
    api.plant("PUT", "/leases", 1, Fault::Status(404, 0));
    let deleted = lease(&api).update(&Version("1".to_owned()), &record).await.unwrap_err();
    assert!(matches!(deleted, LockError::Conflict), "{deleted:?}");
}

#[tokio::test]
async fn each_change_of_leadership_is_an_event_of_its_own() {
    let api = FakeApi::start().await;
    let told = Arc::<Mutex<Vec<Turn>>>::default();
    let hears = told.clone();
    let announce = move |_, turn, _| hears.lock().push(turn);
    let (elector, mut leadership) =
        Elector::new(lease(&api), Machine::new("one".to_owned(), timing()), Box::new(announce));
    let stop = CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    assert!(leadership.acquired().await);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(*told.lock(), [Turn::Became, Turn::Stopped]);
    assert_ne!(Turn::Became.action(), Turn::Stopped.action());
}

#[tokio::test]
async fn without_an_election_everyone_leads() {
    let mut always = Leadership::always();
    assert!(always.holds(Instant::now()) && always.acquired().await);
}
