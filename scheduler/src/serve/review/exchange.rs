//! One request to a server and its answer, over a connection of its own: reviews are cached, and so are rare.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::target::{Bearer, Target};

/// Longest wait for an answer, with connecting: requests of clients wait for it.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Most bytes of an answer: a user with thousands of groups has less.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Sends `document` to `path`, and reads the answer. The error says why there is none.
pub(super) async fn exchange(
    target: &Target,
    method: Method,
    path: &str,
    document: Option<&Value>,
) -> Result<(StatusCode, Value), String> {
    match tokio::time::timeout(ANSWER_MAX, send(target, method, path, document)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} seconds", ANSWER_MAX.as_secs())),
    }
}

async fn send(
    target: &Target,
    method: Method,
    path: &str,
    document: Option<&Value>,
) -> Result<(StatusCode, Value), String> {
    let host = target.base.host().unwrap_or_default();
    let port = target.base.port_u16().unwrap_or(if target.tls.is_some() { 443 } else { 80 });
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((address, port)).await.map_err(|error| error.to_string())?;
    let request = request(target, method, path, document)?;
    match (&target.tls, &target.server_name) {
        (Some(tls), Some(name)) => {
            let connector = TlsConnector::from(std::sync::Arc::clone(tls));
            let stream = connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
            ask(stream, request).await
        }
        _ => ask(stream, request).await,
    }
}

fn request(
    target: &Target,
    method: Method,
    path: &str,
    document: Option<&Value>,
) -> Result<Request<Full<Bytes>>, String> {
    let base = target.base.path().trim_end_matches('/');
    let authority = target.base.authority().map(ToString::to_string).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{base}{path}"))
        .header(HOST, authority)
        .header(ACCEPT, json.clone())
        .header(CONTENT_TYPE, json)
        .header(USER_AGENT, concat!("scheduler/", env!("CARGO_PKG_VERSION")));
    let token = match &target.bearer {
        None => None,
        Some(Bearer::Token(token)) => Some(token.clone()),
        Some(Bearer::File(path)) => {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Some(text.trim().to_owned())
        }
    };
    if let Some(token) = token {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| "the bearer token has characters that no header may have".to_owned())?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let body = document.map(Value::to_string).unwrap_or_default();
    request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Value), String> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // The connection is polled beside the request, and dropped with it.
    let answer = async move {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let value = serde_json::from_slice(&body).map_err(|error| format!("{status}: {error}"))?;
        Ok((status, value))
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        // The server may close as soon as it has answered.
        _ = connection => answer.await,
    }
}
