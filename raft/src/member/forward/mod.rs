//! Getting proposals to the leader, wherever it is.
//!
//! Owns the one task that sends this member's proposals: to the consensus library when this member leads, else over one
//! ordered stream to the leader. Both ways name the term they mean, so that a proposal is appended in that term or
//! never (see the proposals' life). Outcomes do not come this way: they come from applying.

mod receive;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, select_biased};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use orch_proto::store as wire;
use prost::Message;

pub(crate) use self::receive::serve_forwarded;
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::decode;
use crate::member::consensus::{Callback, Command, CommittedLeader, WriteResult};
use crate::member::core::{Core, Leader, within};
use crate::transport::{Duplex, Purpose, Transport};

/// Frames on the stream that the leader has not answered. It answers a frame once all of it is applied or refused, so
/// this bounds what a member has under way: 64 frames of 256 proposals.
pub(super) const FRAMES_UNDER_WAY_MAX: usize = 64;

/// Proposals in one frame or batch: enough to fill a sync, few enough that the first does not wait for the last.
const BATCH_COUNT_MAX: usize = 256;

/// Bytes in one frame or batch; one proposal may be larger by itself.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// After a refusal: the new leader is not known yet, or hands over.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// A connection that takes longer has failed.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the proposals of one member.
struct Sender<R: Runtime, D: Disk, T: Transport> {
    core: Arc<Core<R, D, T>>,
    stream: Option<Stream>,
}

/// A stream to a leader.
struct Stream {
    leader: Leader,
    duplex: Duplex,
    sequence: u64,
    /// Frames without an answer, and the proposals in them.
    under_way: BTreeMap<u64, Vec<u64>>,
}

/// What the sender was woken by.
enum Happened {
    /// A frame from the leader; `None` when the stream ended.
    Answer(Option<Bytes>),
    /// Who leads may have changed; `false` when the consensus library is gone.
    Leader(bool),
    Queued,
}

/// Why sending stopped.
enum Sent {
    /// Nothing more can be sent now; something will happen.
    AllFor,
    /// No connection; try again in a moment.
    Refused,
}

/// Sends proposals for as long as the member lives.
pub(crate) async fn send_proposals<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    let mut leaders = core.raft.server_metrics();
    let mut sender = Sender { core, stream: None };
    loop {
        if let Sent::Refused = sender.send_queued().await {
            R::sleep(REFUSED_PAUSE).await;
            continue;
        }
        let core = sender.core.clone();
        let answered = async {
            match sender.stream.as_mut() {
                Some(stream) => stream.duplex.receiver.recv().await,
                None => pending().await,
            }
        };
        let happened = select_biased! {
            answer = answered.fuse() => Happened::Answer(answer),
            changed = leaders.changed().fuse() => Happened::Leader(changed.is_ok()),
            () = core.proposals.wait_queued().fuse() => Happened::Queued,
        };
        match happened {
            Happened::Answer(answer) => sender.take_answer(answer),
            Happened::Leader(true) | Happened::Queued => {}
            Happened::Leader(false) => return,
        }
        if core.proposals.take_refused() {
            R::sleep(REFUSED_PAUSE).await;
        }
    }
}

impl<R: Runtime, D: Disk, T: Transport> Sender<R, D, T> {
    /// Sends what is queued, as far as the window to the leader allows.
    async fn send_queued(&mut self) -> Sent {
        let Some(leader) = self.core.leader() else {
            self.stream = None;
            return Sent::AllFor;
        };
        if leader.local {
            self.stream = None;
            return self.append_queued(leader.term).await;
        }
        if !self.core.proposals.has_queued() {
            return Sent::AllFor;
        }
        if !self.connect(leader).await {
            return Sent::Refused;
        }
        self.forward_queued().await
    }

    /// As the leader of `term`.
    async fn append_queued(&mut self, term: u64) -> Sent {
        loop {
            let batch = self.core.proposals.take(term, BATCH_COUNT_MAX, BATCH_BYTES_MAX);
            if batch.is_empty() {
                return Sent::AllFor;
            }
            for (sequence, bytes) in batch {
                let proposals = self.core.proposals.clone();
                append(&self.core, term, bytes, move || proposals.not_appended(term, [sequence])).await;
            }
        }
    }

    /// Makes sure that the stream leads to `leader`.
    async fn connect(&mut self, leader: Leader) -> bool {
        if self.stream.as_ref().is_some_and(|stream| stream.leader == leader) {
            return true;
        }
        self.stream = None;
        let opened =
            within::<R, _>(OPEN_TIMEOUT, self.core.transport.open(&leader.peer, Purpose::Forward)).await;
        let Some(Ok(duplex)) = opened else { return false };
        self.stream = Some(Stream { leader, duplex, sequence: 0, under_way: BTreeMap::new() });
        true
    }

    async fn forward_queued(&mut self) -> Sent {
        while let Some(stream) = &mut self.stream {
            if stream.under_way.len() >= FRAMES_UNDER_WAY_MAX {
                return Sent::AllFor;
            }
            let batch = self.core.proposals.take(stream.leader.term, BATCH_COUNT_MAX, BATCH_BYTES_MAX);
            if batch.is_empty() {
                return Sent::AllFor;
            }
            if !stream.send(batch).await {
                self.stream = None;
            }
        }
        Sent::Refused
    }

    /// Takes the leader's answer to a frame.
    fn take_answer(&mut self, frame: Option<Bytes>) {
        let answer = frame.map(|frame| decode::<wire::ForwardResponse>("forward response", frame));
        let (Some(Ok(answer)), Some(stream)) = (answer, &mut self.stream) else {
            // What was under way may be in the log: applying will tell.
            self.stream = None;
            return;
        };
        let Some(sequences) = stream.under_way.remove(&answer.sequence) else { return };
        let position = |at: &u32| usize::try_from(*at).ok().and_then(|at| sequences.get(at)).copied();
        let not_appended: Vec<u64> = answer.not_appended.iter().filter_map(position).collect();
        if !not_appended.is_empty() {
            self.core.proposals.not_appended(stream.leader.term, not_appended);
        }
        let refused = answer.refused.into_iter();
        let refused = refused.filter_map(|one| Some((position(&one.position)?, one.reason)));
        self.core.proposals.refuse(stream.leader.term, refused);
    }
}

impl Stream {
    async fn send(&mut self, batch: Vec<(u64, Bytes)>) -> bool {
        self.sequence += 1;
        let (sequences, transactions) = batch.into_iter().unzip();
        self.under_way.insert(self.sequence, sequences);
        let term = self.leader.term;
        let frame = wire::ForwardRequest { sequence: self.sequence, term, transactions, format: 0 };
        self.duplex.sender.send(Bytes::from(frame.encode_to_vec())).await.is_ok()
    }
}

/// Gives one checked transaction to the consensus library, to be appended in `term` or not at all. Calls `refused` if it
/// certainly was not appended, and drops it once it was applied or may never be.
pub(super) async fn append<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    term: u64,
    bytes: Bytes,
    refused: impl FnOnce() + Send + 'static,
) {
    let done = move |result: WriteResult<R>| {
        if let Err(ClientWriteError::ForwardToLeader(_)) = result {
            refused();
        }
    };
    let write = core.raft.write(Command(bytes)).with_leader(CommittedLeader::new(term));
    if let Err(stopped) = write.responder(Callback(Box::new(done))).await {
        core.fatal.report(stopped);
    }
}
