//! Logs, streams and proxies through a real node to a pretend kubelet and a pretend pod.

mod channels;
mod forwarding;
pub(crate) mod pretend;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use orch_cluster_tests::client::{Client, Stream};
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use pretend::Pretend;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// How long anything may take that is to happen at once: far more than it does, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster that reaches `kubelet`, with the node `n` and the pod `p` on it.
async fn cluster(kubelet: &Pretend, more: &[String]) -> Cluster {
    let flags = [kubelet.flags(), more.to_vec()].concat();
    let cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let admin = cluster.client(0).unwrap();
    kubelet.register(&admin, "n").await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    admin.post(PODS, &pod).await.unwrap().success().unwrap();
    cluster
}

fn loopback() -> String {
    "--proxy-local-addresses=127.0.0.0/8".to_owned()
}

fn message(answer: &orch_cluster_tests::client::Response) -> (u16, String) {
    let status: Value = answer.json().unwrap_or_default();
    (answer.status, status["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_read_from_the_kubelet_and_followed_line_by_line() {
    let kubelet = Pretend::kubelet().await;
    let cluster = cluster(&kubelet, &[loopback()]).await;
    let admin = cluster.client(0).unwrap();
    let log = format!("{PODS}/p/log");
    let answer = admin.get(&format!("{log}?tailLines=2&timestamps=true")).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"one\ntwo\n"[..]));
    assert_eq!(answer.headers["content-type"], "text/plain");
    assert!(!answer.headers.contains_key("x-own"), "{:?}", answer.headers);
    let heads = kubelet.take_heads();
    assert!(
        heads[0].starts_with("get /containerlogs/default/p/c?taillines=2&timestamps=true http/1.1"),
        "{heads:?}"
    );
    assert!(!heads[0].contains("authorization"), "{heads:?}");

    let (_connection, mut followed) =
        admin.start(Method::GET, &format!("{log}?follow=true"), &[], Bytes::new()).await.unwrap();
    for number in 0..3 {
        let frame = tokio::time::timeout(PATIENCE, followed.body_mut().frame()).await.unwrap();
        let line = frame.unwrap().unwrap().into_data().unwrap();
        assert_eq!(line, format!("line {number}\n"), "each line comes by itself");
        kubelet.say_more();
    }
    drop(followed);

    let refused = admin.get(&format!("{log}?previous=true")).await.unwrap();
    assert_eq!(message(&refused), (400, "there is no run before this one".to_owned()));
    let (code, text) = message(&admin.get(&format!("{log}?sinceSeconds=302")).await.unwrap());
    assert!(code == 500 && text.ends_with(": redirects forbidden"), "{code} {text}");
    let (code, text) = message(&admin.get(&format!("{log}?tailLines=-1")).await.unwrap());
    assert_eq!(code, 422, "{text}");
}

