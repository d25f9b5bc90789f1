//! HTTP between a simulated client and the API of a member, below the listener.
//!
//! Owns an answer read whole, and one read piece by piece. The handler is a task of the member's process, as for all requests.

use bytes::Bytes;
use futures::future::{Either, select};
use http::Request;
use http_body_util::BodyExt;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Gone, Session, WINDOW_FRAMES};
use crate::sim::runtime::NodeRuntime;
use crate::sim::server::Server;

/// A piece of an answer.
#[derive(Debug)]
pub enum Piece {
    /// Its status code, the first piece.
    Head(u16),
    /// Bytes of its body.
    Data(Bytes),
}

impl Session {
    /// Sends `request` to `node`; the status code of the answer, and its JSON.
    ///
    /// # Errors
    /// The request or its answer was lost.
    pub async fn http(&self, node: NodeId, request: Request<Bytes>) -> Result<(u16, Value), Gone> {
        let serve = |server: Server| async move {
            let (head, body) = server.http(request).await.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
        };
        self.call(node, |process| process.server, serve).await
    }

    /// Sends `request` to `node`. The receiver gets the answer, and ends with it, the process or the connection.
    ///
    /// # Errors
    /// The member was not reached.
    pub async fn stream(&self, node: NodeId, request: Request<Bytes>) -> Result<mpsc::Receiver<Piece>, Gone> {
        NodeRuntime::sleep(self.way()).await;
        let Some((server, group)) = self.reach(node, |process| process.server) else {
            NodeRuntime::sleep(self.way()).await;
            return Err(Gone::NotSent);
        };
        let (sender, receiver) = mpsc::channel(WINDOW_FRAMES);
        drop(group.spawn(async move { serve(server, request, sender).await }));
        Ok(receiver)
    }
}

/// Sends the answer to `request` until it ends or the receiver is gone.
async fn serve(server: Server, request: Request<Bytes>, sender: mpsc::Sender<Piece>) {
    let (head, mut body) = server.http(request).await.into_parts();
    if sender.send(Piece::Head(head.status.as_u16())).await.is_err() {
        return;
    }
    loop {
        let next = Box::pin(body.frame());
        let Either::Left((Some(Ok(frame)), _)) = select(next, Box::pin(sender.closed())).await else {
            return;
        };
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        if sender.send(Piece::Data(data)).await.is_err() {
            return;
        }
    }
}
