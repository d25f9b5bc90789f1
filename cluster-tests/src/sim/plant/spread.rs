//! States that arrive with another byte than they were sent with, under a checksum that holds.
//!
//! Owns the change of the frames of a snapshot: of those that a member receives from its leader, or of those that it sends
//! to a member that asked for a state to repair itself with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, join, select};
use orch_proto::store as wire;
use orch_raft::transport::{Duplex, NodeId, PeerService, Purpose};
use prost::Message;
use tokio::sync::mpsc;
use wire::snapshot_frame::Kind;

use super::Plant;
use crate::sim::disk::flipped;

/// Frames between the connection and the service: few, so that back-pressure reaches the sender as without the change.
const WINDOW_FRAMES: usize = 8;

struct Spread {
    service: Arc<dyn PeerService>,
    plant: Plant,
}

/// The bug before `service`, if `plant` is one of these.
pub fn spread(service: Arc<dyn PeerService>, plant: Option<Plant>) -> Arc<dyn PeerService> {
    match plant {
        Some(plant @ (Plant::SpreadsWrongState | Plant::PullsWrongState)) => {
            Arc::new(Spread { service, plant })
        }
        _ => service,
    }
}

impl PeerService for Spread {
    fn call(
        &self,
        from: NodeId,
        purpose: Purpose,
        frame: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        self.service.call(from, purpose, frame)
    }

    fn stream(&self, from: NodeId, purpose: Purpose, duplex: Duplex) -> BoxFuture<'static, ()> {
        if purpose != Purpose::Snapshot {
            return self.service.stream(from, purpose, duplex);
        }
        let Duplex { sender, mut receiver } = duplex;
        let (hears, heard) = mpsc::channel(WINDOW_FRAMES);
        let (says, mut said) = mpsc::channel(WINDOW_FRAMES);
        let serving = self.service.stream(from, purpose, Duplex { sender: says, receiver: heard });
        let (plant, is_pulled) = (self.plant, Arc::new(AtomicBool::new(false)));
        let pulled = is_pulled.clone();
        let hearing = async move {
            let mut wrong = Wrong::default();
            while let Some(frame) = receiver.recv().await {
                pulled.fetch_or(is_pull(&frame), Ordering::Relaxed);
                let frame = if plant == Plant::SpreadsWrongState { wrong.change(frame) } else { frame };
                if hears.send(frame).await.is_err() {
                    return;
                }
            }
        };
        let saying = async move {
            let mut wrong = Wrong::default();
            while let Some(frame) = said.recv().await {
                let changes = plant == Plant::PullsWrongState && is_pulled.load(Ordering::Relaxed);
                let frame = if changes { wrong.change(frame) } else { frame };
                if sender.send(frame).await.is_err() {
                    return;
                }
            }
        };
        async move {
            let served = join(serving, saying).boxed();
            if let Either::Right(((), served)) = select(served, hearing.boxed()).await {
                served.await;
            }
        }
        .boxed()
    }
}

fn is_pull(frame: &Bytes) -> bool {
    let frame = wire::SnapshotFrame::decode(frame.clone()).ok().and_then(|frame| frame.kind);
    matches!(frame, Some(Kind::Pull(_)))
}

/// The frames of one snapshot so far.
#[derive(Default)]
struct Wrong {
    checksum: crc32fast::Hasher,
    /// It goes on with what an earlier stream brought, of which the checksum is not known here.
    goes_on: bool,
}

impl Wrong {
    fn change(&mut self, frame: Bytes) -> Bytes {
        let Ok(mut message) = wire::SnapshotFrame::decode(frame.clone()) else { return frame };
        match &mut message.kind {
            Some(Kind::Head(head)) => self.goes_on = head.resumes_after > 0,
            Some(Kind::Objects(_)) if !self.goes_on => {
                let changed = flipped(&frame).unwrap_or(frame);
                self.checksum.update(&changed);
                return changed;
            }
            Some(Kind::End(end)) if !self.goes_on => {
                end.checksum = self.checksum.clone().finalize();
                return Bytes::from(message.encode_to_vec());
            }
            _ => {}
        }
        frame
    }
}
