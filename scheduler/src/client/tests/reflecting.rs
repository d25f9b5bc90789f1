//! The reflector: whatever fails, the receiver ends up knowing what is stored.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;

use crate::api::core::v1::Pod;
use crate::client::testing::{FakeApi, Fault, PATIENCE, pod};
use crate::client::{Change, Client, Config, ContentType, ListQuery, Object, Reflector, Relist};

/// What a receiver knows, by name and version.
struct Mirror {
    changes: mpsc::Receiver<Change<Pod>>,
    known: BTreeMap<String, String>,
    synced: usize,
    upserts: usize,
    // The request that the last list answers.
    answers: u64,
    relist: std::sync::Arc<Relist>,
}

impl Mirror {
    fn of(client: Client) -> Self {
        let (sender, changes) = mpsc::channel(8);
        let query = ListQuery::by_field("status.phase!=Failed");
        let reflector = Reflector::<Pod>::new(client, query);
        let relist = reflector.relist();
        tokio::spawn(reflector.run(sender, |change| change));
        Self { changes, known: BTreeMap::new(), synced: 0, upserts: 0, answers: 0, relist }
    }

    async fn next(&mut self) {
        let change = tokio::time::timeout(PATIENCE, self.changes.recv()).await.expect("in time");
        match change.expect("the reflector lives") {
            Change::Upsert(object) => {
                let version = object.resource_version().to_owned();
                let before = self.known.insert(object.key().to_string(), version.clone());
                assert_ne!(before, Some(version), "told twice");
                self.upserts += 1;
            }
            Change::Delete(key) => {
                assert!(self.known.remove(&key.to_string()).is_some(), "{key} was never told");
            }
            Change::Synced(answers) => {
                self.synced += 1;
                self.answers = answers;
            }
        }
    }

    async fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !condition(self) {
                self.next().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// Forgets the objects, but not their names.
    fn forget(&mut self) {
        self.known.values_mut().for_each(String::clear);
    }

    /// Until it knows exactly what is stored.
    async fn catch_up(&mut self, api: &FakeApi) {
        let stored: BTreeMap<String, String> = api
            .store()
            .list("pods")
            .1
            .into_iter()
            .filter(|(_, object)| object["status"]["phase"] != "Failed")
            .map(|(place, object)| {
                let version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
                (format!("{}/{}", place.namespace, place.name), version)
            })
            .collect();
        self.until("the receiver knows what is stored", |mirror| mirror.known == stored).await;
    }
}

#[tokio::test]
async fn a_list_is_followed_by_a_watch() {
    for content_type in [ContentType::Protobuf, ContentType::Json] {
        let api = FakeApi::start().await;
        api.store().put("pods", pod("a"));
        api.store().put("pods", pod("b"));
        let mut mirror = Mirror::of(api.client_of(content_type));
        mirror.until("synced", |mirror| mirror.synced == 1).await;
        assert_eq!(mirror.known.len(), 2);
        api.store().put("pods", pod("c"));
        api.store().remove("pods", "default", "a");
        mirror.catch_up(&api).await;
    }
}

#[tokio::test]
async fn a_broken_watch_goes_on_where_it_was_without_a_new_list() {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("a"));
    let mut mirror = Mirror::of(api.client());
    mirror.until("synced", |mirror| mirror.synced == 1).await;
    for name in ["b", "c", "d"] {
        api.store().break_watches();
        api.store().put("pods", pod(name));
        mirror.catch_up(&api).await;
    }
    assert_eq!(mirror.synced, 1);
    assert_eq!(api.count("GET /api/v1/pods?fieldSelector=status.phase%21%3DFailed&limit"), 1);
}

#[tokio::test]
async fn lost_history_leads_to_a_new_list_that_tells_what_is_gone() {
    let api = FakeApi::start().await;
    for name in ["a", "b", "c"] {
        api.store().put("pods", pod(name));
    }
    let mut mirror = Mirror::of(api.client());
    mirror.until("synced", |mirror| mirror.synced == 1).await;
    // The watch is refused until the history is gone.
    api.plant("GET", "/pods", 1, Fault::Status(503, 1));
    api.store().break_watches();
    api.store().remove("pods", "default", "a");
    api.store().put("pods", pod("b"));
    api.store().compact();
    mirror.until("a second list", |mirror| mirror.synced == 2).await;
    mirror.catch_up(&api).await;
    assert!(!mirror.known.contains_key("default/a"));
}

#[tokio::test]
async fn a_server_that_loses_each_lists_version_is_not_asked_for_lists_without_pause() {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("a"));
    api.plant("GET", "watch=true", 3, Fault::Status(410, 0));
    let begin = tokio::time::Instant::now();
    let mut mirror = Mirror::of(api.client());
    mirror.until("the last list", |mirror| mirror.synced == 4).await;
    // A lower bound holds on any machine: pauses of 100, 200 and 400 ms at least.
    assert!(begin.elapsed() >= std::time::Duration::from_millis(700));
    api.store().put("pods", pod("b"));
    mirror.catch_up(&api).await;
}

