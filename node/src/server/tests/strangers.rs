//! Limits of strangers, and of users against each other.

use super::*;

/// A request authenticated as `user`.
fn of(user: &str, uri: &str) -> Request<Empty<Bytes>> {
    let mut request = request(uri);
    request.headers_mut().insert("user", user.parse().unwrap());
    request
}

#[tokio::test]
async fn a_user_who_takes_all_places_keeps_no_other_out() {
    let fixture = start_with(|server| server.places = places::Places::new(4));
    let mut greedy = Vec::new();
    for _ in 0..4 {
        let mut sender = fixture.one(None).await;
        assert_eq!(text(sender.send_request(of("greedy", "/")).await.unwrap()).await, "none false");
        greedy.push(sender);
    }
    let mut modest = tokio::time::timeout(PATIENCE, fixture.one(None)).await.expect("there is a place");
    assert_eq!(text(modest.send_request(of("modest", "/")).await.unwrap()).await, "none false");
    for _ in 0..10 {
        let mut sender = fixture.one(None).await;
        assert_eq!(text(sender.send_request(of("greedy", "/")).await.unwrap()).await, "none false");
        greedy.push(sender);
    }
    assert_eq!(text(modest.send_request(of("modest", "/")).await.unwrap()).await, "none false");
}

#[tokio::test]
async fn headers_of_strangers_are_small_and_those_of_certified_clients_large() {
    let fixture = start();
    let admin = fixture.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
    let with_headers = |uri: &str, count: usize| {
        let mut request = request(uri);
        let name = http::HeaderName::from_static("a");
        for _ in 0..count {
            request.headers_mut().append(&name, "b".parse().unwrap());
        }
        request
    };
    // Each field counts for 34 bytes; HPACK sends every repetition as one byte.
    for (certificate, count, code) in [
        (None, 1_000, StatusCode::OK),
        (None, 3_000, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        (Some(&admin), 3_000, StatusCode::OK),
    ] {
        let mut sender = fixture.two(certificate).await;
        let response = sender.send_request(with_headers("https://localhost/", count)).await.unwrap();
        assert_eq!(response.status(), code, "{count} fields, certified: {}", certificate.is_some());
    }
    for (certificate, code) in
        [(None, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), (Some(&admin), StatusCode::OK)]
    {
        let mut request = request("/");
        request.headers_mut().insert("a", "b".repeat(100 << 10).parse().unwrap());
        let response = fixture.one(certificate).await.send_request(request).await.unwrap();
        assert_eq!(response.status(), code, "certified: {}", certificate.is_some());
    }
}

#[tokio::test]
async fn a_stranger_has_few_requests_under_way_and_a_client_with_a_token_many() {
    let fixture = start();
    let slow = "https://localhost/slow";
    let mut stranger = fixture.two(None).await;
    let mut hanging = Vec::new();
    for _ in 0..limits::STRANGER_REQUESTS_MAX {
        hanging.push(tokio::spawn(stranger.send_request(request(slow))));
        fixture.meeting.arrived.notified().await;
    }
    let refused = stranger.send_request(request(slow)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let mut known = fixture.two(None).await;
    for _ in 0..3 * limits::STRANGER_REQUESTS_MAX {
        hanging.push(tokio::spawn(known.send_request(of("u", slow))));
        fixture.meeting.arrived.notified().await;
    }
    assert_eq!(text(known.send_request(request("https://localhost/")).await.unwrap()).await, "none false");
    // The accepted requests end well; then the stranger may send more.
    while !hanging.iter().all(tokio::task::JoinHandle::is_finished) {
        fixture.meeting.go_on.notify_waiters();
        tokio::task::yield_now().await;
    }
    assert_eq!(text(stranger.send_request(request("https://localhost/")).await.unwrap()).await, "none false");
}

#[tokio::test]
async fn streams_that_end_before_they_began_give_their_places_back() {
    let fixture = start_with(|server| server.places = places::Places::new(4));
    // HEADERS of a GET, and of a CONNECT with a body, at which the connection ends in the poll that read both.
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend(b"\0\0\x0e\x01\x05\0\0\0\x01\x82\x87\x84\x41\x09localhost");
    bytes.extend(b"\0\0\x17\x01\x04\0\0\0\x03\x42\x07CONNECT\x41\x09localhost\x5c\x01\x35");
    for _ in 0..8 {
        let connected = tokio::time::timeout(PATIENCE, fixture.connect(None, b"h2"));
        let mut stream = connected.await.expect("there is a place");
        stream.write_all(&bytes).await.unwrap();
        // The end comes with or without a word of TLS.
        drop(tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("it ends"));
    }
    let mut sender = tokio::time::timeout(PATIENCE, fixture.one(None)).await.expect("there is a place");
    assert_eq!(text(sender.send_request(request("/")).await.unwrap()).await, "none false");
}

#[tokio::test]
async fn a_request_names_one_host() {
    let fixture = start();
    for (hosts, code) in [
        ("host: localhost\r\n", "200"),
        ("", "400"),
        ("host: localhost\r\nhost: localhost\r\n", "400"),
        ("host: localhost\r\nhost: 127.0.0.1\r\n", "400"),
        ("host: local/host\r\n", "400"),
        ("host: user@localhost\r\n", "400"),
    ] {
        let mut stream = TcpStream::connect(fixture.plain).await.unwrap();
        let head = format!("GET / HTTP/1.1\r\nconnection: close\r\n{hosts}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{hosts:?}: {answer}");
    }
}

#[tokio::test]
async fn a_long_chain_of_certificates_is_refused_in_the_handshake() {
    let fixture = start();
    let mut admin = fixture.authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
    let one = admin.certificate.clone();
    admin.certificate = one.repeat(4);
    assert_eq!(fixture.ask(Some(&admin), b"http/1.1").await, "system:admin false");
    admin.certificate = one.repeat(5);
    // In TLS 1.3 the client's handshake ends before the server reads the chain.
    let mut stream = fixture.connect(Some(&admin), b"http/1.1").await;
    let refused = stream.read(&mut [0; 1]).await.unwrap_err().to_string();
    assert!(refused.contains("alert"), "{refused}");
}
