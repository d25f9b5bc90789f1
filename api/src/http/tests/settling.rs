//! Requests that wait until a definition is in force: when they are answered, and what they hold meanwhile.

use std::time::Duration;

use futures::future::join;
use futures::poll;

use super::flow::{ANN, with_one_seat_over};
use super::run_time_kinds::{CRDS, Platform, definition};
use super::*;

/// Definitions of each test over time that passes: what is answered too early is seen in one of them.
const ROUNDS: usize = 20;

/// The definition called `things{number}.example.com`, of this kind.
fn thing(number: usize, kind: &str) -> Value {
    let mut made = definition();
    made["metadata"]["name"] = json!(format!("things{number}.example.com"));
    made["spec"]["names"] =
        json!({"plural": format!("things{number}"), "singular": format!("thing{number}"), "kind": kind});
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kind_is_served_as_soon_as_the_repair_of_its_names_is_answered() {
    let platform = Platform::new(|_| {}).await;
    platform.define().await;
    let server = &platform.server;
    for number in 0..ROUNDS {
        server.create(CRDS, thing(number, "Widget")).await;
        let path = format!("/apis/example.com/v1/namespaces/ns/things{number}");
        assert_eq!(server.get(&path).await.code, 404, "the kind is that of widgets");
        let kind = format!("Thing{number}");
        let repaired = json!({"spec": {"names": {"kind": kind, "listKind": format!("{kind}List")}}});
        let answered = server.merge(&format!("{CRDS}/things{number}.example.com"), repaired).await;
        assert_eq!(answered.code, 200, "{}", answered.text);
        let object = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}});
        server.create(&path, object).await;
    }
    server.stopping.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kind_in_force_has_its_new_names_as_soon_as_they_are_answered() {
    let platform = Platform::new(|_| {}).await;
    platform.define().await;
    let server = &platform.server;
    for number in 0..ROUNDS {
        server.create(CRDS, thing(number, &format!("Thing{number}"))).await;
        let path = format!("/apis/example.com/v1/namespaces/ns/things{number}");
        assert_eq!(server.get(&path).await.json()["kind"], format!("Thing{number}List"));
        let renamed = json!({"spec": {"names": {"listKind": format!("ManyThings{number}")}}});
        let answered = server.merge(&format!("{CRDS}/things{number}.example.com"), renamed).await;
        assert_eq!(answered.code, 200, "{}", answered.text);
        assert_eq!(server.get(&path).await.json()["kind"], format!("ManyThings{number}"));
    }
    server.stopping.cancel();
}

/// A server with one seat whose node follows its definitions, and where no loop brings them into force.
async fn with_one_seat_and_no_loop() -> Server {
    let server = with_one_seat_over(true, |server| {
        let pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
        let (pipeline, stopping) = (Arc::new(pipeline), server.stopping.clone());
        let following = pipeline.clone();
        tokio::spawn(async move {
            stopping.run_until_cancelled(following.follow_definitions()).await;
        });
        Api::new(pipeline, server.stopping.clone())
    })
    .await;
    // What was spawned begins.
    tokio::task::yield_now().await;
    server
}

#[tokio::test(start_paused = true)]
async fn requests_for_a_kind_that_does_not_come_wait_once_and_without_a_seat() {
    const GADGETS: &str = "/apis/example.com/v1/namespaces/ns/gadgets";
    let server = with_one_seat_and_no_loop().await;
    let mut gadgets = definition();
    gadgets["metadata"]["name"] = json!("gadgets.example.com");
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget"});
    let began = tokio::time::Instant::now();
    server.create(CRDS, gadgets).await;
    assert_eq!(began.elapsed().as_secs(), 2, "its create waits for the loop");
    let get = |path: &'static str| server.send(Method::GET, path, &ANN, Body::empty());
    let began = tokio::time::Instant::now();
    assert_eq!((get(GADGETS).await.code.as_u16(), began.elapsed()), (404, Duration::ZERO));

    // A newer version is waited for again.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{CRDS}/gadgets.example.com");
    let before = server.store.state().applied();
    let mut changing = Box::pin(server.merge(&path, labelled));
    while server.store.state().applied() == before {
        assert!(poll!(&mut changing).is_pending());
        tokio::task::yield_now().await;
    }
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(get(GADGETS))).collect();
    for _ in 0..100 {
        for request in &mut waiting {
            assert!(poll!(request).is_pending());
        }
        tokio::task::yield_now().await;
    }
    let began = tokio::time::Instant::now();
    let listed = get(MAPS).await;
    assert_eq!((listed.code.as_u16(), began.elapsed()), (200, Duration::ZERO), "{}", listed.text);
    let (changed, refused) = join(changing, futures::future::join_all(waiting)).await;
    assert_eq!(changed.code, 200, "{}", changed.text);
    assert!(refused.iter().all(|answered| answered.code == 404), "{refused:?}");
    let began = tokio::time::Instant::now();
    assert_eq!((get(GADGETS).await.code.as_u16(), began.elapsed()), (404, Duration::ZERO));
    server.stopping.cancel();
}