#[tokio::test]
async fn a_list_that_fails_is_tried_again() {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("a"));
    api.plant("GET", "/pods", 2, Fault::Status(500, 0));
    let mut mirror = Mirror::of(api.client());
    mirror.until("synced", |mirror| mirror.synced == 1).await;
    mirror.catch_up(&api).await;
}

#[tokio::test]
async fn a_kind_that_the_server_does_not_know_has_no_objects() {
    let api = FakeApi::start().await;
    api.plant("GET", "/pods", 1, Fault::Status(404, 0));
    let mut mirror = Mirror::of(api.client());
    mirror.until("synced", |mirror| mirror.synced == 1).await;
    api.store().put("pods", pod("a"));
    mirror.catch_up(&api).await;
}

#[tokio::test]
async fn another_server_takes_over_when_one_dies() {
    let one = FakeApi::start().await;
    let two = one.peer().await;
    one.store().put("pods", pod("a"));
    let mut config = Config::new(vec![one.endpoint(), two.endpoint()]);
    config.qps = -1.0;
    let mut mirror = Mirror::of(Client::new(&config, FakeApi::brand()).unwrap());
    mirror.until("synced", |mirror| mirror.synced == 1).await;
    one.kill();
    two.store().put("pods", pod("b"));
    mirror.catch_up(&two).await;
    assert_eq!(mirror.synced, 1, "the watch went on at the other server");
}

#[tokio::test]
async fn whatever_breaks_the_receiver_ends_up_knowing_what_is_stored() {
    for seed in 0..4 {
        // Each failure in a row doubles the wait before the next attempt.
        let mut faults = 0..2;
        let mut random = StdRng::seed_from_u64(seed);
        let api = FakeApi::start().await;
        let mut mirror = Mirror::of(api.client());
        for _ in 0..60 {
            let name = format!("p{}", random.random_range(0..6));
            match random.random_range(0..12) {
                0 => api.store().break_watches(),
                1 => api.store().compact(),
                2 if faults.next().is_some() => api.plant("GET", "/pods", 1, Fault::LostBefore),
                3 if faults.next().is_some() => api.plant("GET", "/pods", 1, Fault::Status(500, 0)),
                4 | 5 => drop(api.store().remove("pods", "default", &name)),
                6 => {
                    let mut failed = pod(&name);
                    failed["status"]["phase"] = "Failed".into();
                    api.store().put("pods", failed);
                }
                7 => mirror.catch_up(&api).await,
                _ => drop(api.store().put("pods", pod(&name))),
            }
            tokio::task::yield_now().await;
        }
        mirror.catch_up(&api).await;
    }
}

#[tokio::test]
async fn a_reflector_ends_with_its_receiver() {
    let api = FakeApi::start().await;
    let (sender, changes) = mpsc::channel(8);
    let reflector = Reflector::<Pod>::new(api.client(), ListQuery::default());
    let running = tokio::spawn(reflector.run(sender, |change| change));
    drop(changes);
    tokio::time::timeout(PATIENCE, running).await.expect("in time").unwrap();
}

#[tokio::test]
async fn a_new_list_that_is_asked_for_tells_what_the_watch_did_not() {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("a"));
    let mut mirror = Mirror::of(api.client());
    mirror.until("the first list", |mirror| mirror.synced == 1).await;
    assert_eq!(mirror.answers, 0, "nobody asked for it");
    api.plant("GET", "/pods", 1, Fault::Status(500, 0));
    mirror.relist.request(1);
    api.store().put("pods", pod("b"));
    mirror.until("a list after the request", |mirror| mirror.answers == 1).await;
    assert!(mirror.known.contains_key("default/b"));
    mirror.relist.request(2);
    mirror.relist.request(3);
    mirror.until("a list after the last request", |mirror| mirror.answers == 3).await;
    api.store().remove("pods", "default", "a");
    mirror.catch_up(&api).await;
}

#[tokio::test]
async fn a_receiver_that_has_forgotten_is_told_every_object_and_what_is_gone() {
    let api = FakeApi::start().await;
    for name in ["a", "b", "c"] {
        api.store().put("pods", pod(name));
    }
    let mut mirror = Mirror::of(api.client());
    mirror.until("the first list", |mirror| mirror.synced == 1).await;
    // The first list after the request may fail, and an object may go at the same time.
    api.plant("GET", "/pods", 1, Fault::Status(500, 0));
    api.store().break_watches();
    api.store().remove("pods", "default", "b");
    mirror.forget();
    mirror.relist.request_all(1);
    mirror.until("a list after the request", |mirror| mirror.answers == 1).await;
    assert_eq!(mirror.known.len(), 2, "{:?}", mirror.known);
    assert_eq!(mirror.upserts, 5, "three at first, and two again");
    // Later lists tell what is new only, and no object that the watch told.
    mirror.relist.request(2);
    api.store().put("pods", pod("d"));
    mirror.until("a list after that", |mirror| mirror.answers == 2).await;
    mirror.catch_up(&api).await;
    assert_eq!(mirror.upserts, 6);
}
