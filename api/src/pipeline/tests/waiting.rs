//! Writes with a plugin that waits for another server: how often it is asked, and what is not kept from others meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{join, join_all};
use orch_raft::{Key, Store};

use super::*;
use crate::admission::slow::Slow;
use crate::admission::testing::builtin_with;

const QUOTAS: &str = "/api/v1/namespaces/ns/resourcequotas";

/// A server with the built-in plugins and `slow`.
async fn server_with(slow: &Slow) -> Server {
    let mut server = Server::new().await;
    server.pipeline.admission = builtin_with(Box::new(slow.clone()));
    server
}

/// Once for each of `names`.
fn once<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, usize> {
    names.into_iter().map(|name| (name.to_owned(), 1)).collect()
}

#[tokio::test(start_paused = true)]
async fn creates_under_a_quota_wait_all_at_once_and_are_asked_about_once() {
    let slow = Slow::of("pods");
    let server = server_with(&slow).await;
    let hard = json!({"pods": "20"});
    server.create(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let status = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
    server.merge(&format!("{QUOTAS}/q/status"), status).await.object();
    let names: Vec<String> = (0..64).map(|at| format!("p{at}")).collect();
    let creates = join_all(names.iter().map(|name| server.post(PODS, pod(name))));
    let meanwhile = async {
        slow.until_waiting(64).await;
        server.create(MAPS, map("free")).await;
        slow.answer(64);
    };
    let (replies, ()) = join(creates, meanwhile).await;
    let created = replies.iter().filter(|reply| reply.code == 201).count();
    let refused = replies.iter().filter(|reply| reply.refusal().1.contains("exceeded quota: q")).count();
    assert_eq!((created, refused), (20, 44));
    assert_eq!(server.get(PODS).await.json["items"].as_array().unwrap().len(), 20);
    assert_eq!(server.get(&format!("{QUOTAS}/q")).await.json["status"]["used"], json!({"pods": "20"}));
    let all = once(names.iter().map(String::as_str));
    assert_eq!((slow.asked("mutate"), slow.asked("validate")), (all.clone(), all));
}

#[tokio::test(start_paused = true)]
async fn a_create_that_draws_another_name_is_mutated_once() {
    let slow = Slow::of("configmaps");
    let server = server_with(&slow).await;
    server.repeat_chance();
    slow.answer(2);
    let drawn = json!({"metadata": {"generateName": "m-"}});
    let taken = server.create(MAPS, drawn.clone()).await["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(server.post(MAPS, drawn).await.code, 409, "every name that it draws is taken");
    assert_eq!(slow.asked("mutate"), [("m-".to_owned(), 2)].into());
    assert_eq!(slow.asked("validate"), [(taken, 1 + 8)].into(), "each name makes another document");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_asked_about_again_only_if_its_object_has_changed() {
    let slow = Slow::of("configmaps");
    let server = server_with(&slow).await;
    slow.answer(1);
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let (patch, other) = (json!({"data": {"k": "w"}}), json!({"metadata": {"labels": {"l": "v"}}}));
    let secrets = "/api/v1/namespaces/ns/secrets";
    let meanwhile = async {
        slow.until_waiting(1).await;
        server.create(secrets, json!({"metadata": {"name": "s"}})).await;
        slow.answer(1);
    };
    let (changed, ()) = join(server.merge(&path, patch), meanwhile).await;
    assert_eq!(changed.object()["data"]["k"], "w");
    assert_eq!(slow.asked("mutate"), [("a".to_owned(), 2)].into(), "another object is none of its business");
    // Two changes of one object: one is stored first, and the other one is judged on top of it.
    let both = join(server.merge(&path, json!({"data": {"k": "x"}})), server.merge(&path, other));
    let meanwhile = async {
        slow.until_waiting(2).await;
        slow.answer(3);
    };
    let (both, ()) = join(both, meanwhile).await;
    assert_eq!((both.0.code, both.1.code), (200, 200));
    let stored = server.get(&path).await.json;
    assert_eq!((&stored["data"]["k"], &stored["metadata"]["labels"]["l"]), (&json!("x"), &json!("v")));
    assert_eq!(slow.asked("mutate"), [("a".to_owned(), 5)].into());
    // A change that nothing will be made of is asked about once, too.
    slow.answer(2);
    assert_eq!(server.merge(&path, json!({"data": {"k": "x"}})).await.code, 200);
    assert_eq!(server.merge(&path, json!({"metadata": {"labels": {"_": "v"}}})).await.code, 422);
    assert_eq!(slow.asked("mutate"), [("a".to_owned(), 7)].into());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_waits_has_no_turn() {
    let slow = Slow::of("configmaps");
    let server = server_with(&slow).await;
    slow.answer(1);
    server.create(MAPS, map("a")).await;
    let (path, key) = (format!("{MAPS}/a"), Key::new(&"configmaps".into(), "ns", "a").unwrap());
    let change = server.merge(&path, json!({"data": {"k": "w"}}));
    let meanwhile = async {
        // The queue is there, so that the change takes a turn in it.
        let turn = server.pipeline.turns.take(&key, &server.pipeline.store).await;
        tokio::task::yield_now().await;
        drop(turn);
        slow.until_waiting(1).await;
        let free = server.pipeline.turns.take(&key, &server.pipeline.store);
        drop(tokio::time::timeout(Duration::from_secs(5), free).await.expect("the turn is free"));
        slow.answer(1);
    };
    let ((), changed) = join(meanwhile, change).await;
    assert_eq!(changed.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_asked_about_once() {
    let slow = Slow::of("pods");
    let server = server_with(&slow).await;
    slow.answer(1);
    server.create(PODS, pod("p")).await;
    let meanwhile = async {
        slow.until_waiting(1).await;
        server.create(MAPS, map("other")).await;
        slow.answer(1);
    };
    let (deleted, ()) =
        join(server.delete(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})), meanwhile).await;
    assert_eq!(deleted.code, 200, "{}", deleted.json);
    assert_eq!(slow.asked("validate"), [("p".to_owned(), 1 + 1)].into(), "one create and one deletion");
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_returned_without_another_look() {
    let slow = Slow::refusing("configmaps");
    let server = server_with(&slow).await;
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "s"}})).await;
    let barriers = || server.pipeline.store.lag.barriers.load(Ordering::Relaxed);
    let before = barriers();
    slow.answer(1);
    assert_eq!(server.post(MAPS, map("a")).await.refusal(), (400, "the other server says no"));
    assert_eq!(slow.asked("mutate"), [("a".to_owned(), 1)].into());
    assert_eq!(barriers(), before);
    assert_eq!(server.pipeline.store.state().collection("configmaps").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_200_ms_bounds_creates_by_nothing_but_its_time() {
    const CLIENTS: usize = 64;
    const ROUNDS: usize = 10;
    const QUOTA: usize = 600;
    const HOOK: Duration = Duration::from_millis(200);
    let slow = Slow::taking("pods", HOOK);
    let server = server_with(&slow).await;
    // On the leader, the turns of a quota have gaps for the other nodes.
    server.pipeline.store.leads.store(false, Ordering::Relaxed);
    for at in 0..10_000 {
        server.create(MAPS, map(&format!("m{at}"))).await;
    }
    let hard = json!({"pods": QUOTA.to_string()});
    server.create(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let status = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
    server.merge(&format!("{QUOTAS}/q/status"), status).await.object();
    let began = tokio::time::Instant::now();
    let client = |of: usize| {
        let server = &server;
        async move {
            let mut codes = Vec::new();
            for at in 0..ROUNDS {
                codes.push(server.post(PODS, pod(&format!("p{of}-{at}"))).await.code);
            }
            codes
        }
    };
    let reader = async {
        // In the middle of each round, while all creates wait.
        tokio::time::sleep(HOOK / 2).await;
        for _ in 0..ROUNDS {
            let asked = tokio::time::Instant::now();
            assert_eq!(server.get(MAPS).await.json["items"].as_array().unwrap().len(), 10_000);
            assert_eq!(asked.elapsed(), Duration::ZERO, "a list waits for no hook");
            tokio::time::sleep(HOOK).await;
        }
    };
    let clients = join_all((0..CLIENTS).map(client));
    let (codes, ()) = join(async { (clients.await, began.elapsed()) }, reader).await;
    let (codes, elapsed) = codes;
    assert_eq!(elapsed, HOOK * u32::try_from(ROUNDS).unwrap(), "64 pods in each 200 ms");
    let codes: Vec<u16> = codes.into_iter().flatten().collect();
    let count = |code: u16| codes.iter().filter(|found| **found == code).count();
    assert_eq!((count(201), count(403)), (QUOTA, CLIENTS * ROUNDS - QUOTA));
    assert_eq!(server.get(PODS).await.json["items"].as_array().unwrap().len(), QUOTA);
    let used = server.get(&format!("{QUOTAS}/q")).await.json["status"]["used"].clone();
    assert_eq!(used, json!({"pods": QUOTA.to_string()}));
    let asked: Vec<usize> = slow.asked("mutate").into_values().collect();
    assert_eq!(asked, [1; CLIENTS * ROUNDS], "once a pod");
}

#[tokio::test(start_paused = true)]
async fn an_overtaken_change_that_will_wait_again_waits_for_no_turn() {
    let slow = Slow::of("configmaps");
    let server = server_with(&slow).await;
    slow.answer(1);
    server.create(MAPS, map("a")).await;
    let (path, key) = (format!("{MAPS}/a"), Key::new(&"configmaps".into(), "ns", "a").unwrap());
    let change = |value: &str| server.merge(&path, json!({"data": {"k": value}}));
    let both = join(change("x"), change("y"));
    let meanwhile = async {
        slow.until_waiting(2).await;
        let turn = server.pipeline.turns.take(&key, &server.pipeline.store).await;
        slow.answer(2);
        tokio::task::yield_now().await;
        // One is stored, the other one is asked about again, though the turn is taken.
        slow.until_waiting(1).await;
        slow.answer(1);
        turn
    };
    let all = tokio::time::timeout(Duration::from_secs(30), join(both, meanwhile)).await;
    let ((first, second), turn) = all.expect("nobody waits for the turn");
    assert_eq!((first.code, second.code), (200, 200));
    drop(turn);
}
