//! A request, sent to the first server that can carry it out; its answer is a document, or a stream.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use super::access::Access;
use super::unreached::{Unreached, next_after};

/// For one server's response, after connecting: a change of members may take ten seconds there.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(20);
/// For connecting, TLS included: a dead server must not hold up the next one.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Bytes of a response: a cluster has a handful of members.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A request failed, or its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No server could carry out the request: certainly nothing was changed. Holds a line for each server.
    #[error("no server answers:{0}")]
    Unreachable(String),
    /// Every server answered that it has not, or no longer, what is asked for (410). Holds a line for each server.
    #[error("no server has it any more:{0}")]
    Gone(String),
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
        let connected = tokio::time::timeout(CONNECT_MAX, connect(access, server, None)).await;
        let stream = match connected.unwrap_or_else(|_| Err(Unreached::late())) {
            Ok(stream) => stream,
            Err(unreached) => {
                tried.push_str(&format!("\n  {server}: {unreached}"));
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
        let mut message = answer["message"].as_str().unwrap_or("no reason given").to_owned();
        if let Some(next) = next_after(status) {
            message += &format!("\n     -> {next}");
        }
        if status != StatusCode::SERVICE_UNAVAILABLE {
            return Err(RequestError::Refused { server: server.clone(), message });
        }
        tried.push_str(&format!("\n  {server}: {message}"));
    }
    Err(RequestError::Unreachable(tried))
}

pub(super) type Stream = TokioIo<tokio_rustls::client::TlsStream<TcpStream>>;

/// Connects to `server`, with a receive buffer of `receive_bytes` where that is given.
pub(super) async fn connect(
    access: &Access,
    server: &str,
    receive_bytes: Option<u32>,
) -> Result<Stream, Unreached> {
    let host = crate::run::host_of(server).to_owned();
    let name = ServerName::try_from(host).map_err(|error| Unreached::unnamed(error.to_string()))?;
    let stream = match receive_bytes {
        None => TcpStream::connect(server).await,
        Some(bytes) => connect_bounded(server, bytes).await,
    };
    let connector = TlsConnector::from(access.tls.clone());
    Ok(TokioIo::new(connector.connect(name, stream?).await?))
}

/// Connects to the first address of `server` that answers. The buffer is set before the connection is made, because the window
/// that the peer is offered is scaled by it.
async fn connect_bounded(server: &str, receive_bytes: u32) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host(server).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_recv_buffer_size(receive_bytes)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Asks one server after another for the stream at `path` and returns the first one's response, whose body is still to be
/// read. The request is a POST without a body, and changes nothing. The next server is tried where one cannot be reached, is
/// not ready, has too much to do, or has not what is asked for. `receive_bytes` bounds what the kernel holds of the stream before it
/// is read.
pub(crate) async fn download(
    access: &Access,
    path: &str,
    receive_bytes: Option<u32>,
) -> Result<(String, Response<Incoming>), RequestError> {
    let (mut tried, mut gone) = (String::new(), 0);
    for server in &access.servers {
        let asked = async {
            let connected = tokio::time::timeout(CONNECT_MAX, connect(access, server, receive_bytes)).await;
            let stream = connected.unwrap_or_else(|_| Err(Unreached::late()))?;
            let head = ask(access, stream, server, Method::POST, path, Bytes::new());
            tokio::time::timeout(ANSWER_MAX, head)
                .await
                .unwrap_or_else(|_| Err("no answer in time".to_owned()))
        };
        let reason = match asked.await {
            Ok(response) if response.status().is_success() => return Ok((server.clone(), response)),
            Ok(response) => {
                let status = response.status();
                let answer = tokio::time::timeout(ANSWER_MAX, document(response, BODY_BYTES_MAX)).await;
                let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                let message = answer.map(|answer| answer["message"].as_str().map(str::to_owned));
                let message = message.unwrap_or_else(Some).unwrap_or_else(|| status.to_string());
                match status {
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => message,
                    StatusCode::GONE => {
                        gone += 1;
                        message
                    }
                    _ => return Err(RequestError::Refused { server: server.clone(), message }),
                }
            }
            Err(reason) => reason,
        };
        tried.push_str(&format!("\n  {server}: {reason}"));
    }
    match gone > 0 && gone == access.servers.len() {
        true => Err(RequestError::Gone(tried)),
        false => Err(RequestError::Unreachable(tried)),
    }
}

/// Asks `server` for the stream at `path` and returns its response, whose body is still to be read.
///
/// # Errors
/// It cannot be reached, or does not answer in time.
pub(crate) async fn open_stream(
    access: &Access,
    server: &str,
    path: &str,
) -> Result<Response<Incoming>, String> {
    let connected = tokio::time::timeout(CONNECT_MAX, connect(access, server, None)).await;
    let stream = connected.unwrap_or_else(|_| Err(Unreached::late()))?;
    let head = ask(access, stream, server, Method::GET, path, Bytes::new());
    tokio::time::timeout(ANSWER_MAX, head).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

async fn exchange(
    access: &Access,
    stream: Stream,
    server: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<(StatusCode, Value), String> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response = ask(access, stream, server, method, path, body).await?;
    Ok((response.status(), document(response, BODY_BYTES_MAX).await?))
}

/// Sends a request over `stream` and returns the head of its response.
async fn ask(
    access: &Access,
    stream: Stream,
    server: &str,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Response<Incoming>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|error| text(&error))?;
    // The task ends with the sender and the response; its errors show at both.
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header(HOST, server);
    if let Some(token) = &access.token {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request.body(Full::new(body)).map_err(|error| text(&error))?;
    sender.send_request(request).await.map_err(|error| text(&error))
}

/// The body of a response of at most `bytes_max` as a document.
pub(super) async fn document(response: Response<Incoming>, bytes_max: usize) -> Result<Value, String> {
    let status = response.status();
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    let body = body.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| format!("{status} with an answer that is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bound_of_the_receive_buffer_holds_from_the_connection_on() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let bytes = 64 << 10;
        let stream = connect_bounded(&server, bytes).await.unwrap();
        let found = socket2::SockRef::from(&stream).recv_buffer_size().unwrap();
        // The kernel sets twice as much, for what it needs beside the bytes.
        let bytes = usize::try_from(bytes).unwrap();
        assert!((bytes..=2 * bytes).contains(&found), "{found}");
        drop(listener);
        assert!(connect_bounded(&server, 64 << 10).await.is_err());
    }
}
