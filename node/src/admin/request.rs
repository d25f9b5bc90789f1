//! One request to the first server that can carry it out.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::access::Access;

/// For one server's response, after connecting: a change of members may take ten seconds there.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// For connecting, TLS included: a dead server must not hold up the next one.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Bytes of a response: a cluster has a handful of members.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A request failed, or its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No server could carry out the request: certainly nothing was changed. Holds a line for each server.
    #[error("no server answers:{0}")]
    Unreachable(String),
    /// A server was reached and the response lost: the outcome is unknown.
    #[error("{server}: {reason}; look with `orch cluster status` what became of it")]
    Lost {
        /// `HOST:PORT`.
        server: String,
        /// Cause of the loss.
        reason: String,
    },
    /// A server refused the request.
    #[error("{server} refuses: {message}")]
    Refused {
        /// `HOST:PORT`.
        server: String,
        /// Message of its `Status`.
        message: String,
    },
}

/// Sends `method path body` to one server after another and returns the first response that settles it. The next server is
/// tried where a connection failed and where the server serves nobody (503: it was removed, or is not ready), neither of
/// which changes anything; for reads, also where the response was lost. So a change is never sent twice.
pub(super) async fn send(
    access: &Access,
    method: Method,
    path: &str,
    body: Value,
) -> Result<Value, RequestError> {
    let mut tried = String::new();
    for server in &access.servers {
        let connected = tokio::time::timeout(CONNECT_MAX, connect(access, server)).await;
        let stream = match connected.unwrap_or_else(|_| Err("no connection in time".to_owned())) {
            Ok(stream) => stream,
            Err(reason) => {
                tried.push_str(&format!("\n  {server}: {reason}"));
                continue;
            }
        };
        let (is_read, method) = (method == Method::GET, method.clone());
        let exchange = exchange(access, stream, server, method, path, &body);
        let answer = tokio::time::timeout(ANSWER_MAX, exchange).await;
        let (status, answer) = match answer.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(answered) => answered,
            Err(reason) if is_read => {
                tried.push_str(&format!("\n  {server}: {reason}"));
                continue;
            }
            Err(reason) => return Err(RequestError::Lost { server: server.clone(), reason }),
        };
        if status.is_success() {
            return Ok(answer);
        }
        let message = answer["message"].as_str().unwrap_or("no reason given").to_owned();
        if status != StatusCode::SERVICE_UNAVAILABLE {
            return Err(RequestError::Refused { server: server.clone(), message });
        }
        tried.push_str(&format!("\n  {server}: {message}"));
    }
    Err(RequestError::Unreachable(tried))
}

type Stream = TokioIo<tokio_rustls::client::TlsStream<TcpStream>>;

async fn connect(access: &Access, server: &str) -> Result<Stream, String> {
    let host = crate::run::host_of(server).to_owned();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(server).await.map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(access.tls.clone());
    Ok(TokioIo::new(connector.connect(name, stream).await.map_err(|error| error.to_string())?))
}

async fn exchange(
    access: &Access,
    stream: Stream,
    server: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<(StatusCode, Value), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|error| text(&error))?;
    // The task ends with the sender; its errors show at `send_request`.
    tokio::spawn(connection);
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request = Request::builder().method(method).uri(path).header(HOST, server);
    if let Some(token) = &access.token {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request.body(Full::new(body)).map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    let status = response.status();
    let body =
        Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await.map_err(|error| text(&error))?;
    let answer = serde_json::from_slice(&body.to_bytes());
    Ok((status, answer.map_err(|error| format!("{status} with an answer that is not JSON: {error}"))?))
}
