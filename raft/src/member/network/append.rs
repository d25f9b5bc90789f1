//! Replication over one ordered stream.
//!
//! Owns the window: frames follow each other without waiting for answers, and answers come back in order. A stream with
//! requests under way but no progress is given up; the library then probes and starts a new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use futures::{FutureExt, Stream};
use openraft::OptionalSend;
use openraft::errors::RPCError;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendError, StreamAppendResult};
use orch_proto::store as wire;
use prost::Message;

use super::shape::check_shape;
use super::{Link, Rpc, from_transport, network_error, not_compared, unexpected};
use crate::Runtime;
use crate::encoding::{DecodeError, check_format, decode};
use crate::member::codec::{
    entry_from_frame, entry_to_wire, log_id_from_wire, log_id_to_wire, required_vote, vote_to_wire,
};
use crate::member::consensus::{LogId, Types};
use crate::member::feature::FeatureLevel;
use crate::member::old_disk::promises::Promises;
use crate::member::traces::Traces;
use crate::member::trust::answer_checks::{Scrutinized, Scrutiny, is_within};
use crate::transport::{Duplex, NodeId, Purpose, Transport};

/// Frames under way on one stream: frames have up to 2 MiB, so more of them would only fill buffers.
const FRAMES_UNDER_WAY_MAX: usize = 32;

/// Timeout of opening a stream. The library retries with pauses.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);

/// Time without an event on a stream with unanswered frames, after which the follower has stalled or is cut off. Well above
/// a slow sync.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before failing while disks are compared, since the library tries again at once.
const COMPARING_PAUSE: Duration = Duration::from_millis(50);

/// The error in place of the answer of a peer whose log was reverted.
pub(super) const REVERSION: &str = "the peer has less than it acknowledged";

type Answers<'s, R> = BoxStream<'s, Result<StreamAppendResult<Types<R>>, Rpc<R>>>;

/// A replication stream to one follower.
struct Pipeline<S> {
    /// The library's requests; `None` once they have ended.
    input: Option<S>,
    level: Arc<FeatureLevel>,
    duplex: Duplex,
    /// The follower. Its acknowledgements in `term` are noted in `promises`.
    peer: u64,
    promises: Promises,
    scrutiny: Scrutinized,
    traces: Arc<Traces>,
    /// Sent with the first request; `None` after that.
    recall: Option<wire::Recall>,
    term: u64,
    /// An encoded frame that waits for room in the stream.
    next: Option<(Bytes, Sent)>,
    /// The frames sent and not answered yet, oldest first.
    under_way: VecDeque<Sent>,
    failed: bool,
}

/// The position before the entries of a frame, and that of its last entry; equal for a frame without entries.
#[derive(Clone, Copy)]
struct Sent {
    previous: Option<LogId>,
    last: Option<LogId>,
}

/// The first of the events that a stream waits for.
enum Event<A> {
    Input(Option<A>),
    Room(Option<Sent>),
    Answer(Option<Bytes>),
    Stalled,
}

impl<R: Runtime, T: Transport> Link<R, T> {
    /// Sends a stream of appends; returns the stream of their answers.
    pub(super) fn pipeline<'s, S>(&'s mut self, input: S) -> BoxFuture<'s, Result<Answers<'s, R>, Rpc<R>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<R>>> + OptionalSend + Unpin + 'static,
    {
        let (shared, peer) = (self.shared.clone(), self.peer.clone());
        let recall = (shared.recollection)(peer.id.0);
        async move {
            if !shared.scrutiny.may_promise(peer.id.0) {
                R::sleep(COMPARING_PAUSE).await;
                return Err(not_compared());
            }
            let opened = R::timeout(OPEN_TIMEOUT, shared.transport.open(&peer, Purpose::Append)).await;
            let opened = opened.map_err(|_| network_error(&"no connection in time"))?;
            let duplex = opened.map_err(|error| from_transport(&error))?;
            let pipeline = Pipeline {
                input: Some(input),
                level: shared.level.clone(),
                duplex,
                peer: peer.id.0,
                promises: shared.promises.clone(),
                scrutiny: shared.scrutiny.clone(),
                traces: shared.traces.clone(),
                recall: Some(recall),
                term: 0,
                next: None,
                under_way: VecDeque::new(),
                failed: false,
            };
            let answers = futures::stream::unfold(pipeline, |mut pipeline| async move {
                let answer = pipeline.next_answer::<R>().await?;
                Some((answer, pipeline))
            });
            Ok(answers.boxed())
        }
        .boxed()
    }
}

