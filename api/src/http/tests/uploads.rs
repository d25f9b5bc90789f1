//! Bodies that are too long, too slow, encoded, or sent with `Expect: 100-continue`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use axum::body::Body;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Method;
use tower::ServiceExt;

use super::{MAPS, Ordering, Server, json};

const PIECE: usize = 1 << 16;

/// A body of `pieces` pieces, and a counter of those that were read.
fn counted(pieces: usize) -> (Body, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let pieces = stream::iter(0..pieces).map(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from_static(&[b' '; PIECE]))
    });
    (Body::from_stream(pieces), read)
}

async fn check(
    headers: &[(&str, &str)],
    pieces: usize,
    code: u16,
    expected: std::ops::RangeInclusive<usize>,
) {
    let server = Server::new().await;
    let (body, read) = counted(pieces);
    let answered = server.send(Method::POST, MAPS, headers, body).await;
    assert_eq!(answered.code, code, "{}", answered.text);
    let read = read.load(Ordering::Relaxed);
    assert!(expected.contains(&read), "{headers:?}: {read} pieces were read");
    if code == 413 {
        assert_eq!(answered.headers["connection"], "close");
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_an_unwanted_body_is_read_up_to_a_bound() {
    check(&[], 64, 413, 64..=64).await;
    check(&[("content-length", "4194304")], 64, 413, 64..=64).await;
    check(&[], 4096, 413, 256..=320).await;
    check(&[("content-type", "text/plain")], 40, 415, 40..=40).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_leave_is_answered_at_once() {
    check(&[("content-length", "4194304"), ("expect", "100-continue")], 64, 413, 0..=0).await;
    check(&[("expect", "100-continue")], 64, 413, 64..=64).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_ends_with_its_time() {
    let server = Server::new().await;
    for (path, seconds) in [(MAPS.to_owned(), 60), (format!("{MAPS}?timeout=5s"), 5)] {
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let started = tokio::time::Instant::now();
        let answered = server.send(Method::POST, &path, &[], body).await;
        assert_eq!((answered.code.as_u16(), &answered.json()["reason"]), (504, &json!("Timeout")));
        let message = "Timeout: request did not complete within the allotted timeout: nothing was changed";
        assert_eq!(answered.json()["message"], message);
        assert_eq!(started.elapsed().as_secs(), seconds);
    }
    assert_eq!(server.get(&format!("{MAPS}?timeout=soon")).await.code, 400);
}

/// Records its drop.
struct Kept(Arc<AtomicBool>);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        b"a header's value"
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_rest_of_a_body_drains_nothing_of_its_request_is_kept() {
    let server = Server::new().await;
    let is_dropped = Arc::new(AtomicBool::new(false));
    let kept = Bytes::from_owner(Kept(is_dropped.clone()));
    let seen = Arc::new(AtomicUsize::new(0));
    let (counter, dropped) = (seen.clone(), is_dropped.clone());
    // The server reads three megabytes before it refuses the body.
    let pieces = stream::iter(0..64).map(move |_| {
        counter.fetch_add(usize::from(dropped.load(Ordering::Relaxed)), Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from_static(&[b' '; PIECE]))
    });
    let request = http::Request::builder().method(Method::POST).uri(MAPS).extension(server.peer.clone());
    let mut request = request.body(Body::from_stream(pieces)).unwrap();
    request.headers_mut().insert("a", http::HeaderValue::from_maybe_shared(kept).unwrap());
    assert!(!is_dropped.load(Ordering::Relaxed));
    let response = server.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 413);
    assert!(seen.load(Ordering::Relaxed) > 10, "the headers were kept to the end of the body");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_encoded_is_not_taken_for_one_that_is_not() {
    let server = Server::new().await;
    server.create(MAPS, json!({"metadata": {"name": "a"}})).await;
    let object = format!("{MAPS}/a");
    let patches =
        ["application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"];
    let bodies = ["application/json", "application/yaml", "application/vnd.orch.protobuf"];
    let requests =
        [(Method::POST, MAPS), (Method::PUT, &*object), (Method::DELETE, &*object), (Method::DELETE, MAPS)];
    let plain = requests.iter().flat_map(|(method, path)| bodies.map(|body| (method.clone(), *path, body)));
    let requests = plain.chain(patches.map(|patch| (Method::PATCH, &*object, patch)));
    for (method, path, content_type) in requests {
        for encoding in ["gzip", "identity, GZIP", "br", "x"] {
            let headers = [("content-type", content_type), ("content-encoding", encoding)];
            let answered = server.send(method.clone(), path, &headers, Body::from("{}")).await;
            assert_eq!(answered.code, 415, "{method} {path} {content_type}: {}", answered.text);
            let told = format!("the content encoding \"{encoding}\": bodies are taken without any");
            assert!(answered.json()["message"].as_str().unwrap().ends_with(&told), "{}", answered.text);
        }
    }
    for encoding in ["identity", "", "Identity, identity"] {
        let body = Body::from(json!({"data": {"k": encoding}}).to_string());
        let headers = [("content-type", "application/merge-patch+json"), ("content-encoding", encoding)];
        assert_eq!(server.send(Method::PATCH, &object, &headers, body).await.code, 200, "{encoding}");
    }
    let nothing = [("content-encoding", "gzip")];
    assert_eq!(server.send(Method::GET, &object, &nothing, Body::empty()).await.code, 200);
    assert_eq!(
        server.send(Method::DELETE, &object, &nothing, Body::empty()).await.code,
        200,
        "there is no body"
    );
}
