//! The servers that a scenario starts on this machine, over TLS: webhooks and aggregated APIs.
//!
//! Owns their ports, the requests that they have received, and the steps `serve`, `served` and `stop`. Each speaks HTTP/1.1 and closes a
//! connection behind its answer, as where the scenarios were recorded. What is answered is `answers`'.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use regex::{Captures, Regex};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::answers::{Answers, Asked, Kind, Reply};
use super::normalize::canonical;
use super::pick::find;

/// Key and certificate of every server, and the authorities of which the first has signed it.
const SERVER: &str = include_str!("../../vectors/webhook.pem");
const AUTHORITIES: &str = include_str!("../../vectors/webhook-ca.pem");

/// Time that `served` waits for its calls unless the step has its own.
const SERVED_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that it waits for a call too many.
const SETTLE: Duration = Duration::from_millis(200);

/// Interval of its looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Longest handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The headers that tell who a request is of.
const IDENTITY: [&str; 5] =
    ["X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "Authorization", "Impersonate-User"];

/// The prefix of further ones, in lower case.
const EXTRA: &str = "x-remote-extra-";

/// The servers of one scenario by their names.
#[derive(Default)]
pub(super) struct Servers(BTreeMap<String, Server>);

struct Server {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    kind: Kind,
    answers: Mutex<Answers>,
    seen: Mutex<Vec<Value>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Servers {
    /// Runs `step` if it is about a server; `Some(null)` where nothing is judged. `saved` learns where a new server is.
    pub(super) async fn step(
        &mut self,
        step: &Map<String, Value>,
        saved: &mut HashMap<String, String>,
    ) -> Result<Option<Value>> {
        let named = |verb: &str| step.get(verb).and_then(Value::as_str);
        if let Some(name) = named("serve") {
            self.serve(name, step, saved).await?;
        } else if let Some(name) = named("stop") {
            let server = self.0.get_mut(name).with_context(|| format!("no server `{name}`"))?;
            server.accepting.abort();
        } else if let Some(name) = named("served") {
            return self.served(name, step).await.map(Some);
        } else {
            return Ok(None);
        }
        Ok(Some(Value::Null))
    }

    /// Starts the server called `name`, or gives it other answers.
    async fn serve(
        &mut self,
        name: &str,
        step: &Map<String, Value>,
        saved: &mut HashMap<String, String>,
    ) -> Result<()> {
        let answers = Answers::of(step);
        if let Some(server) = self.0.get(name) {
            *server.shared.answers.lock() = answers;
            return Ok(());
        }
        let kind = Kind::named(step.get("kind").and_then(Value::as_str).unwrap_or_default());
        let shared = Arc::new(Shared { kind, answers: Mutex::new(answers), seen: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let accepting = tokio::spawn(accept(listener, acceptor()?, shared.clone()));
        self.0.insert(name.to_owned(), Server { port, shared, accepting });
        let [own, other] = authorities()?;
        saved.insert(format!("url:{name}"), format!("https://127.0.0.1:{port}"));
        saved.insert(format!("port:{name}"), port.to_string());
        saved.extend([("ca".to_owned(), own), ("otherca".to_owned(), other)]);
        Ok(())
    }

    /// The calls that the server called `name` has received since they were last asked for.
    async fn served(&self, name: &str, step: &Map<String, Value>) -> Result<Value> {
        let server = self.0.get(name).with_context(|| format!("no server `{name}`"))?;
        let under = step.get("under").and_then(Value::as_str).unwrap_or_default();
        let is_meant = |call: &Value| call["path"].as_str().is_some_and(|path| path.starts_with(under));
        let wanted = step.get("count").and_then(Value::as_u64).unwrap_or(1);
        let seconds = |name: &str| step.get(name).and_then(Value::as_f64).map(Duration::from_secs_f64);
        let deadline = Instant::now() + seconds("timeout").unwrap_or(SERVED_TIMEOUT);
        let count = || server.shared.seen.lock().iter().filter(|call| is_meant(call)).count() as u64;
        while count() < wanted && Instant::now() < deadline {
            sleep(LOOK_INTERVAL).await;
        }
        sleep(seconds("settle").unwrap_or(SETTLE)).await;
        let seen = std::mem::take(&mut *server.shared.seen.lock());
        let mut calls: Vec<Value> = seen.into_iter().filter(is_meant).map(with_placeholders).collect();
        if let Some(paths) = step.get("pick").and_then(Value::as_array) {
            let part =
                |call: &Value, path: &str| (path.to_owned(), find(call, path).cloned().unwrap_or_default());
            let picked =
                |call: &Value| paths.iter().filter_map(Value::as_str).map(|path| part(call, path)).collect();
            calls = calls.iter().map(|call| Value::Object(picked(call))).collect();
        }
        if step.get("sort").is_some_and(|sort| sort != &json!(false)) {
            calls.sort_by_cached_key(canonical);
        }
        Ok(json!({ "served": calls }))
    }

    /// `value` with names in the place of ports and authorities, which differ from run to run.
    pub(super) fn named(&self, value: Value) -> Result<Value> {
        if self.0.is_empty() {
            return Ok(value);
        }
        let ports: Vec<u16> = self.0.values().map(|server| server.port).collect();
        let pattern = Regex::new(":([0-9]{1,5})\\b").expect("the pattern is valid");
        let authorities = authorities()?;
        Ok(named(value, &ports, &authorities, &pattern))
    }
}

fn named(value: Value, ports: &[u16], authorities: &[String], pattern: &Regex) -> Value {
    let is_port = |number: u64| ports.iter().any(|port| u64::from(*port) == number);
    match value {
        Value::Object(fields) => {
            let field = |(name, field)| (name, named(field, ports, authorities, pattern));
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => {
            items.into_iter().map(|item| named(item, ports, authorities, pattern)).collect()
        }
        Value::Number(number) if number.as_u64().is_some_and(is_port) => json!("<port>"),
        Value::String(text) if authorities.contains(&text) => json!("<ca>"),
        Value::String(text) => {
            let shown = |found: &Captures<'_>| match found[1].parse().is_ok_and(is_port) {
                true => ":<port>".to_owned(),
                false => found[0].to_owned(),
            };
            Value::String(pattern.replace_all(&text, shown).into_owned())
        }
        other => other,
    }
}

/// The authorities as a configuration names them: that of the servers, and another one.
fn authorities() -> Result<[String; 2]> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let begin = |text: &str| text.find("-----BEGIN CERTIFICATE-----").unwrap_or_default();
    let blocks = AUTHORITIES.split_inclusive(END).filter(|block| block.ends_with(END));
    let encoded: Vec<String> = blocks.map(|block| STANDARD.encode(&block[begin(block)..])).collect();
    encoded.try_into().ok().context("there are two authorities")
}

fn acceptor() -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_slice_iter(SERVER.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(SERVER.as_bytes())?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, acceptor.clone(), shared.clone()));
    }
}

