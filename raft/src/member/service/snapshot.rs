//! Receiving a snapshot, into memory and on disk beside the current state; both are replaced together. A peer that opens
//! the stream may pull a snapshot instead of sending one.
//!
//! Owns the checks of a received snapshot before it is passed on: a head, every frame of objects, and an end with their
//! number and checksum. A stream that ends early leaves the current state unchanged. Its objects are kept for a while, so
//! that the next stream of the same snapshot sends only the rest.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::Instant;
use orch_proto::store as wire;
use prost::Message;
use wire::snapshot_answer::Outcome;
use wire::snapshot_frame::Kind;

use super::in_own_name;
use super::partial::{Partial, Receiving};
use crate::Runtime;
use crate::disk::{Disk, Install};
use crate::encoding::{DecodeError, check_format, decode};
use crate::member::agreement::serving::serve_pull;
use crate::member::codec::{Mark, required_vote, vote_to_wire};
use crate::member::consensus::{Snapshot, SnapshotMeta, Vote};
use crate::member::core::{Core, within};
use crate::member::machine::SnapshotBody;
use crate::state::State;
use crate::transport::{Duplex, NodeId, Transport};

/// A sender that sends no frame for so long is gone: another may be waiting to send.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// Rounds of compaction for which a part of a snapshot is kept: thirty seconds. A working leader tries again within one or
/// two seconds; the part holds memory and disk space.
const PARTIAL_LOOKS: u32 = 120;

/// How long a snapshot is received from a leader while this member follows another. A newly elected leader is followed much
/// sooner.
const OTHER_LEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The refusal of a snapshot for lack of space.
const NO_ROOM: &str = "the disk has no room for the state beside the one that is there";

/// How long this member may take to apply the entries up to a state that it pulled: it lags behind the sender a little.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a snapshot was not installed.
type Refusal = String;

/// The sender of a state.
#[derive(Clone, Copy)]
struct Sender {
    /// The leader that sends its snapshot; `None` for a state that this member pulls.
    leader: Option<NodeId>,
    /// Whether the sender is believed, so that a form which only a newer program reads ends this member.
    may_end: bool,
}

/// Why receiving stopped.
enum Broken {
    /// The stream ended or stalled: another stream may resume.
    Stream(Refusal),
    /// The frames cannot be used.
    Content(Refusal),
}

/// Receives a snapshot and answers with this member's vote or the reason of the refusal; or serves a pull.
pub(super) async fn receive<R: Runtime, D: Disk, T: Transport>(
    core: &Arc<Core<R, D, T>>,
    from: NodeId,
    mut duplex: Duplex,
) {
    let first = next_frame::<R>(&mut duplex).await;
    if let Ok((Kind::Pull(_), _)) = &first {
        return match core.check_member(from).await {
            Ok(()) => send(core, from, &mut duplex).await,
            Err(reason) if core.may_warn() => {
                tracing::warn!(reason, %from, "a state that was asked for was not sent");
            }
            Err(_) => {}
        };
    }
    let outcome = match try_receive(core, from, &mut duplex, first).await {
        Ok(vote) => Outcome::Vote(vote_to_wire(&vote)),
        Err(reason) => {
            if core.may_warn() {
                tracing::warn!(%reason, %from, "a snapshot was not installed");
            }
            Outcome::Failure(reason)
        }
    };
    let answer = wire::SnapshotAnswer { outcome: Some(outcome) };
    // The sender may be gone by now. It sends the snapshot again.
    drop(duplex.sender.send(Bytes::from(answer.encode_to_vec())).await);
}

/// Serves a pull: sends this member's state, or logs why not.
async fn send<R: Runtime, D: Disk, T: Transport>(core: &Core<R, D, T>, from: NodeId, duplex: &mut Duplex) {
    if let Err(reason) = serve_pull(core, duplex).await {
        tracing::warn!(%reason, to = %from, "a state that was asked for was not sent");
        let refused = wire::SnapshotFrame { kind: Some(Kind::Refused(reason)) };
        // The member that pulls may be gone. It asks again.
        drop(duplex.sender.send(Bytes::from(refused.encode_to_vec())).await);
    }
}

