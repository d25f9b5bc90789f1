//! HTTP/2: the clients of one thread share a connection to each server, a stream an operation.

use anyhow::Result;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::target::Target;
use super::wire::{Call, Reply};

/// How much of a body is kept, as over HTTP/1.1.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// One client's handle on a shared connection.
#[derive(Clone)]
pub(super) struct Multiplexed {
    sender: SendRequest<Full<Bytes>>,
    base: String,
    authorization: Option<String>,
    head: Vec<u8>,
}

impl Multiplexed {
    /// Connects to `target`; clones of the result share the connection.
    pub(super) async fn open(target: &Target) -> Result<Self> {
        let access = target.access.with_protocol("h2");
        let stream = target.endpoint.connect(&access).await?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // The streams that were on the connection report its failure; there is no other listener.
            let _ = connection.await;
        });
        let base = target.endpoint.to_string();
        Ok(Self { sender, base, authorization: access.authorization(), head: Vec::new() })
    }

    /// The first bytes of the last body.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Sends `call` and reads its answer to the end.
    pub(super) async fn exchange(&mut self, call: &Call<'_>) -> Result<Reply> {
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
        let mut body = answer.into_body();
        let mut bytes = 0;
        self.head.clear();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            bytes += data.len() as u64;
            let room = HEAD_BYTES_MAX - self.head.len();
            self.head.extend_from_slice(&data[..room.min(data.len())]);
        }
        Ok(Reply { status, bytes })
    }
}