/// Answers the requests of one connection. One that breaks concerns nobody else.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await else { return };
    let answer = service_fn(|request| answer(request, shared.clone()));
    let served = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer).await;
    drop(served);
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let body = match text.is_empty() {
        true => Value::Null,
        false => serde_json::from_str(&text).unwrap_or_else(|_| json!({ "$text": text })),
    };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
    let seen = json!({
        "method": head.method.as_str(), "path": path, "contentType": content_type.unwrap_or_default(),
        "headers": identity(&head.headers), "body": body,
    });
    shared.seen.lock().push(seen);
    let asked = Asked { method: head.method.as_str(), path, body: &body };
    let Reply { delay, status, headers, body } = shared.answers.lock().reply(shared.kind, &asked);
    sleep(delay).await;
    let mut response = Response::builder().status(status);
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        response = response.header("content-type", "application/json");
    }
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(body)).expect("recorded headers are headers"))
}

/// The headers of a call that tell who it is of.
fn identity(headers: &HeaderMap) -> Map<String, Value> {
    let extra = headers.keys().map(http::HeaderName::as_str).filter(|name| name.starts_with(EXTRA));
    let extra = extra.map(titled);
    let names = IDENTITY.map(str::to_owned).into_iter().chain(extra);
    let values = |name: &str| {
        let all = headers.get_all(name).iter();
        let mut all: Vec<String> =
            all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        all.sort();
        all
    };
    let found = names.map(|name| (values(&name), name)).filter(|(values, _)| !values.is_empty());
    found.map(|(values, name)| (name, json!(values))).collect()
}

/// The name of a header as HTTP/1.1 clients mostly write it.
fn titled(name: &str) -> String {
    let word = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

/// A call without what differs from run to run.
fn with_placeholders(mut call: Value) -> Value {
    if let Some(uid) = call.pointer_mut("/body/request/userInfo/uid").filter(|uid| *uid != &json!("")) {
        *uid = json!("<uid>");
    }
    if let Some(uid) = call.pointer_mut("/headers/X-Remote-Uid") {
        *uid = json!(["<uid>"]);
    }
    let has_headers = call["headers"].as_object().is_some_and(|headers| !headers.is_empty());
    if let Some(fields) = call.as_object_mut().filter(|_| !has_headers) {
        fields.remove("headers");
    }
    call
}
