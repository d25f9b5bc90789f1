//! Clients that read their responses too slowly, or not at all.

use super::*;

/// Bytes of a stream's window: less than two frames of `/endless`.
const WINDOW: u32 = 20 << 10;

/// HTTP/2's default window of a stream, in bytes.
const DEFAULT_WINDOW: u32 = (64 << 10) - 1;

type Sender = http2::SendRequest<Empty<Bytes>>;

/// The ports that speak HTTP/2. Over TLS, ALPN settles that before the first byte, and frames are gathered.
#[derive(Clone, Copy, Debug)]
enum Over {
    Plain,
    Tls,
}

const EVERY_PORT: [Over; 2] = [Over::Plain, Over::Tls];

/// A client of HTTP/2 whose streams have windows of `window` bytes, and the task of its connection.
async fn client(
    fixture: &Fixture,
    over: Over,
    window: u32,
) -> (Sender, tokio::task::JoinHandle<hyper::Result<()>>) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    match over {
        Over::Plain => {
            let stream = TcpStream::connect(fixture.plain).await.unwrap();
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
            (sender, tokio::spawn(connection))
        }
        Over::Tls => {
            let admin = fixture.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
            let stream = fixture.connect(Some(&admin), b"h2").await;
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
            (sender, tokio::spawn(connection))
        }
    }
}

/// Sends a request with a finite response.
async fn is_answered(sender: &mut Sender) {
    let answer = text(sender.send_request(request("http://localhost/")).await.unwrap()).await;
    assert!(answer.ends_with("true") || answer == "system:admin false", "{answer}");
}

/// Reads frames of `body`, with a pause after each, until reading fails.
async fn read_slowly(mut body: Incoming, pause: std::time::Duration) {
    let reading = async {
        while body.frame().await.expect("an answer without an end does not end").is_ok() {
            tokio::time::sleep(pause).await;
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it is given up");
}

#[tokio::test]
async fn a_small_answer_that_is_not_taken_ends_its_connection() {
    for over in EVERY_PORT {
        let fixture = start_with(|server| server.waits.frame = SHORT);
        let (mut sender, connection) = client(&fixture, over, 1).await;
        // One byte of the response arrives. The rest is ready in the connection, and the stream's task has ended.
        let _unread = sender.send_request(request("http://localhost/")).await.unwrap();
        drop(tokio::time::timeout(PATIENCE, connection).await.expect("the connection ends"));
    }
}

#[tokio::test]
async fn a_stream_without_a_window_is_reset() {
    for over in EVERY_PORT {
        let fixture = start_with(|server| server.waits.frame = SHORT);
        let (mut sender, _connection) = client(&fixture, over, 0).await;
        for path in ["http://localhost/", "http://localhost/watch"] {
            let unread = sender.send_request(request(path)).await.unwrap();
            let ended = tokio::time::timeout(PATIENCE, unread.into_body().collect()).await.expect("it ends");
            assert!(ended.is_err(), "{path} has ended well");
        }
    }
}

#[tokio::test]
async fn a_list_and_initial_events_that_are_taken_slowly_are_given_up_and_a_watch_is_not() {
    for over in EVERY_PORT {
        let fixture = start_with(|server| {
            server.waits.frame = SHORT * 5;
            server.waits.bytes_per_second = 64 << 20;
        });
        let (mut sender, _connection) = client(&fixture, over, WINDOW).await;
        let list = sender.send_request(request("http://localhost/endless")).await.unwrap().into_body();
        let initial =
            sender.send_request(request("http://localhost/watch-of-much")).await.unwrap().into_body();
        let mut watch = sender.send_request(request("http://localhost/watch")).await.unwrap().into_body();
        let watching = tokio::spawn(async move {
            while watch.frame().await.expect("a watch goes on").is_ok() {
                tokio::time::sleep(SHORT / 10).await;
            }
        });
        // Each frame is taken within `frame`; the rate is too low.
        tokio::join!(read_slowly(list, SHORT / 10), read_slowly(initial, SHORT / 10));
        assert!(!watching.is_finished(), "a watch was given up");
        is_answered(&mut sender).await;
    }
}

#[tokio::test]
async fn an_answer_ends_with_its_time_and_a_watch_goes_on() {
    for over in EVERY_PORT {
        let fixture = start_with(|server| server.waits.answer = SHORT);
        let (mut sender, _connection) = client(&fixture, over, WINDOW).await;
        let mut watch = sender.send_request(request("http://localhost/watch")).await.unwrap().into_body();
        let list = sender.send_request(request("http://localhost/endless")).await.unwrap().into_body();
        read_slowly(list, std::time::Duration::ZERO).await;
        for _ in 0..100 {
            watch.frame().await.unwrap().expect("a watch goes on");
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_reset_and_the_others_go_on() {
    for over in EVERY_PORT {
        let fixture = start_with(|server| server.waits.frame = SHORT);
        let (mut sender, _connection) = client(&fixture, over, DEFAULT_WINDOW).await;
        let unread = sender.send_request(request("http://localhost/endless")).await.unwrap();
        let mut read = sender.send_request(request("http://localhost/endless")).await.unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < SHORT * 4 {
            read.frame().await.unwrap().unwrap();
        }
        let ended = tokio::time::timeout(PATIENCE, unread.into_body().collect()).await.expect("it ends");
        assert!(ended.is_err(), "an answer without an end has ended well");
        read.frame().await.unwrap().unwrap();
        drop(read);
        is_answered(&mut sender).await;
    }
}

#[tokio::test]
async fn a_connection_may_wait_between_requests_for_longer_than_for_a_frame() {
    let fixture = start_with(|server| server.waits.frame = SHORT);
    let (mut plain, mut secure) = (fixture.plain().await, fixture.one(None).await);
    for _ in 0..2 {
        for sender in [&mut plain, &mut secure] {
            assert!(text(sender.send_request(request("/")).await.unwrap()).await.starts_with("none"));
        }
        tokio::time::sleep(SHORT * 3).await;
    }
}
