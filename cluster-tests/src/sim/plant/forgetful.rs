//! Peers that have forgotten a member's promises, or that it ever started.
//!
//! Owns the change of requests to the member; [`Plant::forge`] changes the answers.

use std::sync::Arc;

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::transport::{PeerService, Purpose};
use prost::Message;

use super::{Altered, Plant};

/// Puts the bug of `plant` before `service`, if `plant` is one of the two about forgotten disks.
pub fn forgetful(service: Arc<dyn PeerService>, plant: Option<Plant>) -> Arc<dyn PeerService> {
    match plant {
        Some(plant @ (Plant::RollbackUnseen | Plant::EmptiedUnseen)) => {
            Altered::before(service, move |purpose, frame| plant.without_memory(purpose, frame))
        }
        _ => service,
    }
}

impl Plant {
    /// Removes the facts from which a member could detect that its disk is not its own.
    pub(super) fn forget(self, promised: &mut Option<wire::Promise>, starts: &mut u64) {
        *promised = None;
        if self == Plant::EmptiedUnseen {
            *starts = 0;
        }
    }

    fn forget_recall(self, recall: &mut Option<wire::Recall>) {
        if let Some(recall) = recall {
            self.forget(&mut recall.promised, &mut recall.starts);
        }
    }

    fn without_memory(self, purpose: Purpose, frame: Bytes) -> Bytes {
        match purpose {
            Purpose::Control => changed(frame, |request: &mut wire::ControlRequest| {
                self.forget_recall(&mut request.recall);
            }),
            Purpose::Append => changed(frame, |request: &mut wire::AppendRequest| {
                self.forget_recall(&mut request.recall);
            }),
            Purpose::Snapshot => changed(frame, |frame: &mut wire::SnapshotFrame| {
                if let Some(wire::snapshot_frame::Kind::Head(head)) = &mut frame.kind {
                    self.forget_recall(&mut head.recall);
                }
            }),
            Purpose::Forward => frame,
        }
    }
}

fn changed<M: Message + Default>(frame: Bytes, change: impl FnOnce(&mut M)) -> Bytes {
    let Ok(mut message) = M::decode(frame.clone()) else { return frame };
    change(&mut message);
    Bytes::from(message.encode_to_vec())
}
