//! Appends proposals that other members forward, as the leader.
//!
//! Owns the answers to frames of a forward stream: one for each frame, once every proposal in it is applied, refused,
//! or discarded. Only refusals are named; the outcome reaches the proposer with the log. While frames wait, the sender
//! gets signs of life; a sender that reads no answers is given up.
//!
//! Invariant: no entry is appended that this member could not apply. A member of a later version may forward one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::Select2;
use orch_proto::store as wire;
use orch_spans::{SpanKind, now_micros};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;

use super::{FRAMES_UNDER_WAY_MAX, append};
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::{DecodeError, check_format, check_transaction, decode};
use crate::member::core::{Core, within};
use crate::member::proposals::TRANSACTION_BYTES_MAX;
use crate::member::trust::standing::Standing;
use crate::store::ProposeError;
use crate::transport::{Duplex, NodeId, Transport};

/// Period of the signs of life from a leader with frames under way: without a quorum it answers none of them, and a sender
/// that reconnected with a new stream would fill the log. A quarter of the sender's `LISTEN_PERIOD`.
const SIGN_PERIOD: Duration = Duration::from_millis(500);

/// The sequence of a sign of life, which answers no frame: those of frames begin at 1.
const SIGN_OF_LIFE: u64 = 0;

/// Time for the sender to take an answer. After it the sender has stalled or is cut off: its stream is ended, so that it
/// holds no task here.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A frame whose proposals are not all settled. The answer goes out when the last reference is dropped.
struct Frame {
    sequence: u64,
    settled: Mutex<Settled>,
    answers: mpsc::Sender<(u64, Settled)>,
}

/// Proposals of a frame that are certainly not in the log.
#[derive(Default)]
struct Settled {
    /// Positions in the frame of proposals that the sender may send again.
    not_appended: Vec<u32>,
    /// Proposals that it must not send again, with reasons.
    refused: Vec<wire::ForwardRefusal>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        let settled = std::mem::take(&mut *self.settled.lock());
        // The channel has room for all frames that a sender may have under way. Sending fails when it exceeds that, or the
        // stream has ended.
        drop(self.answers.try_send((self.sequence, settled)));
    }
}

/// Serves one member's stream until it ends. Frames that come before this member knows that the sender still is a member
/// are answered as not appended: ending the stream instead would leave their outcome unknown.
pub(crate) async fn serve_forwarded<R: Runtime, D: Disk, T: Transport>(
    core: Arc<Core<R, D, T>>,
    from: NodeId,
    duplex: Duplex,
) {
    let Duplex { sender, mut receiver } = duplex;
    let (answers, mut to_send) = mpsc::channel::<(u64, Settled)>(FRAMES_UNDER_WAY_MAX);
    let taken = AtomicU64::new(0);
    let answering = async {
        let mut answered: u64 = 0;
        loop {
            let answer = within::<R, _>(SIGN_PERIOD, to_send.recv()).await;
            let (sequence, Settled { not_appended, refused }) = match answer {
                Some(Some(answer)) => {
                    answered += 1;
                    answer
                }
                Some(None) => return,
                None if answered == taken.load(Ordering::Relaxed) => continue,
                None => (SIGN_OF_LIFE, Settled::default()),
            };
            // A removed member is told nothing but that its writes are refused.
            let leader = core.leader().filter(|_| core.standing(from) == Standing::Member);
            let leader = leader.map_or(0, |leader| leader.peer.id.0);
            let answer = wire::ForwardResponse { sequence, not_appended, leader, refused };
            let sent = sender.send(Bytes::from(answer.encode_to_vec()));
            if !matches!(within::<R, _>(UNREAD_TIMEOUT, sent).await, Some(Ok(()))) {
                return;
            }
        }
    };
    let taking = async {
        let mut is_let_in = false;
        while let Some(frame) = receiver.recv().await {
            match read_frame(frame, core.feature.level.supported()) {
                Ok(request) => {
                    taken.fetch_add(1, Ordering::Relaxed);
                    is_let_in = is_let_in || core.check_member(from).await.is_ok();
                    // Checked for each frame: the member that opened the stream may have been removed since.
                    let is_let_in = is_let_in && core.standing(from) == Standing::Member;
                    take_frame(&core, is_let_in, request, &answers).await;
                }
                Err(error) => {
                    if core.warnings.may_warn("forwarded and unreadable") {
                        tracing::warn!(%error, "a member forwards what cannot be read");
                    }
                    return;
                }
            }
        }
    };
    match R::select2(taking, answering).await {
        Select2::First(()) | Select2::Second(()) => {}
    }
}

fn read_frame(frame: Bytes, reads: u32) -> Result<wire::ForwardRequest, DecodeError> {
    let request: wire::ForwardRequest = decode("forward request", frame)?;
    check_format("forward request", request.format, reads)?;
    Ok(request)
}

/// The reason why no leader may append a forwarded transaction; `None` when it may be appended.
fn refusal(bytes: &[u8], reads: u32) -> Option<String> {
    if bytes.len() > TRANSACTION_BYTES_MAX {
        let bytes = bytes.len();
        return Some(ProposeError::TooLarge { bytes, limit: TRANSACTION_BYTES_MAX }.to_string());
    }
    check_transaction(bytes, reads).err().map(|error| error.to_string())
}

async fn take_frame<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    is_let_in: bool,
    request: wire::ForwardRequest,
    answers: &mpsc::Sender<(u64, Settled)>,
) {
    let traces = core.proposals.traces();
    traces.note_marks(&request.traces, |position| request.transactions.get(position));
    let answers = answers.clone();
    let frame = Arc::new(Frame { sequence: request.sequence, settled: Mutex::default(), answers });
    for (position, bytes) in (0u32..).zip(request.transactions) {
        if !is_let_in {
            frame.settled.lock().not_appended.push(position);
            continue;
        }
        if let Some(reason) = refusal(&bytes, core.feature.level.supported()) {
            if core.warnings.may_warn("a forwarded proposal is refused") {
                tracing::warn!(%reason, "a forwarded proposal is refused");
            }
            frame.settled.lock().refused.push(wire::ForwardRefusal { position, reason });
            continue;
        }
        // Copied, or the whole frame would stay in memory for as long as the log's tail holds one of its entries.
        let bytes = Bytes::copy_from_slice(&bytes);
        let (settling, traced) = (frame.clone(), traces.begin_one(&bytes));
        append(core, request.term, bytes, move || settling.settled.lock().not_appended.push(position)).await;
        if let Some((began, trace)) = traced {
            trace.ended(SpanKind::Server, "append forwarded", (began, now_micros())).record();
        }
    }
}