impl<S> Pipeline<S> {
    /// Sends requests until an answer comes; `None` when the stream failed, or the requests ended and all are answered.
    async fn next_answer<R: Runtime>(&mut self) -> Option<Result<StreamAppendResult<Types<R>>, Rpc<R>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<R>>> + OptionalSend + Unpin + 'static,
    {
        loop {
            let idle = self.under_way.is_empty() && self.next.is_none();
            if self.failed || (idle && self.input.is_none()) {
                return None;
            }
            match self.event::<R>().await {
                Event::Input(request) => self.take(request),
                Event::Room(sent) => self.under_way.extend(sent),
                Event::Answer(Some(frame)) => {
                    let sent = self.under_way.pop_front();
                    let answer = self.reject_reversion(self.believable(sent, answer_from_frame(frame)));
                    if let Ok(Ok(through)) = &answer {
                        self.promises.note(self.peer, self.term, *through);
                    }
                    self.failed = !matches!(answer, Ok(Ok(_)));
                    return Some(answer);
                }
                Event::Answer(None) => return Some(Err(self.fail("the stream of appends ended"))),
                Event::Stalled => return Some(Err(self.fail("no answer to appends in time"))),
            }
        }
    }

    /// Turns an answer that cannot be true into a failure of the stream: on such an answer the consensus library would end this
    /// member, commit entries that no other member has, or adopt a made-up term.
    fn believable<R: Runtime>(
        &self,
        sent: Option<Sent>,
        answer: Result<StreamAppendResult<Types<R>>, Rpc<R>>,
    ) -> Result<StreamAppendResult<Types<R>>, Rpc<R>> {
        let Some(Sent { previous, last }) = sent else {
            return Err(network_error(&"the member answered what it was not asked"));
        };
        let is_believable = match &answer {
            Ok(Ok(through)) => is_within(*through, previous, last),
            Ok(Err(StreamAppendError::Conflict(conflict))) => previous.as_ref() == Some(conflict),
            Ok(Err(StreamAppendError::HigherVote(vote))) => {
                self.scrutiny.is_term_possible(vote.leader_id.term)
            }
            Err(_) => true,
        };
        if is_believable {
            return answer;
        }
        if self.scrutiny.may_warn("an impossible answer") {
            tracing::error!(peer = %NodeId(self.peer), ?answer, "a peer answers what cannot be");
        }
        Err(network_error(&"the member answered what cannot be"))
    }

    /// Turns the conflict of a peer that lacks entries which it acknowledged in this term into a failure of the stream. The
    /// consensus library would take the conflict for a fault of this member, and end it. The peer learns of its promises by
    /// identity answers and recalls, and ends itself.
    fn reject_reversion<R: Runtime>(
        &self,
        answer: Result<StreamAppendResult<Types<R>>, Rpc<R>>,
    ) -> Result<StreamAppendResult<Types<R>>, Rpc<R>> {
        match &answer {
            Ok(Err(StreamAppendError::Conflict(conflict)))
                if is_reversion(&self.promises, &self.scrutiny, self.peer, self.term, conflict.index) =>
            {
                Err(network_error(&REVERSION))
            }
            _ => answer,
        }
    }

    fn take<R: Runtime>(&mut self, request: Option<AppendEntriesRequest<Types<R>>>) {
        match request {
            Some(request) => {
                self.term = request.vote.leader_id.term;
                let mut frame = append_to_wire(&request, self.level.agreed());
                frame.recall = self.recall.take();
                frame.traces = self.traces.of_entries(&request.entries);
                let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
                let sent = Sent { previous: request.prev_log_id, last };
                self.next = Some((Bytes::from(frame.encode_to_vec()), sent));
            }
            None => self.input = None,
        }
    }

    fn fail<R: Runtime>(&mut self, reason: &str) -> Rpc<R> {
        self.failed = true;
        network_error(&reason)
    }

    /// Waits for an answer and, at the same time, for room if a frame waits, else for the next request if the window is open.
    async fn event<R: Runtime>(&mut self) -> Event<AppendEntriesRequest<Types<R>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<R>>> + OptionalSend + Unpin + 'static,
    {
        let Pipeline { input, duplex, next, under_way, .. } = self;
        let Duplex { sender, receiver } = duplex;
        let may_send = under_way.len() < FRAMES_UNDER_WAY_MAX;
        let send = async {
            match (next.is_some(), input.as_mut().filter(|_| may_send)) {
                (true, _) => match sender.reserve().await {
                    Ok(room) => Event::Room(next.take().map(|(frame, sent)| {
                        room.send(frame);
                        sent
                    })),
                    Err(_) => Event::Answer(None),
                },
                (false, Some(input)) => Event::Input(input.next().await),
                (false, None) => std::future::pending().await,
            }
        };
        let answer = async { Event::Answer(receiver.recv().await) };
        let either = async {
            match R::select2(answer, send).await {
                openraft_rt::Select2::First(event) | openraft_rt::Select2::Second(event) => event,
            }
        };
        if under_way.is_empty() {
            return either.await;
        }
        R::timeout(STALL_TIMEOUT, either).await.unwrap_or(Event::Stalled)
    }
}

