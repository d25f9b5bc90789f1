//! A small HTTPS client for tests: one request, one answer, and watches line by line.
//!
//! Owns endpoint, trust and identity of a test's requests. It never retries and never follows a redirect, so that a
//! test sees exactly what the server did; the caller knows better which errors are safe to retry. Connections are
//! HTTP/1.1 and reused. The benchmark has a leaner client (`load::wire`) over the same endpoints and credentials.

mod access;
mod endpoint;
mod kubeconfig;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;

pub use access::{Access, Identity, Trust};
pub use endpoint::{Endpoint, Stream};
pub use watch::Watch;

/// Idle connections of a client: as many as the callers of any test run at once, and no leak beyond.
const IDLE_CONNECTIONS_MAX: usize = 128;

/// Default timeout of a request; the server's own limit is 60 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one server. Cheap to clone; clones share the idle connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    endpoint: Endpoint,
    access: Access,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// A complete HTTP response.
#[derive(Debug)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// All headers, in order.
    pub headers: HeaderMap,
    /// The body, read to its end.
    pub body: Bytes,
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| {
            format!("answer {} is not JSON: {:.200}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// The body as JSON if the status is 2xx, an error with the server's message otherwise.
    pub fn success(&self) -> Result<Value> {
        if !(200..300).contains(&self.status) {
            bail!("the server answered {}: {:.400}", self.status, String::from_utf8_lossy(&self.body));
        }
        self.json()
    }
}

impl Client {
    /// A client of `endpoint`; nothing is connected yet.
    pub fn new(endpoint: Endpoint, access: Access) -> Self {
        let inner = Inner { endpoint, access, idle: Mutex::new(Vec::new()) };
        Self { inner: Arc::new(inner), timeout: REQUEST_TIMEOUT }
    }

    /// The same client and connections with another request timeout.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { inner: self.inner.clone(), timeout }
    }

    /// A client of the same server for whoever holds `token`.
    pub fn with_token(&self, token: &str) -> Self {
        let access = self.inner.access.with_identity(Identity::Token(token.into()));
        Self { timeout: self.timeout, ..Self::new(self.inner.endpoint.clone(), access) }
    }

    /// The endpoint that this client sends requests to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// GET of `path` (with its query).
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// POST of a JSON document.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Response> {
        let bytes = Bytes::from(serde_json::to_vec(body)?);
        self.send(Method::POST, path, &[("content-type", "application/json")], bytes).await
    }

    /// PATCH with a JSON merge patch.
    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Response> {
        let bytes = Bytes::from(serde_json::to_vec(patch)?);
        self.send(Method::PATCH, path, &[("content-type", "application/merge-patch+json")], bytes).await
    }

    /// DELETE of `path`.
    pub async fn delete(&self, path: &str) -> Result<Response> {
        self.send(Method::DELETE, path, &[], Bytes::new()).await
    }

    /// Sends a request. A header given here replaces the client's own of the same name.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response> {
        let what = format!("{method} {path} at {}", self.inner.endpoint);
        let exchange = async {
            let (mut connection, answer) = self.start(method, path, headers, body).await?;
            let (head, incoming) = answer.into_parts();
            let body = incoming.collect().await?.to_bytes();
            if connection.ready().await.is_ok() {
                self.give_back(connection);
            }
            Ok(Response { status: head.status.as_u16(), headers: head.headers, body })
        };
        let outcome: Result<Response> = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("{what}: no answer within {:?}", self.timeout),
        };
        outcome.with_context(|| what)
    }

    /// Opens a watch; the status of the response must be 200. `path` carries `watch=1` and the `resourceVersion`.
    pub async fn watch(&self, path: &str) -> Result<Watch> {
        let opening = self.start(Method::GET, path, &[], Bytes::new());
        let (connection, answer) = tokio::time::timeout(self.timeout, opening)
            .await
            .with_context(|| format!("watch {path}: no answer within {:?}", self.timeout))??;
        if answer.status() != 200 {
            let status = answer.status().as_u16();
            let text = answer.into_body().collect().await?.to_bytes();
            bail!("watch {path} answered {status}: {:.400}", String::from_utf8_lossy(&text));
        }
        Ok(Watch::new(connection, answer.into_body()))
    }

    /// Sends a request and returns the response as soon as its headers arrive, with its connection.
    pub async fn start(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<(SendRequest<Full<Bytes>>, http::Response<Incoming>)> {
        let mut request =
            Request::builder().method(method).uri(path).header("host", self.inner.endpoint.authority());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Full::new(body))?;
        if let Some(own) = self.inner.access.authorization()
            && !request.headers().contains_key("authorization")
        {
            request.headers_mut().insert("authorization", own.parse()?);
        }
        let mut connection = self.connection().await?;
        let answer = connection.send_request(request).await?;
        Ok((connection, answer))
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>> {
        loop {
            let Some(mut idle) = self.inner.idle.lock().pop() else { break };
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let stream = self.inner.endpoint.connect(&self.inner.access).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // The request on the connection reports the failure; there is no other listener.
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn give_back(&self, connection: SendRequest<Full<Bytes>>) {
        let mut idle = self.inner.idle.lock();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }
}
