//! Snapshots that arrive with one byte changed, under a correct checksum.
//!
//! Owns the change of the frames of a snapshot: those that a member receives from its leader, or those that it sends to
//! a member that repairs itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::{BoxFuture, join};
use orch_proto::store as wire;
use orch_raft::transport::{Duplex, NodeId, PeerService, Purpose};
use prost::Message;
use tokio::sync::mpsc;
use wire::snapshot_frame::Kind;

use super::Plant;
use super::altered::{WINDOW_FRAMES, pass, serve};
use crate::sim::disk::flipped;

struct Spread {
    service: Arc<dyn PeerService>,
    plant: Plant,
}

/// Puts the bug of `plant` before `service`, if `plant` is one of the two about wrong states.
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
        let Duplex { sender, receiver } = duplex;
        let (hears, heard) = mpsc::channel(WINDOW_FRAMES);
        let (says, said) = mpsc::channel(WINDOW_FRAMES);
        let serving = self.service.stream(from, purpose, Duplex { sender: says, receiver: heard });
        let (plant, is_pulled) = (self.plant, Arc::new(AtomicBool::new(false)));
        let pulled = is_pulled.clone();
        let (mut received, mut sent) = (Wrong::default(), Wrong::default());
        let hearing = pass(receiver, hears, move |frame| {
            pulled.fetch_or(is_pull(&frame), Ordering::Relaxed);
            if plant == Plant::SpreadsWrongState { received.change(frame) } else { frame }
        });
        let saying = pass(said, sender, move |frame| {
            let changes = plant == Plant::PullsWrongState && is_pulled.load(Ordering::Relaxed);
            if changes { sent.change(frame) } else { frame }
        });
        serve(join(serving, saying), hearing)
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
    /// The stream resumes a snapshot that an earlier stream began. The checksum of that part is unknown here, so
    /// nothing is changed.
    is_resumed: bool,
}

impl Wrong {
    fn change(&mut self, frame: Bytes) -> Bytes {
        let Ok(mut message) = wire::SnapshotFrame::decode(frame.clone()) else { return frame };
        match &mut message.kind {
            Some(Kind::Head(head)) => self.is_resumed = head.resumes_after > 0,
            Some(Kind::Objects(_)) if !self.is_resumed => {
                let changed = flipped(&frame).unwrap_or(frame);
                self.checksum.update(&changed);
                return changed;
            }
            Some(Kind::End(end)) if !self.is_resumed => {
                end.checksum = self.checksum.clone().finalize();
                return Bytes::from(message.encode_to_vec());
            }
            _ => {}
        }
        frame
    }
}
