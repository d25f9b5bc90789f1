//! Malformed requests: each gets the response recorded from the reference, and the server stays up.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use orch_cluster_tests::client::{Client, Identity};
use orch_cluster_tests::cluster::{Cluster, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::objects::{COLLECTION, config_map, make_namespace};

/// A request and its expected response: status, reason and a part of the message.
struct Case {
    name: &'static str,
    method: Method,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: Vec<u8>,
    want: (u16, &'static str, &'static str),
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const MERGE_PATCH: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
const UNDETERMINED: &str = "undeterminable";

fn post(name: &'static str, body: impl Into<Vec<u8>>, want: (u16, &'static str, &'static str)) -> Case {
    Case { name, method: Method::POST, path: COLLECTION, headers: JSON, body: body.into(), want }
}

fn on(
    name: &'static str,
    method: Method,
    path: &'static str,
    want: (u16, &'static str, &'static str),
) -> Case {
    Case { name, method, path, headers: &[], body: Vec::new(), want }
}

fn bodies() -> Vec<Case> {
    let bad = (400, "BadRequest", "");
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"d"}},"data":{deep}}}"#);
    let long = serde_json::to_vec(&config_map("long", &"x".repeat(4 << 20))).unwrap();
    vec![
        post("malformed JSON", "{not json", bad),
        post("half a document", r#"{"apiVersion":"v1","kind":"#, bad),
        post("no body", "", bad),
        post("an array", "[]", bad),
        post("a string", r#""x""#, bad),
        post("bytes that are no UTF-8", b"{\"kind\":\"\xff\xfe\"}".to_vec(), bad),
        post("200,000 brackets", deep, bad),
        post("a number for a name", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}"#, bad),
        post(
            "a number for data",
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t"},"data":{"a":1}}"#,
            bad,
        ),
        post("another kind", r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"t"}}"#, bad),
        post(
            "no name",
            r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
            (422, "Invalid", "name or generateName is required"),
        ),
        post("a body over the limit", long, (413, "RequestEntityTooLarge", "limit is 3145728")),
        post("a number beyond numbers", r#"{"metadata":{"name":"t","generation":1e999999999}}"#, bad),
        post("a compressed body", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff".to_vec(), bad),
        post("a second document", r#"{"metadata":{"name":"t"}} {}"#, bad),
        Case {
            headers: &[("content-type", "application/yaml")],
            ..post("aliases of aliases", alias_bomb(), (400, "BadRequest", "excessive aliasing"))
        },
        Case {
            headers: &[("content-type", "text/plain")],
            ..post("another media type", "a=b", (415, "UnsupportedMediaType", "unknown format"))
        },
        Case {
            method: Method::PATCH,
            path: "/api/v1/namespaces/faults/configmaps/there",
            headers: MERGE_PATCH,
            ..post("a malformed patch", "{", bad)
        },
        Case {
            method: Method::PATCH,
            path: "/api/v1/namespaces/faults/configmaps/there",
            ..post("a patch of no patch type", "{}", (415, "UnsupportedMediaType", ""))
        },
        Case {
            method: Method::PUT,
            path: "/api/v1/namespaces/faults/configmaps/there",
            ..post("an update without a name", "{}", (400, "BadRequest", UNDETERMINED))
        },
    ]
}

/// A YAML alias bomb of ten levels of nine: three and a half billion values when expanded.
fn alias_bomb() -> String {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text
}

fn requests() -> Vec<Case> {
    let not_found = (404, "NotFound", "the server could not find the requested resource");
    let method = (405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    let bad = (400, "BadRequest", "");
    vec![
        on("an unknown part of a group", Method::GET, "/apis/apps/v1/namespaces/faults/things", not_found),
        on("an unknown resource", Method::GET, "/api/v1/namespaces/faults/things", not_found),
        on("an unknown version", Method::GET, "/api/v9/namespaces", not_found),
        on(
            "a missing object",
            Method::GET,
            "/api/v1/namespaces/faults/configmaps/nope",
            (404, "NotFound", "configmaps \"nope\" not found"),
        ),
        on("a collection of namespaces deleted", Method::DELETE, "/api/v1/namespaces", method),
        Case { method: Method::PUT, ..post("a collection replaced", "{}", method) },
        Case { method: Method::PATCH, headers: MERGE_PATCH, ..post("a collection patched", "{}", method) },
        on("an unknown verb", Method::OPTIONS, COLLECTION, method),
        on("a name that is no segment", Method::GET, "/api/v1/namespaces/faults/configmaps/%2e%2e", bad),
        on("a slash in disguise", Method::GET, "/api/v1/namespaces/faults%2Fx/configmaps", not_found),
        on("a time that is none", Method::GET, "/api/v1/namespaces/faults/configmaps?timeout=soon", bad),
        on("a limit that is no number", Method::GET, "/api/v1/namespaces/faults/configmaps?limit=abc", bad),
        on(
            "a version that is no number",
            Method::GET,
            "/api/v1/namespaces/faults/configmaps?resourceVersion=abc",
            bad,
        ),
        on(
            "a selector that does not parse",
            Method::GET,
            "/api/v1/namespaces/faults/configmaps?labelSelector=%21%21",
            bad,
        ),
        on(
            "a field that cannot be selected",
            Method::GET,
            "/api/v1/namespaces/faults/configmaps?fieldSelector=nope%3Dx",
            bad,
        ),
        on("a token that is none", Method::GET, "/api/v1/namespaces/faults/configmaps?continue=garbage", bad),
        on(
            "a version far ahead",
            Method::GET,
            "/api/v1/namespaces/faults/configmaps?resourceVersion=999999999999",
            (504, "Timeout", "Too large resource version"),
        ),
    ]
}

fn identities() -> Vec<Case> {
    let unauthorized = (401, "Unauthorized", "Unauthorized");
    let with = |name, headers| Case { headers, ..on(name, Method::GET, COLLECTION, unauthorized) };
    vec![
        with("an unknown token", &[("authorization", "Bearer wrong")]),
        with("an empty token", &[("authorization", "Bearer ")]),
        with("another scheme", &[("authorization", "Basic YWRtaW46YWRtaW4=")]),
        with("a token that is a path", &[("authorization", "Bearer ../../etc/passwd")]),
        with("a spoofed user header", &[("authorization", "Bearer wrong"), ("x-remote-user", "admin")]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_gets_the_recorded_answer_and_the_server_stays_up() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    client.post(COLLECTION, &config_map("there", "x")).await.unwrap().success().unwrap();
    let mut wrong = Vec::new();
    for case in bodies().into_iter().chain(requests()).chain(identities()) {
        wrong.extend(check(&client, case).await);
    }
    wrong.extend(certificates(&cluster).await);
    garbage_on_the_wire(&client).await;
    let pids = cluster.pids();
    assert_eq!(pids.len(), 1);
    client.get(&format!("{COLLECTION}/there")).await.unwrap().success().unwrap();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Sends the case and describes the difference of its response, if any.
async fn check(client: &Client, case: Case) -> Option<String> {
    let (code, reason, part) = case.want;
    let name = case.name;
    let answer = client.send(case.method, case.path, case.headers, Bytes::from(case.body)).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Some(format!("{name}: no answer: {error:#}")),
    };
    let Ok(status) = answer.json() else { return Some(format!("{name}: no Status: {answer:?}")) };
    let message = status["message"].as_str().unwrap_or_default();
    let is_right = answer.status == code
        && status["kind"] == "Status"
        && status["status"] == "Failure"
        && status["code"] == code
        && status["reason"] == reason
        && message.contains(part);
    (!is_right).then(|| format!("{name}: want {code} {reason} \"{part}\", got {} {status}", answer.status))
}

/// Untrusted client certificates: self-signed, and of the peer authority, which signs no clients.
async fn certificates(cluster: &Cluster) -> Vec<String> {
    let mut wrong = Vec::new();
    let peer = cluster.certificates().join("members/a");
    let read = |name: &str| std::fs::read(peer.join(name)).unwrap();
    let stranger = rcgen::generate_simple_self_signed(["admin".to_owned()]).unwrap();
    let identities = [
        ("a peer's certificate", read("peer.crt"), read("peer.key")),
        (
            "a stranger's certificate",
            stranger.cert.pem().into_bytes(),
            stranger.signing_key.serialize_pem().into_bytes(),
        ),
    ];
    for (name, chain, key) in identities {
        let client = cluster.client_as(0, Identity::Certificate { chain, key }).unwrap();
        // A failed handshake and a 401 are both a refusal.
        if let Ok(answer) = client.get(COLLECTION).await
            && answer.status != 401
        {
            wrong.push(format!("{name}: got {}", answer.status));
        }
    }
    let admin = cluster.certificates();
    let read = |name: &str| std::fs::read(admin.join(name)).unwrap();
    let identity = Identity::Certificate { chain: read("admin.crt"), key: read("admin.key") };
    let answer = cluster.client_as(0, identity).unwrap().get(COLLECTION).await;
    if !answer.is_ok_and(|answer| answer.status == 200) {
        wrong.push("the administrator's certificate is refused".into());
    }
    wrong
}

/// Bytes that are no TLS, and a silent connection.
async fn garbage_on_the_wire(client: &Client) {
    let address = client.endpoint().authority();
    let _silent = TcpStream::connect(&address).await.unwrap();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], b"\x16\x03\x01\xff\xff\x01"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // The server may refuse such a connection in any way, but must close it.
        let reading = stream.read_to_end(&mut answer);
        assert!(tokio::time::timeout(Duration::from_secs(20), reading).await.is_ok(), "garbage is kept open");
    }
}
