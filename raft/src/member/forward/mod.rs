//! Forwards proposals to the leader.
//!
//! Owns the one task that sends this member's proposals: to the consensus library when this member leads, else over one
//! ordered stream to the leader. Both ways name the leader's term, so that a proposal is appended in that term or never
//! (see proposals). Outcomes do not come this way: they come from applying the log.
//!
//! No wait on the leader is without a bound: a stream on which it falls silent is given up. That decides nothing about
//! the proposals under way there, which may be in the log.

mod receive;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, select_biased};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft_rt::Select2;
use orch_proto::store as wire;
use prost::Message;
use tokio::sync::mpsc::error::TrySendError;

pub(crate) use self::receive::serve_forwarded;
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::decode;
use crate::member::consensus::{Callback, Command, CommittedLeader, WriteResult};
use crate::member::core::{Core, Leader, within};
use crate::member::counters::Counters;
use crate::member::proposals::{Proposals, TRANSACTION_BYTES_MAX};
use crate::transport::{Duplex, Purpose, Transport};

/// The window: frames on the stream that the leader has not answered. It answers a frame once all of it is applied or
/// refused, so this bounds a member's proposals under way: 64 frames of 256 proposals.
pub(super) const FRAMES_UNDER_WAY_MAX: usize = 64;

/// Proposals in one frame or batch: enough to fill a sync, few enough that the first does not wait for the last.
const BATCH_COUNT_MAX: usize = 256;

/// Bytes in one frame or batch; one proposal may be larger by itself.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Pause after a refusal: the new leader is not known yet, or hands over.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// Time to open a stream to the leader.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);

/// While frames are under way the leader is heard from at least once in each period of this length: by answers, or by
/// the signs of life that it sends (`receive`). After one period of silence the stream is given up.
const LISTEN_PERIOD: Duration = Duration::from_secs(2);

/// Sends the proposals of one member.
struct Sender<R: Runtime, D: Disk, T: Transport> {
    core: Arc<Core<R, D, T>>,
    stream: Option<Stream>,
}

/// A stream to the leader of a term.
struct Stream {
    leader: Leader,
    duplex: Duplex,
    sequence: u64,
    /// Sequences of frames without an answer, each with those of its proposals.
    under_way: BTreeMap<u64, Vec<u64>>,
    /// The timer of the current period of listening. Set while frames are under way.
    listening: Option<BoxFuture<'static, ()>>,
    /// The leader was heard from in the current period.
    heard: bool,
}

/// An event that wakes the sender.
enum Event {
    /// A frame from the leader; `None` when the stream ended.
    Answer(Option<Bytes>),
    /// The stream's buffer takes another frame.
    Room,
    /// A period of listening is over.
    Listened,
    /// The leader may have changed; `false` when the consensus library has ended.
    Leader(bool),
    /// A proposal was queued.
    Queued,
}

/// The reason why sending stopped.
enum Sent {
    /// Queue empty or window full: wait for an answer, a leader change or a new proposal.
    Idle,
    /// The stream's buffer is full: wait for room as well.
    Full,
    /// No connection; try again in a moment.
    Refused,
}

/// Sends proposals for as long as the member lives.
pub(crate) async fn send_proposals<R: Runtime, D: Disk, T: Transport>(core: Arc<Core<R, D, T>>) {
    let mut leaders = core.raft.server_metrics();
    let mut sender = Sender { core, stream: None };
    loop {
        let is_full = match sender.send_queued().await {
            Sent::Idle => false,
            Sent::Full => true,
            Sent::Refused => {
                R::sleep(REFUSED_PAUSE).await;
                continue;
            }
        };
        let core = sender.core.clone();
        let of_stream = async {
            match sender.stream.as_mut() {
                Some(stream) => stream.event(is_full).await,
                None => pending().await,
            }
        };
        let event = select_biased! {
            event = of_stream.fuse() => event,
            changed = leaders.changed().fuse() => Event::Leader(changed.is_ok()),
            () = core.proposals.wait_queued().fuse() => Event::Queued,
        };
        match event {
            Event::Answer(answer) => sender.take_answer(answer),
            Event::Listened => sender.listen_on(),
            Event::Room | Event::Leader(true) | Event::Queued => {}
            Event::Leader(false) => return,
        }
        if core.proposals.take_refused() {
            R::sleep(REFUSED_PAUSE).await;
        }
    }
}

impl<R: Runtime, D: Disk, T: Transport> Sender<R, D, T> {
    /// Sends queued proposals, as far as the window to the leader allows.
    async fn send_queued(&mut self) -> Sent {
        let Some(leader) = self.core.leader() else {
            self.stream = None;
            return Sent::Idle;
        };
        if leader.local {
            self.stream = None;
            return self.append_queued(leader.term).await;
        }
        if !self.core.proposals.has_queued() {
            return Sent::Idle;
        }
        if !self.connect(leader).await {
            return Sent::Refused;
        }
        self.forward_queued()
    }

    /// Appends queued proposals, as the leader of `term`.
    async fn append_queued(&mut self, term: u64) -> Sent {
        loop {
            let batch = self.core.proposals.take(term, BATCH_COUNT_MAX, BATCH_BYTES_MAX);
            if batch.is_empty() {
                return Sent::Idle;
            }
            for (sequence, bytes) in batch {
                let proposals = self.core.proposals.clone();
                append(&self.core, term, bytes, move || proposals.not_appended(term, [sequence])).await;
            }
        }
    }

