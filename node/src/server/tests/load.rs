//! Small responses that nobody takes, and small bodies that do not come: many of them, on many connections of a user.

use super::*;
use crate::server::load::Room;

/// Bytes of the server's room.
const ROOM: usize = 16 << 20;

/// Bytes that one user holds at most: a quarter of the room, and on each connection 64 KiB and an item.
const USER_BYTES_MAX: usize = ROOM / 4 + CONNECTIONS * ((64 << 10) + PIECE_BYTES);

/// Connections of the greedy user, and streams of each. All their responses together are four times the room.
const CONNECTIONS: usize = 12;
const STREAMS: usize = 100;

type Sender = http2::SendRequest<Empty<Bytes>>;

/// A client of HTTP/2 over TLS with the certificate of `name`, whose streams have windows of `window` bytes.
async fn client(fixture: &Fixture, name: &str, window: u32) -> Sender {
    let leaf = Leaf { common_name: name.to_owned(), organization: None, ..admin_leaf() };
    let pair = fixture.authority.issue(&leaf, OffsetDateTime::now_utc()).unwrap();
    let stream = TokioIo::new(fixture.connect(Some(&pair), b"h2").await);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder
        .initial_stream_window_size(window)
        .max_send_buf_size(1 << 20)
        .handshake(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Requests `path` on every stream of many connections with windows of `window` bytes, and reads no response. Returns the
/// responses and the number of requests that were refused or whose response was broken off.
async fn hoard(fixture: &Fixture, path: &str, window: u32) -> (Vec<Sender>, Vec<Response<Incoming>>, usize) {
    let (mut senders, mut responses, mut broken_off) = (Vec::new(), Vec::new(), 0);
    for _ in 0..CONNECTIONS {
        let sender = client(fixture, "greedy", window).await;
        let asked = (0..STREAMS).map(|_| {
            let mut sender = sender.clone();
            let request = request(&format!("https://localhost{path}"));
            async move { sender.send_request(request).await.ok() }
        });
        let answered = futures::future::join_all(asked).await;
        broken_off += answered.iter().filter(|response| response.is_none()).count();
        responses.extend(answered.into_iter().flatten());
        senders.push(sender);
    }
    let refused =
        responses.iter().filter(|response| response.status() == StatusCode::TOO_MANY_REQUESTS).count();
    let refused = refused + broken_off;
    (senders, responses, refused)
}

#[tokio::test]
async fn responses_that_nobody_takes_have_a_bound_for_each_user_whatever_their_number_and_size() {
    // Without a window the response stays in its stream; with one of a byte the connection takes it over. The frames of a
    // long response are taken over one by one.
    for (path, window) in [("/piece", 0), ("/piece", 1), ("/pieces", 1), ("/pieces", 1 << 20)] {
        let fixture = start_with(|server| server.room = Room::new(ROOM));
        let hoarded = hoard(&fixture, path, window).await;
        let held = fixture.meeting.held.load(Ordering::Relaxed);
        let refused = hoarded.2;
        assert!(held <= USER_BYTES_MAX, "{path}, window {window}: {held} bytes, {refused} refused");
        assert!(held > ROOM / 8, "{path}, window {window}: {held} bytes are no attack");
        let mut other = client(&fixture, "other", 1 << 20).await;
        for _ in 0..20 {
            let response = other.send_request(request("https://localhost/piece")).await.unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), PIECE_BYTES);
        }
        drop((hoarded, other));
        let gone = async {
            while fixture.server.room.held() + fixture.meeting.held.load(Ordering::Relaxed) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("nothing is left of them");
    }
}

#[tokio::test]
async fn requests_that_wait_for_their_bodies_have_a_bound_for_each_user() {
    let fixture = start_with(|server| server.room = Room::new(ROOM));
    let mut waiting = tokio::task::JoinSet::new();
    let mut senders = Vec::new();
    for _ in 0..CONNECTIONS {
        let sender = client(&fixture, "greedy", 1 << 20).await;
        for _ in 0..STREAMS {
            let mut sender = sender.clone();
            let mut request = request("https://localhost/slow");
            request.headers_mut().insert("large", http::HeaderValue::from_str(&"x".repeat(8 << 10)).unwrap());
            waiting.spawn(async move { sender.send_request(request).await.unwrap().status() });
        }
        senders.push(sender);
    }
    // As many as have no room are refused; the others wait for the test. A request weighs 16 KiB.
    let refused = CONNECTIONS * STREAMS - USER_BYTES_MAX / (16 << 10);
    for _ in 0..refused {
        let status =
            tokio::time::timeout(PATIENCE, waiting.join_next()).await.expect("refused").unwrap().unwrap();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(fixture.server.room.held() <= ROOM / 4);
    let mut other = client(&fixture, "other", 1 << 20).await;
    assert_eq!(other.send_request(request("https://localhost/")).await.unwrap().status(), StatusCode::OK);
}