async fn try_receive<R: Runtime, D: Disk, T: Transport>(
    core: &Arc<Core<R, D, T>>,
    from: NodeId,
    duplex: &mut Duplex,
    first: Result<(Kind, Bytes), Refusal>,
) -> Result<Vote, Refusal> {
    let head = head(first?.0)?;
    core.check_leader_to_be(from, head.vote.as_ref(), head.recall.as_ref()).await?;
    let vote = required_vote(head.vote).map_err(text)?;
    in_own_name(from, &vote)?;
    let mark = Mark::from_wire(head.mark.clone().unwrap_or_default()).map_err(text)?;
    core.check_state(from, &vote, mark.log_id)?;
    let may_end = core.is_believed(from);
    let Ok(mut partial) = core.installing.try_lock() else {
        return Err("another snapshot is being received".to_owned());
    };
    let sender = Sender { leader: Some(from), may_end };
    let (mark, state, install) = receive_state(core, duplex, head, &mut partial, sender).await?;
    let body = SnapshotBody::Received(state, install);
    let meta = SnapshotMeta { last_log_id: mark.log_id, last_membership: mark.membership };
    let installed = core.raft.install_full_snapshot(vote, Snapshot { meta, snapshot: body }).await;
    Ok(installed.map_err(text)?.vote)
}

/// Receives the state that this member pulls from `from`. It is refused unless its head names an entry of this member's log.
/// If the state is ahead of this member, the log must arrive first, or the leader's snapshot in place of the log.
pub(crate) async fn receive_pulled<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    from: NodeId,
    duplex: &mut Duplex,
) -> Result<(Mark, State, Box<dyn Install>), Refusal> {
    let (first, _) = next_frame::<R>(duplex).await?;
    let head = head(first)?;
    let mark = Mark::from_wire(head.mark.clone().unwrap_or_default()).map_err(text)?;
    let applied = core.applied.gate().wait(mark.revision());
    within::<R, _>(CATCH_UP_TIMEOUT, applied).await.ok_or("this member lacks the log up to that state")?;
    core.check_lineage(from, mark.log_id)?;
    let sender = Sender { leader: None, may_end: core.is_in_touch() };
    receive_state(core, duplex, head, &mut None, sender).await
}

fn head(first: Kind) -> Result<wire::SnapshotHead, Refusal> {
    match first {
        Kind::Head(head) => Ok(head),
        Kind::Refused(reason) => Err(reason),
        Kind::Objects(_) | Kind::End(_) | Kind::Pull(_) => Err("the snapshot has no head".to_owned()),
    }
}

/// Receives the objects after a head, into memory and on disk beside the current state. They are in `partial` until the end,
/// so that they stay there when the stream breaks.
async fn receive_state<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    duplex: &mut Duplex,
    head: wire::SnapshotHead,
    partial: &mut Option<Partial>,
    sender: Sender,
) -> Result<(Mark, State, Box<dyn Install>), Refusal> {
    let reads = core.feature.level.supported();
    check_format("snapshot", head.format, reads).map_err(|error| newer(core, error, sender.may_end))?;
    if core.space.is_nearly_full() {
        return Err(NO_ROOM.to_owned());
    }
    let mark = head.mark.unwrap_or_default();
    let encoded = Bytes::from(mark.encode_to_vec());
    let mark = Mark::from_wire(mark).map_err(text)?;
    let receiving = match partial.take() {
        Some(kept) if kept.mark == encoded && kept.receiving.objects == head.resumes_after => kept.receiving,
        _ if head.resumes_after > 0 => {
            return Err("what an earlier stream brought of the snapshot is gone".to_owned());
        }
        _ => Receiving::begin(core.disk.begin_install().map_err(text)?),
    };
    if receiving.objects > 0 {
        tracing::info!(objects = receiving.objects, revision = mark.revision().0, "going on with a snapshot");
    }
    let kept = partial.insert(Partial { mark: encoded, receiving, looks: 0 });
    match receive_objects(core, duplex, &mut kept.receiving, sender).await {
        Ok(()) => {}
        Err(Broken::Stream(reason)) => return Err(reason),
        Err(Broken::Content(reason)) => {
            *partial = None;
            return Err(reason);
        }
    }
    let Some(Partial { receiving, .. }) = partial.take() else {
        return Err("the snapshot is gone".to_owned());
    };
    let state = receiving.restore.finish(&mark).map_err(text)?;
    Ok((mark, state, receiving.install))
}