/// Whether `peer`, which lacks the entry at index `conflict`, has acknowledged it in `term`.
pub(super) fn is_reversion(
    promises: &Promises,
    scrutiny: &Scrutinized,
    peer: u64,
    term: u64,
    conflict: u64,
) -> bool {
    let promise = promises.of(peer);
    let held = promise.log_id.filter(|_| promise.term == term).map(|last| last.index);
    let reverted = held.is_some_and(|held| held >= conflict);
    if reverted && scrutiny.may_warn("a peer has less than it acknowledged") {
        tracing::error!(peer = %NodeId(peer), conflict, held, "a peer has less on its disk than it acknowledged");
    }
    reverted
}

fn answer_from_frame<R: Runtime>(frame: Bytes) -> Result<StreamAppendResult<Types<R>>, Rpc<R>> {
    use wire::append_response::Outcome;
    let answer: wire::AppendResponse =
        decode("append response", frame).map_err(|error| network_error(&error))?;
    match answer.outcome {
        Some(Outcome::Accepted(accepted)) => Ok(Ok(accepted.through.map(log_id_from_wire))),
        Some(Outcome::Conflict(id)) => Ok(Err(StreamAppendError::Conflict(log_id_from_wire(id)))),
        Some(Outcome::HigherVote(vote)) => {
            let vote = required_vote(Some(vote)).map_err(|error| network_error(&error))?;
            Ok(Err(StreamAppendError::HigherVote(vote)))
        }
        Some(Outcome::Failure(reason)) => Err(network_error(&reason)),
        None => Err(unexpected()),
    }
}

/// The wire form of a follower's answer on a stream.
pub(crate) fn stream_result_to_wire<R: Runtime>(
    result: &StreamAppendResult<Types<R>>,
) -> wire::AppendResponse {
    use wire::append_response::Outcome;
    let outcome = match result {
        Ok(through) => Outcome::Accepted(wire::Accepted { through: through.as_ref().map(log_id_to_wire) }),
        Err(StreamAppendError::Conflict(id)) => Outcome::Conflict(log_id_to_wire(id)),
        Err(StreamAppendError::HigherVote(vote)) => Outcome::HigherVote(vote_to_wire(vote)),
    };
    wire::AppendResponse { outcome: Some(outcome) }
}

/// The wire form of a follower's answer to a heartbeat. Success and conflict carry no position: the sender knows it.
pub(crate) fn append_response_to_wire<R: Runtime>(
    answer: &AppendEntriesResponse<Types<R>>,
) -> wire::AppendResponse {
    use wire::append_response::Outcome;
    let outcome = match answer {
        AppendEntriesResponse::Success => Outcome::Accepted(wire::Accepted { through: None }),
        AppendEntriesResponse::PartialSuccess(through) => {
            Outcome::Accepted(wire::Accepted { through: through.as_ref().map(log_id_to_wire) })
        }
        AppendEntriesResponse::Conflict => Outcome::Conflict(wire::LogId::default()),
        AppendEntriesResponse::HigherVote(vote) => Outcome::HigherVote(vote_to_wire(vote)),
    };
    wire::AppendResponse { outcome: Some(outcome) }
}

pub(super) fn append_response_from_wire<R: Runtime>(
    answer: wire::AppendResponse,
) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
    use wire::append_response::Outcome;
    match answer.outcome {
        Some(Outcome::Accepted(_)) => Ok(AppendEntriesResponse::Success),
        Some(Outcome::Conflict(_)) => Ok(AppendEntriesResponse::Conflict),
        Some(Outcome::HigherVote(vote)) => {
            let vote = required_vote(Some(vote)).map_err(|error| network_error(&error))?;
            Ok(AppendEntriesResponse::HigherVote(vote))
        }
        Some(Outcome::Failure(reason)) => Err(network_error(&reason)),
        None => Err(unexpected()),
    }
}

pub(super) fn append_to_wire<R: Runtime>(
    request: &AppendEntriesRequest<Types<R>>,
    level: u32,
) -> wire::AppendRequest {
    wire::AppendRequest {
        vote: Some(vote_to_wire(&request.vote)),
        previous: request.prev_log_id.as_ref().map(log_id_to_wire),
        committed: request.leader_commit.as_ref().map(log_id_to_wire),
        entries: request.entries.iter().map(|entry| entry_to_wire(entry, level)).collect(),
        format: 0,
        recall: None,
        traces: Vec::new(),
    }
}

/// Decodes an append. `reads`: the highest feature level that this program reads. The entries are checked and own their
/// memory.
pub(crate) fn append_from_wire<R: Runtime>(
    request: wire::AppendRequest,
    reads: u32,
) -> Result<AppendEntriesRequest<Types<R>>, DecodeError> {
    check_format("append request", request.format, reads)?;
    let vote = required_vote(request.vote)?;
    let entries = request.entries.into_iter().map(|entry| entry_from_frame(entry, reads));
    let request = AppendEntriesRequest {
        vote,
        prev_log_id: request.previous.map(log_id_from_wire),
        leader_commit: request.committed.map(log_id_from_wire),
        entries: entries.collect::<Result<_, _>>()?,
    };
    check_shape(&request).map_err(|reason| DecodeError::new("append request", reason))?;
    Ok(request)
}
