//! Receiving a snapshot: into memory and beside the current state on disk, then both at once. A peer that opens the
//! stream may ask for a snapshot instead of sending one.
//!
//! Owns what a received snapshot must satisfy before it is handed on: a head, every frame of objects, and an end that
//! counts them and has their checksum. A stream that ends early leaves everything as it was.

use std::time::Duration;

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;
use wire::snapshot_answer::Outcome;
use wire::snapshot_frame::Kind;

use super::in_own_name;
use crate::Runtime;
use crate::disk::{Disk, Install, StateWrite};
use crate::encoding::{DecodeError, check_format, decode, object_from_wire};
use crate::member::agreement::serve_pull;
use crate::member::codec::{Mark, required_vote, vote_to_wire};
use crate::member::consensus::{Snapshot, SnapshotMeta, Vote};
use crate::member::core::{Core, within};
use crate::member::machine::{Restore, SnapshotBody};
use crate::state::State;
use crate::transport::{Duplex, NodeId, Transport};

/// A sender that sends nothing for so long is gone: another may be waiting to send.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a snapshot was not installed.
type Refusal = String;

/// A snapshot as far as it has come.
struct Receiving {
    restore: Restore,
    install: Box<dyn Install>,
    objects: u64,
    checksum: crc32fast::Hasher,
}

/// Receives one snapshot and answers what became of it.
pub(super) async fn receive<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    from: NodeId,
    mut duplex: Duplex,
) {
    let first = next_frame::<R>(&mut duplex).await;
    if let Ok((Kind::Pull(_), _)) = &first {
        return send(core, from, &mut duplex).await;
    }
    let outcome = match try_receive(core, from, &mut duplex, first).await {
        Ok(vote) => Outcome::Vote(vote_to_wire(&vote)),
        Err(reason) => {
            tracing::warn!(%reason, from = from.0, "a snapshot was not installed");
            Outcome::Failure(reason)
        }
    };
    let answer = wire::SnapshotAnswer { outcome: Some(outcome) };
    // The sender may be gone by now; it will ask again.
    drop(duplex.sender.send(Bytes::from(answer.encode_to_vec())).await);
}

/// Sends the state that was asked for, or says why not.
async fn send<R: Runtime, D: Disk, T: Transport>(core: &Core<R, D, T>, from: NodeId, duplex: &mut Duplex) {
    if let Err(reason) = serve_pull(core, duplex).await {
        tracing::warn!(%reason, to = from.0, "a state that was asked for was not sent");
        let refused = wire::SnapshotFrame { kind: Some(Kind::Refused(reason)) };
        // The one who asked may be gone; it will ask again.
        drop(duplex.sender.send(Bytes::from(refused.encode_to_vec())).await);
    }
}

async fn try_receive<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    from: NodeId,
    duplex: &mut Duplex,
    first: Result<(Kind, Bytes), Refusal>,
) -> Result<Vote, Refusal> {
    let Ok(_alone) = core.installing.try_lock() else {
        return Err("another snapshot is being received".to_owned());
    };
    let head = head(first?.0)?;
    let vote = required_vote(head.vote).map_err(text)?;
    in_own_name(from, &vote)?;
    let (mark, state, install) = receive_state(core, duplex, head).await?;
    let body = SnapshotBody::Received(state, install);
    let meta = SnapshotMeta { last_log_id: mark.log_id, last_membership: mark.membership };
    let installed = core.raft.install_full_snapshot(vote, Snapshot { meta, snapshot: body }).await;
    Ok(installed.map_err(text)?.vote)
}

/// Receives the state that this member has asked for.
pub(crate) async fn receive_pulled<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    duplex: &mut Duplex,
) -> Result<(Mark, State, Box<dyn Install>), Refusal> {
    let (first, _) = next_frame::<R>(duplex).await?;
    receive_state(core, duplex, head(first)?).await
}

fn head(first: Kind) -> Result<wire::SnapshotHead, Refusal> {
    match first {
        Kind::Head(head) => Ok(head),
        Kind::Refused(reason) => Err(reason),
        Kind::Objects(_) | Kind::End(_) | Kind::Pull(_) => Err("the snapshot has no head".to_owned()),
    }
}

/// Receives what follows a head: in memory, and beside the current state on disk.
async fn receive_state<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    duplex: &mut Duplex,
    head: wire::SnapshotHead,
) -> Result<(Mark, State, Box<dyn Install>), Refusal> {
    let reads = core.feature.level.supported();
    check_format("snapshot", head.format, reads).map_err(|error| newer(core, error))?;
    let mark = Mark::from_wire(head.mark.unwrap_or_default()).map_err(text)?;
    let install = core.disk.begin_install().map_err(text)?;
    let mut receiving =
        Receiving { restore: Restore::default(), install, objects: 0, checksum: crc32fast::Hasher::new() };
    loop {
        match next_frame::<R>(duplex).await? {
            (Kind::Objects(objects), frame) => {
                receiving.add(objects, &frame, reads).map_err(|error| newer(core, error))?;
            }
            (Kind::End(end), _) => break receiving.check(&end)?,
            (Kind::Refused(reason), _) => return Err(reason),
            (Kind::Head(_) | Kind::Pull(_), _) => return Err("the snapshot has two heads".to_owned()),
        }
    }
    let state = receiving.restore.finish(&mark);
    Ok((mark, state, receiving.install))
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

/// A snapshot that only a newer program reads is the only way on from here: the member ends.
fn newer<R: Runtime, D: Disk, T: Transport>(core: &Core<R, D, T>, error: DecodeError) -> Refusal {
    if error.newer {
        core.fatal.report(&error);
    }
    text(error)
}

impl Receiving {
    fn add(&mut self, objects: wire::SnapshotObjects, frame: &[u8], reads: u32) -> Result<(), DecodeError> {
        self.checksum.update(frame);
        let mut writes = Vec::with_capacity(objects.objects.len());
        for wire::SnapshotObject { resource, path, object } in objects.objects {
            let object = object.ok_or_else(|| DecodeError::new("snapshot", "an object is missing"))?;
            check_format("stored object", object.format, reads)?;
            let record = Some(Bytes::from(object.encode_to_vec()));
            self.restore.add_object(&resource, &path, object_from_wire(object)?);
            writes.push(StateWrite { resource: resource.into(), path: path.into(), record });
            self.objects += 1;
        }
        self.install.put(writes).map_err(|error| DecodeError::new("snapshot", error))
    }

    fn check(&self, end: &wire::SnapshotEnd) -> Result<(), Refusal> {
        if self.objects == end.objects && self.checksum.clone().finalize() == end.checksum {
            return Ok(());
        }
        Err(format!("the snapshot is damaged: {} of {} objects came", self.objects, end.objects))
    }
}
