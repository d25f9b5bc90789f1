//! Sending a snapshot: a head, objects in bounded frames, an end that counts them.
//!
//! Owns the frames of a snapshot on the sending side. The state is a persistent root taken beforehand, so writes go on
//! while it is sent and nothing is copied.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use openraft::OptionalSend;
use openraft::errors::{NetworkError, ReplicationClosed, StreamingError};
use openraft::raft::SnapshotResponse;
use openraft_rt::Select2;
use orch_proto::store as wire;
use prost::Message;
use wire::snapshot_answer::Outcome;
use wire::snapshot_frame::Kind;

use super::{Link, from_transport};
use crate::Runtime;
use crate::encoding::{decode, object_to_wire};
use crate::member::codec::{Mark, required_vote, vote_to_wire};
use crate::member::consensus::{Snapshot, Types, Vote};
use crate::member::machine::SnapshotBody;
use crate::state::State;
use crate::transport::{Duplex, Purpose, Transport};

/// Bytes of objects in one frame; one object may be larger by itself. Far below what a transport carries.
const FRAME_BYTES_MAX: usize = 1 << 20;

type Streaming<R> = StreamingError<Types<R>>;

impl<R: Runtime, T: Transport> Link<R, T> {
    /// Sends a snapshot and waits until it is installed, refused, or `cancel`led.
    pub(super) async fn send_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<SnapshotBody>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        timeout: Duration,
    ) -> Result<SnapshotResponse<Types<R>>, Streaming<R>> {
        let SnapshotBody::Sending(state) = snapshot.snapshot else {
            return Err(failure("a received snapshot was given to send"));
        };
        let changed = Some(state.changed_at_floor(state.applied()));
        let mark =
            Mark { log_id: snapshot.meta.last_log_id, membership: snapshot.meta.last_membership, changed };
        let _held = self.holds.hold(mark.revision().0);
        let sending = R::timeout(timeout, self.exchange(vote, &mark, &state)).boxed();
        match R::select2(cancel.boxed(), sending).await {
            Select2::First(closed) => Err(StreamingError::Closed(closed)),
            Select2::Second(Ok(answered)) => answered,
            Select2::Second(Err(_)) => Err(failure("the snapshot was not installed in time")),
        }
    }

    async fn exchange(
        &self,
        vote: Vote,
        mark: &Mark,
        state: &State,
    ) -> Result<SnapshotResponse<Types<R>>, Streaming<R>> {
        let opened = self.transport.open(&self.peer, Purpose::Snapshot).await;
        let mut duplex = opened.map_err(|error| Streaming::<R>::from(from_transport::<R>(&error)))?;
        let head =
            wire::SnapshotHead { vote: Some(vote_to_wire(&vote)), mark: Some(mark.to_wire()), format: 0 };
        // A receiver that has refused answers before the end and stops reading.
        if send(&mut duplex, Kind::Head(head)).await.is_ok() {
            drop(send_state(&mut duplex, state).await);
        }
        let frame =
            duplex.receiver.recv().await.ok_or_else(|| failure("the stream of the snapshot ended"))?;
        let answer: wire::SnapshotAnswer =
            decode("snapshot answer", frame).map_err(|error| failure(&error.to_string()))?;
        match answer.outcome {
            Some(Outcome::Vote(vote)) => {
                let vote = required_vote(Some(vote)).map_err(|error| failure(&error.to_string()))?;
                Ok(SnapshotResponse::new(vote))
            }
            Some(Outcome::Failure(reason)) => Err(failure(&reason)),
            None => Err(failure("the member answered something else")),
        }
    }
}

/// Sends a state to a peer that asked for it.
pub(crate) async fn send_pulled(duplex: &mut Duplex, mark: &Mark, state: &State) -> Result<(), String> {
    let head = wire::SnapshotHead { vote: None, mark: Some(mark.to_wire()), format: 0 };
    let sent = match send(duplex, Kind::Head(head)).await {
        Ok(()) => send_state(duplex, state).await,
        ended => ended,
    };
    sent.map_err(|Ended| "the member that asked has stopped reading".to_owned())
}

/// The other side has stopped reading.
struct Ended;

async fn send_state(duplex: &mut Duplex, state: &State) -> Result<(), Ended> {
    let (mut frame, mut bytes, mut count) = (Vec::new(), 0, 0);
    let mut checksum = crc32fast::Hasher::new();
    for (resource, collection) in state.collections() {
        for (path, object) in collection.range_from("") {
            bytes += object.json.len();
            count += 1;
            let (resource, path) = (resource.to_string(), path.to_string());
            frame.push(wire::SnapshotObject { resource, path, object: Some(object_to_wire(object)) });
            if bytes >= FRAME_BYTES_MAX {
                bytes = 0;
                send_objects(duplex, std::mem::take(&mut frame), &mut checksum).await?;
            }
        }
    }
    send_objects(duplex, frame, &mut checksum).await?;
    send(duplex, Kind::End(wire::SnapshotEnd { objects: count, checksum: checksum.finalize() })).await
}

async fn send_objects(
    duplex: &mut Duplex,
    objects: Vec<wire::SnapshotObject>,
    checksum: &mut crc32fast::Hasher,
) -> Result<(), Ended> {
    let frame = encode(Kind::Objects(wire::SnapshotObjects { objects }));
    checksum.update(&frame);
    duplex.sender.send(frame).await.map_err(|_| Ended)
}

async fn send(duplex: &mut Duplex, kind: Kind) -> Result<(), Ended> {
    duplex.sender.send(encode(kind)).await.map_err(|_| Ended)
}

fn encode(kind: Kind) -> Bytes {
    Bytes::from(wire::SnapshotFrame { kind: Some(kind) }.encode_to_vec())
}

fn failure<R: Runtime>(reason: &str) -> Streaming<R> {
    StreamingError::Network(NetworkError::from_string(reason))
}