/// The bytes of a connection after `request` was sent on it.
async fn opened(cluster: &Cluster, request: &str) -> Box<dyn Stream> {
    let (endpoint, access) = cluster.doors().remove(0);
    let mut stream = endpoint.connect(&access).await.unwrap();
    let (line, headers) = request.split_once('\n').unwrap_or((request, ""));
    let headers = headers.replace('\n', "\r\n");
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n{headers}\r\n\r\n",
        endpoint.authority()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Reads until `stream` has shown `end`.
async fn read_until(stream: &mut dyn Stream, end: &str) -> String {
    let mut seen = Vec::new();
    let reading = async {
        while !seen.ends_with(end.as_bytes()) {
            seen.push(stream.read_u8().await.unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no {end:?}"));
    String::from_utf8(seen).unwrap()
}

/// Everything until the connection ends.
async fn read_all(stream: &mut dyn Stream) -> String {
    let mut seen = Vec::new();
    // An end without a farewell of TLS is an end, too.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut seen)).await.unwrap();
    String::from_utf8(seen).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_leave_http_for_the_kubelet_and_carry_bytes_both_ways() {
    let kubelet = Pretend::kubelet().await;
    let cluster = cluster(&kubelet, &[loopback()]).await;
    for (request, path) in [
        (format!("POST {PODS}/p/exec?command=ls&stdin=true"), "post /exec/default/p/c?command=ls&input=1"),
        (format!("GET {PODS}/p/exec?command=ls&stdout=1"), "get /exec/default/p/c?command=ls&output=1"),
        (format!("POST {PODS}/p/portforward?ports=80"), "post /portforward/default/p?port=80"),
        ("GET /api/v1/nodes/n/proxy/tunnel?a=b".to_owned(), "get /tunnel?a=b"),
    ] {
        let upgrade = "Connection: Upgrade\nUpgrade: SPDY/3.1\nX-Stream-Protocol-Version: v4.channel.example";
        let mut stream = opened(&cluster, &format!("{request}\n{upgrade}\nImpersonate-Nothing: ")).await;
        let refused = read_until(&mut *stream, "\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("connection: close"), "{refused}");
        let mut stream = opened(&cluster, &format!("{request}\n{upgrade}")).await;
        let head = read_until(&mut *stream, "\r\n\r\n>").await.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: spdy/3.1"), "{head}");
        let said = "hello, ".repeat(20_000);
        let (mut from, mut to) = tokio::io::split(stream);
        let writing = async {
            to.write_all(said.as_bytes()).await.unwrap();
            to.shutdown().await.unwrap();
        };
        let mut heard = String::new();
        let (read, ()) =
            tokio::join!(tokio::time::timeout(PATIENCE, from.read_to_string(&mut heard)), writing);
        read.unwrap().unwrap();
        assert!(heard == format!("{}<", said.to_ascii_uppercase()), "{} bytes", heard.len());
        let heads = kubelet.take_heads();
        assert_eq!(heads.len(), 1, "{heads:?}");
        assert!(heads[0].starts_with(path), "{heads:?}");
        assert!(heads[0].contains("x-stream-protocol-version: v4.channel.example"), "{heads:?}");
        assert!(!heads[0].contains("authorization") && !heads[0].contains(ADMIN_TOKEN), "{heads:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_the_backend_refuses_ends_the_connection() {
    let kubelet = Pretend::kubelet().await;
    let cluster = cluster(&kubelet, &[loopback()]).await;
    let upgrade = "Connection: Upgrade\nUpgrade: websocket";
    let mut stream = opened(&cluster, &format!("POST {PODS}/p/attach\n{upgrade}")).await;
    stream.write_all(b"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let answer = read_all(&mut *stream).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.ends_with("nobody attaches here"), "{answer}");
    let mut stream = opened(&cluster, &format!("GET /api/v1/nodes/n/proxy/unasked\n{upgrade}")).await;
    let answer = read_all(&mut *stream).await;
    assert!(answer.contains("invalid upgrade response: status code 200"), "{answer}");
    let admin = cluster.client(0).unwrap();
    let (code, text) = message(&admin.get(&format!("{PODS}/p/exec?command=ls")).await.unwrap());
    assert_eq!((code, text.as_str()), (400, "Upgrade request required"));
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// Gives the pod the address of `backend` and returns the path of its proxy.
async fn located(admin: &Client, backend: &Pretend) -> String {
    let status = json!({"status": {"podIPs": [{"ip": backend.address.ip().to_string()}]}});
    admin.merge_patch(&format!("{PODS}/p/status"), &status).await.unwrap().success().unwrap();
    format!("{PODS}/http:p:{}/proxy", backend.address.port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_pass_requests_on_and_follow_no_redirect() {
    let (kubelet, backend) = (Pretend::kubelet().await, Pretend::pod().await);
    let cluster = cluster(&kubelet, &[loopback()]).await;
    let admin = cluster.client(0).unwrap();
    let of_pod = located(&admin, &backend).await;
    for (base, pretend) in [(of_pod.as_str(), &backend), ("/api/v1/nodes/n/proxy", &kubelet)] {
        let sent = [("x-mine", "1"), ("content-type", "text/plain"), ("cookie", "own=1")];
        let body = Bytes::from("a body");
        let answer = admin.send(Method::PUT, &format!("{base}/echo/a%20b?q=%2F"), &sent, body).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (201, &b"a body"[..]));
        assert_eq!(
            (header(&answer.headers, "x-own"), header(&answer.headers, "access-control-allow-origin")),
            ("1", "")
        );
        let heads = pretend.take_heads();
        assert!(heads[0].starts_with("put /echo/a%20b?q=%2f http/1.1"), "{heads:?}");
        for (text, is_there) in [
            ("x-mine: 1", true),
            ("cookie: own=1", true),
            (&format!("x-forwarded-uri: {base}/echo/a%20b"), true),
            ("x-forwarded-for: 127.0.0.1", true),
            ("authorization", false),
        ] {
            assert_eq!(heads[0].contains(text), is_there, "{text}: {heads:?}");
        }
        let moved = admin.get(&format!("{base}/moved")).await.unwrap();
        assert_eq!(header(&moved.headers, "location"), format!("{base}/elsewhere/?a=b"));
        let away = admin.get(&format!("{base}/away")).await.unwrap();
        assert_eq!((away.status, header(&away.headers, "location")), (302, "http://192.0.2.1/x"));
        let bare = admin.get(&format!("{base}?a=b")).await.unwrap();
        assert_eq!((bare.status, header(&bare.headers, "location")), (301, format!("{base}/?a=b").as_str()));
        let missing = admin.get(&format!("{base}/../../../secrets")).await.unwrap();
        assert_eq!((missing.status, &missing.body[..]), (404, &b"no such page"[..]));
        assert!(pretend.take_heads().last().unwrap().starts_with("get /secrets http/1.1"));
    }
    let alice = admin.with_token(orch_cluster_tests::cluster::ALICE_TOKEN);
    assert_eq!(alice.get(&format!("{of_pod}/echo")).await.unwrap().status, 403);
    assert!(backend.take_heads().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_this_machine_are_not_dialled_unless_a_flag_allows_them() {
    let (kubelet, backend) = (Pretend::kubelet().await, Pretend::pod().await);
    let cluster = cluster(&kubelet, &[]).await;
    let admin = cluster.client(0).unwrap();
    let of_pod = located(&admin, &backend).await;
    for path in [format!("{PODS}/p/log"), "/api/v1/nodes/n/proxy/x".to_owned(), format!("{of_pod}/x")] {
        let refused = admin.get(&path).await.unwrap();
        assert_eq!(message(&refused), (400, "address not allowed".to_owned()), "{path}");
    }
    let upgrade = "Connection: Upgrade\nUpgrade: SPDY/3.1";
    let mut stream = opened(&cluster, &format!("POST {PODS}/p/exec?command=ls\n{upgrade}")).await;
    let answer = read_all(&mut *stream).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("address not allowed"), "{answer}");
    assert!(kubelet.take_heads().is_empty() && backend.take_heads().is_empty());
}
