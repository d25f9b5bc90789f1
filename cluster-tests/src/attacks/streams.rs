//! HTTP/2 streams whose answers nobody takes, and requests whose bodies never end.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Request;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::report::status_counts;
use super::stage::{Stage, TENANT};
use crate::cluster::ALICE_TOKEN;

/// Connections of the attacker, and streams of each.
const CONNECTIONS: usize = 220;
const STREAMS: usize = 100;
/// Bytes of an answer, below the 64 KiB from which on answers are written in pieces.
const ANSWER_BYTES: usize = 60 << 10;
/// Time for which the attacker holds everything.
const HOLD: Duration = Duration::from_secs(15);
/// Announced bytes of a body, and those that come.
const BODY_BYTES: usize = 60_000;
const SENT_BYTES: usize = 400;

type Body = BoxBody<Bytes, std::convert::Infallible>;

/// Asks for a small object on all streams, with windows of no byte.
pub(super) async fn hoard_answers(stage: &Stage) -> Result<String> {
    let collection = format!("/api/v1/namespaces/{TENANT}/configmaps");
    let map = json!({"metadata": {"name": "small"}, "data": {"value": "x".repeat(ANSWER_BYTES)}});
    stage.tenant.post(&collection, &map).await?.success()?;
    let path = format!("{collection}/small");
    on_all_streams(stage, "GET", &path, || Empty::new().boxed()).await
}

/// Begins to write config maps on all streams.
pub(super) async fn withhold_bodies(stage: &Stage) -> Result<String> {
    let path = format!("/api/v1/namespaces/{TENANT}/configmaps");
    on_all_streams(stage, "POST", &path, || {
        let first = stream::iter([Ok(Frame::data(Bytes::from_static(&[b' '; SENT_BYTES])))]);
        BodyExt::boxed(StreamBody::new(first.chain(stream::pending())))
    })
    .await
}

/// Sends a request on each stream and holds the answers, then lets all go together.
async fn on_all_streams(
    stage: &Stage,
    method: &'static str,
    path: &str,
    body: impl Fn() -> Body + Copy + Send + Sync + 'static,
) -> Result<String> {
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let sender = connect(stage).await?;
        let uri = format!("{}{path}", stage.tenant.endpoint());
        connections.spawn(async move {
            let asked = (0..STREAMS).map(|_| ask(sender.clone(), method, &uri, body()));
            let answers = futures::future::join_all(asked).await;
            sleep(HOLD).await;
            answers
                .into_iter()
                .map(|answer| answer.map_or(0, |answer| answer.status().as_u16()))
                .collect::<Vec<_>>()
        });
    }
    Ok(status_counts(connections.join_all().await.into_iter().flatten()))
}

/// The head of the answer; `None` of a stream that was broken off or that is not answered in time.
async fn ask(
    mut sender: SendRequest<Body>,
    method: &str,
    uri: &str,
    body: Body,
) -> Option<http::Response<hyper::body::Incoming>> {
    let mut request = Request::builder().method(method).uri(uri);
    request = request.header("authorization", format!("Bearer {ALICE_TOKEN}"));
    if method == "POST" {
        request = request.header("content-type", "application/json").header("content-length", BODY_BYTES);
    }
    timeout(HOLD, sender.send_request(request.body(body).ok()?)).await.ok()?.ok()
}

async fn connect(stage: &Stage) -> Result<SendRequest<Body>> {
    let (endpoint, access) = stage.cluster.doors().pop().context("the member does not run")?;
    let stream = endpoint.connect(&access.with_protocol("h2")).await?;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
