//! Taking proposals of other members, as the leader.
//!
//! Owns the answers to frames of a forward stream: one for each frame, once every proposal in it is applied, refused,
//! or discarded. Only refusals are named; the outcome reaches the proposer with the log.

use std::sync::Arc;

use bytes::Bytes;
use openraft_rt::Select2;
use orch_proto::store as wire;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;

use super::{FRAMES_UNDER_WAY_MAX, append};
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::decode;
use crate::member::core::Core;
use crate::member::proposals::TRANSACTION_BYTES_MAX;
use crate::member::standing::Standing;
use crate::transport::{Duplex, NodeId, Transport};

/// A frame whose proposals are not all settled. The answer goes out when the last reference is dropped.
struct Frame {
    sequence: u64,
    refused: Mutex<Vec<u32>>,
    answers: mpsc::Sender<(u64, Vec<u32>)>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        let refused = std::mem::take(&mut *self.refused.lock());
        // There is room for all frames that a sender may have under way. Else it broke the rules, or is gone.
        drop(self.answers.try_send((self.sequence, refused)));
    }
}

/// Serves one member's stream until it ends.
pub(crate) async fn serve_forwarded<R: Runtime, D: Disk, T: Transport>(
    core: Arc<Core<R, D, T>>,
    from: NodeId,
    duplex: Duplex,
) {
    let Duplex { sender, mut receiver } = duplex;
    let (answers, mut to_send) = mpsc::channel::<(u64, Vec<u32>)>(FRAMES_UNDER_WAY_MAX);
    let answering = async {
        while let Some((sequence, not_appended)) = to_send.recv().await {
            let leader = core.leader().map_or(0, |leader| leader.peer.id.0);
            let answer = wire::ForwardResponse { sequence, not_appended, leader };
            if sender.send(Bytes::from(answer.encode_to_vec())).await.is_err() {
                return;
            }
        }
    };
    let taking = async {
        while let Some(frame) = receiver.recv().await {
            match decode::<wire::ForwardRequest>("forward request", frame) {
                Ok(request) => take_frame(&core, from, request, &answers).await,
                Err(error) => {
                    tracing::warn!(%error, "a member forwards what cannot be read");
                    return;
                }
            }
        }
    };
    match R::select2(taking, answering).await {
        Select2::First(()) | Select2::Second(()) => {}
    }
}

async fn take_frame<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    from: NodeId,
    request: wire::ForwardRequest,
    answers: &mpsc::Sender<(u64, Vec<u32>)>,
) {
    let answers = answers.clone();
    let frame = Arc::new(Frame { sequence: request.sequence, refused: Mutex::default(), answers });
    // Asked for each frame: a stream that was opened by a member may be that of a removed one by now.
    let is_member = core.standing(from) == Standing::Member;
    for (position, bytes) in (0u32..).zip(request.transactions) {
        if !is_member || bytes.len() > TRANSACTION_BYTES_MAX {
            frame.refused.lock().push(position);
            continue;
        }
        // Out of the frame: it would stay in memory for as long as the log's tail holds one of its entries.
        let bytes = Bytes::copy_from_slice(&bytes);
        let settling = frame.clone();
        append(core, request.term, bytes, move || settling.refused.lock().push(position)).await;
    }
}
