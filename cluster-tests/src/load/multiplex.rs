//! HTTP/2: a stream for each operation, on a connection that clients may share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use super::target::Target;
use super::wire::{Call, Reply};

/// Bytes of a body that are kept, as over HTTP/1.1.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// One client's handle on a connection.
pub(super) struct Multiplexed {
    sender: SendRequest<Full<Bytes>>,
    base: String,
    authorization: Option<String>,
    head: Vec<u8>,
    /// The unread body of the current response.
    body: Option<Incoming>,
    /// `Retry-After` of the last response.
    retry_after: Option<Duration>,
}

impl Clone for Multiplexed {
    fn clone(&self) -> Self {
        let (sender, base) = (self.sender.clone(), self.base.clone());
        Self {
            sender,
            base,
            authorization: self.authorization.clone(),
            head: Vec::new(),
            body: None,
            retry_after: None,
        }
    }
}

/// Spawns the tasks of one connection. The first of them holds the socket.
#[derive(Clone, Default)]
struct Spawner {
    first: Arc<OnceLock<AbortHandle>>,
}

impl<F> Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        let handle = tokio::spawn(task).abort_handle();
        self.first.get_or_init(|| handle);
    }
}

impl Multiplexed {
    /// Connects to `target`. Clones of the result share the connection, each with responses of its own.
    pub(super) async fn open(target: &Target) -> Result<Self> {
        Ok(Self::open_severable(target).await?.0)
    }

    /// The same, with a handle that cuts the connection: its socket closes at once, with all its streams.
    pub(super) async fn open_severable(target: &Target) -> Result<(Self, AbortHandle)> {
        let access = target.access.with_protocol("h2");
        let stream = target.endpoint.connect(&access).await?;
        let spawner = Spawner::default();
        let (sender, connection) = handshake(spawner.clone(), TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // The streams of the connection report the failure; there is no other listener.
            let _ = connection.await;
        });
        let socket = spawner.first.get().cloned().context("the connection was not spawned")?;
        let base = target.endpoint.to_string();
        let authorization = access.authorization();
        Ok((Self { sender, base, authorization, head: Vec::new(), body: None, retry_after: None }, socket))
    }

    /// The time after which the last response asked to come again; `None`: it did not.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The first bytes of the last body.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Sends `call` and reads the whole response.
    pub(super) async fn exchange(&mut self, call: &Call<'_>) -> Result<Reply> {
        let status = self.begin(call).await?;
        let mut bytes = 0;
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        let mut take = |data: &[u8]| {
            bytes += data.len() as u64;
            let room = HEAD_BYTES_MAX - head.len();
            head.extend_from_slice(&data[..room.min(data.len())]);
        };
        while self.piece(&mut take).await? {}
        self.head = head;
        Ok(Reply { status, bytes })
    }

    /// Sends `call` and reads the head of the response; returns the status. The body follows through `piece`.
    pub(super) async fn begin(&mut self, call: &Call<'_>) -> Result<u16> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.base, call.path))
            .header("user-agent", "bench")
            .header("accept", "application/json");
        if !call.content_type.is_empty() {
            request = request.header("content-type", call.content_type);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(call.body)))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let seconds =
            answer.headers().get("retry-after").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        self.retry_after = seconds.map(Duration::from_secs);
        self.body = Some(answer.into_body());
        Ok(status)
    }

    /// Passes the next piece of the body to `take`; `false` at its end. Cancel-safe.
    pub(super) async fn piece(&mut self, take: impl FnOnce(&[u8])) -> Result<bool> {
        let Some(body) = &mut self.body else { return Ok(false) };
        loop {
            match body.frame().await.transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => {
                    take(&data);
                    return Ok(true);
                }
                Some(Err(_)) => {} // trailers
                None => {
                    self.body = None;
                    return Ok(false);
                }
            }
        }
    }
}