/// Receives objects up to the end of the snapshot.
async fn receive_objects<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    duplex: &mut Duplex,
    receiving: &mut Receiving,
    Sender { leader, may_end }: Sender,
) -> Result<(), Broken> {
    let (reads, began) = (core.feature.level.supported(), R::Instant::now());
    loop {
        let next = next_frame::<R>(duplex).await.map_err(Broken::Stream)?;
        // The sender was let in when the stream began; another may lead by now, whose snapshot is needed here.
        let is_old = began.elapsed() > OTHER_LEADER_TIMEOUT;
        if is_old && leader.is_some_and(|sender| core.leader().is_some_and(|now| now.peer.id != sender)) {
            return Err(Broken::Stream("another member leads".to_owned()));
        }
        match next {
            (Kind::Objects(objects), frame) => {
                // A full disk would end the member, with the state that it has.
                if core.space.is_nearly_full() {
                    return Err(Broken::Content(NO_ROOM.to_owned()));
                }
                let added = receiving.add(objects, &frame, reads);
                added.map_err(|error| Broken::Content(newer(core, error, may_end)))?;
            }
            (Kind::End(end), _) => return receiving.check(&end).map_err(Broken::Content),
            (Kind::Refused(reason), _) => return Err(Broken::Content(reason)),
            (Kind::Head(_) | Kind::Pull(_), _) => {
                return Err(Broken::Content("the snapshot has two heads".to_owned()));
            }
        }
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Answers how many objects this member has of a snapshot whose stream broke; 0 for another snapshot.
    pub(super) fn answer_snapshot_offset(
        &self,
        request: wire::SnapshotOffsetRequest,
    ) -> Result<wire::SnapshotOffsetResponse, Refusal> {
        let partial = self.installing.try_lock().map_err(|_| "a snapshot is being received")?;
        let mark = request.mark.unwrap_or_default().encode_to_vec();
        let same = partial.as_ref().filter(|kept| kept.mark == mark);
        Ok(wire::SnapshotOffsetResponse { objects: same.map_or(0, |kept| kept.receiving.objects) })
    }

    /// Counts a round of compaction for a snapshot whose stream broke, and drops it after [`PARTIAL_LOOKS`] rounds.
    pub(crate) fn forget_partial(&self) {
        let Ok(mut partial) = self.installing.try_lock() else { return };
        if let Some(kept) = &mut *partial {
            kept.looks += 1;
            if kept.looks > PARTIAL_LOOKS {
                tracing::info!(objects = kept.receiving.objects, "gave up a snapshot that came in part");
                *partial = None;
            }
        }
    }
}

async fn next_frame<R: Runtime>(duplex: &mut Duplex) -> Result<(Kind, Bytes), Refusal> {
    let frame = within::<R, _>(FRAME_TIMEOUT, duplex.receiver.recv()).await;
    let frame = frame.ok_or("the snapshot stalled")?.ok_or("the snapshot ended early")?;
    let message: wire::SnapshotFrame = decode("snapshot frame", frame.clone()).map_err(text)?;
    Ok((message.kind.ok_or("a frame of the snapshot is empty")?, frame))
}

fn text(error: impl ToString) -> Refusal {
    error.to_string()
}

/// The refusal of a snapshot over `error`. If only a newer program can read it and the sender is believed, the member ends:
/// it cannot go on without that snapshot.
fn newer<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    error: DecodeError,
    may_end: bool,
) -> Refusal {
    if error.newer && may_end {
        core.fatal.report(&error);
    }
    text(error)
}