    /// Opens a stream to `leader` unless there is one; `false` when that fails. An attempt that hangs ends when the leader
    /// changes.
    async fn connect(&mut self, leader: Leader) -> bool {
        if self.stream.as_ref().is_some_and(|stream| stream.leader == leader) {
            return true;
        }
        self.stream = None;
        let core = &self.core;
        let opening = within::<R, _>(OPEN_TIMEOUT, core.transport.open(&leader.peer, Purpose::Forward));
        let opened = match R::select2(opening, core.deposed(&leader)).await {
            Select2::First(opened) => opened,
            Select2::Second(()) => return false,
        };
        let Some(Ok(duplex)) = opened else { return false };
        self.stream = Some(Stream {
            leader,
            duplex,
            sequence: 0,
            under_way: BTreeMap::new(),
            listening: None,
            heard: false,
        });
        true
    }

    /// Fills the stream without waiting: a leader that takes no more frames must not delay the change to the next leader.
    fn forward_queued(&mut self) -> Sent {
        let sent = match &mut self.stream {
            Some(stream) => stream.fill::<R>(&self.core.proposals, &self.core.counters),
            None => Sent::Refused,
        };
        if matches!(sent, Sent::Refused) {
            self.stream = None;
        }
        sent
    }

    /// After a period of listening: goes on if the leader was heard from, else gives up the stream. Proposals under way may
    /// be in the log, so they are not sent again until applying the log tells.
    fn listen_on(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        if stream.under_way.is_empty() {
            stream.listening = None;
        } else if std::mem::take(&mut stream.heard) {
            stream.listening = Some(listening::<R>());
        } else {
            let leader = stream.leader.peer.name.clone();
            tracing::warn!(%leader, frames = stream.under_way.len(), "the leader answers no forwarded writes");
            self.stream = None;
        }
    }

    /// Takes the leader's answer to a frame.
    fn take_answer(&mut self, frame: Option<Bytes>) {
        let answer = frame.map(|frame| decode::<wire::ForwardResponse>("forward response", frame));
        let (Some(Ok(answer)), Some(stream)) = (answer, &mut self.stream) else {
            // Proposals under way may be in the log: applying the log will tell.
            self.stream = None;
            return;
        };
        stream.heard = true;
        // A sign of life answers no frame.
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
    /// Sends proposals until none is queued, or the window or the buffer is full; `Refused` when the stream has ended.
    fn fill<R: Runtime>(&mut self, proposals: &Proposals, counters: &Counters) -> Sent {
        while self.under_way.len() < FRAMES_UNDER_WAY_MAX {
            // The room is reserved before the proposals are taken: a proposal that was taken counts as sent.
            let room = match self.duplex.sender.try_reserve() {
                Ok(room) => room,
                Err(TrySendError::Full(())) => return Sent::Full,
                Err(TrySendError::Closed(())) => return Sent::Refused,
            };
            let batch = proposals.take(self.leader.term, BATCH_COUNT_MAX, BATCH_BYTES_MAX);
            if batch.is_empty() {
                return Sent::Idle;
            }
            counters.note_forwarded(batch.len());
            self.sequence += 1;
            let (sequence, term) = (self.sequence, self.leader.term);
            let (sequences, transactions): (_, Vec<Bytes>) = batch.into_iter().unzip();
            self.under_way.insert(sequence, sequences);
            let traces = proposals.traces().of_transactions(transactions.iter());
            let frame = wire::ForwardRequest { sequence, term, transactions, format: 0, traces };
            room.send(Bytes::from(frame.encode_to_vec()));
            self.listening.get_or_insert_with(listening::<R>);
        }
        Sent::Idle
    }

    /// Waits for the next event of this stream; for room in its buffer only where `wants_room`.
    async fn event(&mut self, wants_room: bool) -> Event {
        let Stream { duplex: Duplex { sender, receiver }, listening, .. } = self;
        let room = async {
            if !wants_room {
                return pending().await;
            }
            match sender.reserve().await {
                Ok(_) => Event::Room,
                Err(_) => Event::Answer(None),
            }
        };
        let listened = async {
            match listening {
                Some(period) => period.await,
                None => pending().await,
            }
        };
        select_biased! {
            answer = receiver.recv().fuse() => Event::Answer(answer),
            event = room.fuse() => event,
            () = listened.fuse() => Event::Listened,
        }
    }
}

/// The timer of a period of listening that begins now.
fn listening<R: Runtime>() -> BoxFuture<'static, ()> {
    async { R::sleep(LISTEN_PERIOD).await }.boxed()
}

/// Gives one checked transaction to the consensus library, to be appended in `term` or not at all. Calls `refused` if it
/// certainly was not appended, and drops it once it was applied or may never be.
pub(super) async fn append<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    term: u64,
    bytes: Bytes,
    refused: impl FnOnce() + Send + 'static,
) {
    // Larger transactions are refused when they are proposed and when they are forwarded: no frame would bring such an entry
    // to the followers, and no entry after it would ever be committed.
    assert!(bytes.len() <= TRANSACTION_BYTES_MAX, "an entry of the log fits a frame");
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
