//! Heads that two servers on one way could read differently.

use super::*;

/// The status line of the response to a head and body written as they are; empty where the connection was closed.
async fn raw(fixture: &Fixture, request: &str) -> String {
    let mut stream = TcpStream::connect(fixture.plain).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    drop(tokio::time::timeout(PATIENCE, reading).await.expect("it is answered and closed"));
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn heads_that_could_be_read_in_two_ways_are_refused() {
    let fixture = start();
    let head =
        |headers: &str| format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    assert_eq!(
        raw(&fixture, &head("X-Remote-User: ann\r\n")).await,
        "HTTP/1.1 200 OK",
        "the service strips it"
    );
    for (case, headers) in [
        ("a folded header", "X-Remote-User: an\r\n n\r\n"),
        ("a name with a space before the colon", "X-Remote-User : ann\r\n"),
        ("a name with a space in it", "X-Remote User: ann\r\n"),
        ("a name with a NUL", "X-Remote\0User: ann\r\n"),
        ("a value with a NUL", "X-Remote-User: a\0nn\r\n"),
        ("an empty name", ": ann\r\n"),
        ("two different lengths", "Content-Length: 1\r\nContent-Length: 2\r\n"),
        ("a length that is no number", "Content-Length: +1\r\n"),
        ("an encoding of the transfer behind chunks", "Transfer-Encoding: chunked, identity\r\n"),
    ] {
        assert_eq!(raw(&fixture, &head(headers)).await, "HTTP/1.1 400 Bad Request", "{case}");
    }
}
