//! A service that acknowledges entries in the name of a member that is down.
//!
//! Owns one bug: the leader believes that a silent voter has entries in its log, and so that it knows the newest
//! voters.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use orch_proto::store as wire;
use orch_raft::transport::{Duplex, NodeId, PeerService, Purpose};
use prost::Message;
use wire::append_response::Outcome;

/// Acknowledges every entry, and keeps none, while the member in whose name it answers is down.
pub struct Pretender(pub Arc<dyn Fn() -> bool + Send + Sync>);

impl PeerService for Pretender {
    fn call(&self, _: NodeId, _: Purpose, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        async { Err("nobody is there".to_owned()) }.boxed()
    }

    fn stream(&self, _: NodeId, _: Purpose, duplex: Duplex) -> BoxFuture<'static, ()> {
        let is_away = self.0.clone();
        async move {
            let Duplex { sender, mut receiver } = duplex;
            while let Some(frame) = receiver.recv().await {
                let Ok(request) = wire::AppendRequest::decode(frame) else { return };
                let through = request.entries.last().and_then(|entry| entry.log_id).or(request.previous);
                let outcome = Some(Outcome::Accepted(wire::Accepted { through }));
                let answer = wire::AppendResponse { outcome }.encode_to_vec();
                if !is_away() || sender.send(answer.into()).await.is_err() {
                    return;
                }
            }
        }
        .boxed()
    }
}
