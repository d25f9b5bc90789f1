//! Sending a snapshot: a head, objects in bounded frames, an end with their number and checksum.
//!
//! Owns the frames of a snapshot on the sending side. The state is a persistent root taken beforehand, so writes go on
//! while it is sent and no object is copied. After a stream broke, the next one begins with the objects that the receiver
//! lacks.

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
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;
use wire::snapshot_answer::Outcome;
use wire::snapshot_frame::Kind;

use super::{Link, control, from_transport};
use crate::Runtime;
use crate::encoding::{decode, object_to_wire};
use crate::member::codec::{Mark, required_vote, vote_to_wire};
use crate::member::consensus::{Snapshot, Types, Vote};
use crate::member::holds::Hold;
use crate::member::machine::SnapshotBody;
use crate::state::State;
use crate::transport::{Duplex, Purpose, Transport};

/// Bytes of objects in one frame, exceeded by its last object. Far below a transport's limit.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Timeout of the question how much the receiver has: it looks up a number.
const OFFSET_TIMEOUT: Duration = Duration::from_secs(1);

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
        // A quarantined member may lead for the sake of its log, but must not spread its wrong state: two members of three
        // would agree on it then.
        self.shared.agreement.may_serve().map_err(|error| failure(&error.reason))?;
        self.require_compared()?;
        let changed = Some(state.changed_at_floor(state.applied()));
        let mark =
            Mark { log_id: snapshot.meta.last_log_id, membership: snapshot.meta.last_membership, changed };
        let held = self.shared.holds.hold(self.peer.id, &state, &mark);
        let sending = R::timeout(timeout, self.exchange(vote, &mark, &state, &held)).boxed();
        match R::select2(cancel.boxed(), sending).await {
            Select2::First(closed) => Err(StreamingError::Closed(closed)),
            Select2::Second(Ok(answered)) => {
                if answered.is_ok() {
                    held.finish();
                }
                answered
            }
            Select2::Second(Err(_)) => Err(failure("the snapshot was not installed in time")),
        }
    }

    async fn exchange(
        &self,
        vote: Vote,
        mark: &Mark,
        state: &State,
        held: &Hold,
    ) -> Result<SnapshotResponse<Types<R>>, Streaming<R>> {
        let resumes_after = if held.continues { self.received(mark).await } else { 0 };
        let opened = self.shared.transport.open(&self.peer, Purpose::Snapshot).await;
        let mut duplex = opened.map_err(|error| Streaming::<R>::from(from_transport::<R>(&error)))?;
        let (vote, mark) = (Some(vote_to_wire(&vote)), Some(mark.to_wire()));
        let recall = Some((self.shared.recollection)(self.peer.id.0));
        let head = wire::SnapshotHead { vote, mark, resumes_after, format: 0, recall };
        // A receiver that refuses the snapshot answers before its end and stops reading.
        if send(&mut duplex, Kind::Head(head)).await.is_ok() {
            held.begin();
            drop(send_state(&mut duplex, state, resumes_after).await);
        }
        let frame =
            duplex.receiver.recv().await.ok_or_else(|| failure("the stream of the snapshot ended"))?;
        let answer: wire::SnapshotAnswer =
            decode("snapshot answer", frame).map_err(|error| failure(&error.to_string()))?;
        match answer.outcome {
            Some(Outcome::Vote(vote)) => {
                let vote = required_vote(Some(vote)).map_err(|error| failure(&error.to_string()))?;
                self.require_possible(&vote)?;
                Ok(SnapshotResponse::new(vote))
            }
            Some(Outcome::Failure(reason)) => Err(failure(&reason)),
            None => Err(failure("the member answered something else")),
        }
    }
}

impl<R: Runtime, T: Transport> Link<R, T> {
    /// The number of objects of a snapshot that the receiver still has from a stream that broke. 0 if it does not answer, or its
    /// version does not know the request.
    async fn received(&self, mark: &Mark) -> u64 {
        let request = wire::SnapshotOffsetRequest { mark: Some(mark.to_wire()) };
        match control(&self.shared.transport, &self.peer, Request::SnapshotOffset(request), OFFSET_TIMEOUT)
            .await
        {
            Ok(Response::SnapshotOffset(answer)) => answer.objects,
            _ => 0,
        }
    }
}

/// Sends a state to a peer that pulls it.
///
/// # Errors
/// The peer has stopped reading.
pub(crate) async fn send_pulled(duplex: &mut Duplex, mark: &Mark, state: &State) -> Result<(), String> {
    let head = wire::SnapshotHead { mark: Some(mark.to_wire()), ..wire::SnapshotHead::default() };
    let sent = match send(duplex, Kind::Head(head)).await {
        Ok(()) => send_state(duplex, state, 0).await,
        ended => ended,
    };
    sent.map_err(|Ended| "the member that asked has stopped reading".to_owned())
}

/// The other side has stopped reading.
struct Ended;

/// Sends the objects of a state after the first `skipped`. The checksum is over the frames of all objects.
async fn send_state(duplex: &mut Duplex, state: &State, skipped: u64) -> Result<(), Ended> {
    let (mut frame, mut bytes, mut count) = (Vec::new(), 0, 0u64);
    let mut checksum = crc32fast::Hasher::new();
    for (resource, collection) in state.collections() {
        for (path, object) in collection.range_from("") {
            bytes += object.json.len();
            count += 1;
            let (resource, path) = (resource.to_string(), path.to_string());
            frame.push(wire::SnapshotObject { resource, path, object: Some(object_to_wire(object)) });
            if bytes >= FRAME_BYTES_MAX {
                bytes = 0;
                let encoded = encode_objects(std::mem::take(&mut frame), &mut checksum);
                if count > skipped {
                    duplex.sender.send(encoded).await.map_err(|_| Ended)?;
                }
            }
        }
    }
    // A frame without objects is neither sent nor in the checksum: a receiver, which counts objects, could not report that
    // it has it.
    if !frame.is_empty() {
        let encoded = encode_objects(frame, &mut checksum);
        if count > skipped {
            duplex.sender.send(encoded).await.map_err(|_| Ended)?;
        }
    }
    send(duplex, Kind::End(wire::SnapshotEnd { objects: count, checksum: checksum.finalize() })).await
}

fn encode_objects(objects: Vec<wire::SnapshotObject>, checksum: &mut crc32fast::Hasher) -> Bytes {
    let frame = encode(Kind::Objects(wire::SnapshotObjects { objects }));
    checksum.update(&frame);
    frame
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
