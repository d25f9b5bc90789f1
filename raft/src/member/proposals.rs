//! Proposals of this member, and the callers that wait for their outcomes.
//!
//! Owns each proposal from its registration to its outcome, and decides when one may be sent again. A proposal is in one
//! of two places:
//!
//!     queued --take--> sent in term T --applied here--> outcome
//!       ^                  |        |
//!       +---- certainly not in      +--- refused by the leader of T, for good
//!             the log
//!
//! A proposal is certainly not in the log when the leader of T says so, and when this member applies an entry of a term
//! after T without having applied the proposal: only the leader of T appends a proposal sent in term T, and the log's terms
//! never decrease.
//!
//! Invariant: a proposal that may be in the log is never sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use orch_spans::TraceContext;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::encoding::{ProposalId, check_transaction, encode_transaction};
use crate::member::feature::FeatureLevel;
use crate::member::traces::Traces;
use crate::store::ProposeError;
use crate::transaction::{Outcome, Transaction};

/// Bytes of one transaction: above the largest object (1.5 MiB) and its index, below what a frame carries.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 2 << 20;

/// Proposals that may wait at once. More would only wait longer; the API refuses requests before that.
const PROPOSALS_MAX: usize = 16 * 1024;

/// Bytes that waiting proposals may hold.
const PROPOSAL_BYTES_MAX: usize = 64 << 20;

/// Receives the outcome of one proposal.
pub(crate) type Answer = oneshot::Receiver<Result<Outcome, ProposeError>>;

/// All proposals of this member that have no outcome yet.
pub(crate) struct Proposals {
    node: u64,
    incarnation: u64,
    level: Arc<FeatureLevel>,
    waiting: Mutex<Waiting>,
    traces: Arc<Traces>,
    /// Notified when a proposal is queued.
    queued: Notify,
}

#[derive(Default)]
struct Waiting {
    /// The member is shutting down: no proposal is added.
    closed: bool,
    last_sequence: u64,
    proposals: BTreeMap<u64, Proposal>,
    /// Sequences of proposals that are not sent yet, in the order of sending.
    queue: BTreeSet<u64>,
    bytes: usize,
    /// A leader has refused proposals since the last `take_refused`.
    refused: bool,
    /// The term of the newest entry applied here.
    applied_term: u64,
}

struct Proposal {
    bytes: Bytes,
    sent: Option<u64>,
    answer: oneshot::Sender<Result<Outcome, ProposeError>>,
}

impl Proposals {
    pub(crate) fn new(node: u64, incarnation: u64, level: Arc<FeatureLevel>) -> Self {
        let (waiting, traces) = (Mutex::default(), Arc::default());
        Proposals { node, incarnation, level, waiting, traces, queued: Notify::new() }
    }

    /// The traces of this member's proposals, and of those of others that pass through it.
    pub(crate) fn traces(&self) -> &Arc<Traces> {
        &self.traces
    }

    /// Whether a proposal was made by this start of this member.
    pub(crate) fn are_ours(&self, id: ProposalId) -> bool {
        id.node == self.node && id.incarnation == self.incarnation
    }

    /// Queues a transaction, which may belong to a recorded trace. Returns its sequence, for `withdraw`, and the receiver of its
    /// outcome.
    pub(crate) fn register(
        &self,
        transaction: &Transaction,
        trace: Option<TraceContext>,
    ) -> Result<(u64, Answer), ProposeError> {
        let sequence = {
            let mut waiting = self.waiting.lock();
            waiting.last_sequence += 1;
            waiting.last_sequence
        };
        let id = ProposalId { node: self.node, incarnation: self.incarnation, sequence };
        let bytes = encode_transaction(id, transaction, self.level.agreed());
        if bytes.len() > TRANSACTION_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes: bytes.len(), limit: TRANSACTION_BYTES_MAX });
        }
        // A transaction that members cannot apply would stop every member once it is in the log: no entry is skipped.
        check_transaction(&bytes, self.level.supported())
            .map_err(|error| ProposeError::Refused { reason: error.to_string() })?;
        if let Some(trace) = trace {
            // Before it is queued: it may be sent at once.
            self.traces.note(id, trace);
        }
        match self.enqueue(sequence, bytes) {
            Ok(answer) => Ok((sequence, answer)),
            Err(error) => {
                self.traces.forget_one(id);
                Err(error)
            }
        }
    }

    /// Queues an encoded transaction, unless the queue is full or the member is shutting down.
    fn enqueue(&self, sequence: u64, bytes: Bytes) -> Result<Answer, ProposeError> {
        let not_proposed = |reason: &str| ProposeError::NotProposed { reason: reason.to_owned() };
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        // Checked under the lock under which `close` empties the queue: a proposal added after that would wait for its
        // deadline.
        if waiting.closed {
            return Err(not_proposed("the member is shutting down"));
        }
        if waiting.proposals.len() >= PROPOSALS_MAX || waiting.bytes + bytes.len() > PROPOSAL_BYTES_MAX {
            return Err(not_proposed("too many writes are waiting"));
        }
        waiting.bytes += bytes.len();
        let other = waiting.proposals.insert(sequence, Proposal { bytes, sent: None, answer });
        assert!(other.is_none(), "a sequence names one proposal");
        waiting.queue.insert(sequence);
        drop(waiting);
        self.queued.notify_one();
        Ok(answered)
    }

    /// Completes when a proposal was queued since the last call.
    pub(crate) async fn wait_queued(&self) {
        self.queued.notified().await;
    }

    /// The number of proposals without an outcome.
    pub(crate) fn pending(&self) -> usize {
        self.waiting.lock().proposals.len()
    }

    /// Whether a proposal is queued.
    pub(crate) fn has_queued(&self) -> bool {
        !self.waiting.lock().queue.is_empty()
    }

    /// Takes proposals to send to the leader of `term`: at most `count_max` and at most `bytes_max` bytes, but at least one
    /// proposal if any is queued. None if an entry of a later term has been applied.
    pub(crate) fn take(&self, term: u64, count_max: usize, bytes_max: usize) -> Vec<(u64, Bytes)> {
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        // The leader of `term` is superseded. No later term would tell whether it appended a proposal sent to it now.
        if term < waiting.applied_term {
            return Vec::new();
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(sequence) = waiting.queue.first().copied().filter(|_| taken.len() < count_max) {
            let proposal = waiting.proposals.get_mut(&sequence);
            let proposal = proposal.expect("whatever is queued waits for its outcome");
            bytes += proposal.bytes.len();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            assert_eq!(proposal.sent, None, "a proposal that may be in the log is never sent again");
            proposal.sent = Some(term);
            taken.push((sequence, proposal.bytes.clone()));
            waiting.queue.pop_first();
        }
        taken
    }

    /// Queues proposals again: the leader of `term` has certainly not appended them.
    pub(crate) fn not_appended(&self, term: u64, sequences: impl IntoIterator<Item = u64>) {
        let mut waiting = self.waiting.lock();
        waiting.requeue(sequences, |sent| sent == term);
        waiting.refused = true;
        drop(waiting);
        self.queued.notify_one();
    }

    /// Ends proposals that the leader of `term` has refused for good: no leader would ever append them.
    pub(crate) fn refuse(&self, term: u64, refusals: impl IntoIterator<Item = (u64, String)>) {
        let mut waiting = self.waiting.lock();
        for (sequence, reason) in refusals {
            if waiting.proposals.get(&sequence).is_none_or(|proposal| proposal.sent != Some(term)) {
                continue;
            }
            if let Some(proposal) = waiting.remove(sequence) {
                drop(proposal.answer.send(Err(ProposeError::Refused { reason })));
            }
        }
    }

    /// Whether a leader refused proposals since the last call: if so, the sender should pause.
    pub(crate) fn take_refused(&self) -> bool {
        std::mem::take(&mut self.waiting.lock().refused)
    }

    /// Answers proposals that were applied. `term` is that of the newest entry applied: proposals that were sent in an
    /// earlier term and are not applied by now never will be, and are queued again.
    pub(crate) fn complete(&self, outcomes: Vec<(u64, Outcome)>, term: u64) {
        let mut waiting = self.waiting.lock();
        for (sequence, outcome) in outcomes {
            if let Some(proposal) = waiting.remove(sequence) {
                // Sending fails if the proposer has given up; it was told that the outcome is unknown.
                drop(proposal.answer.send(Ok(outcome)));
            }
        }
        if term <= waiting.applied_term {
            return;
        }
        waiting.applied_term = term;
        let all: Vec<u64> = waiting.proposals.keys().copied().collect();
        waiting.requeue(all, |sent| sent < term);
        let queued = !waiting.queue.is_empty();
        drop(waiting);
        if queued {
            self.queued.notify_one();
        }
    }

    /// Ends all sent proposals with `Unknown`: an installed snapshot replaced the entries and may contain them.
    pub(crate) fn lose_all(&self, reason: &str) {
        let mut waiting = self.waiting.lock();
        let sent: Vec<u64> = waiting
            .proposals
            .iter()
            .filter(|(_, proposal)| proposal.sent.is_some())
            .map(|(at, _)| *at)
            .collect();
        for sequence in sent {
            if let Some(proposal) = waiting.remove(sequence) {
                drop(proposal.answer.send(Err(ProposeError::Unknown { reason: reason.to_owned() })));
            }
        }
    }

    /// Forgets a proposal whose proposer has stopped waiting. Returns the proposer's error: `NotProposed` if the proposal was
    /// never sent, else `Unknown`.
    pub(crate) fn withdraw(&self, sequence: u64, reason: &str) -> ProposeError {
        let reason = reason.to_owned();
        match self.waiting.lock().remove(sequence) {
            Some(Proposal { sent: None, .. }) => ProposeError::NotProposed { reason },
            _ => ProposeError::Unknown { reason },
        }
    }

    /// Forgets a proposal that is not sent yet; `None` if it was sent or has its outcome, which must be awaited.
    pub(crate) fn withdraw_queued(&self, sequence: u64, reason: &str) -> Option<ProposeError> {
        let mut waiting = self.waiting.lock();
        if waiting.proposals.get(&sequence)?.sent.is_some() {
            return None;
        }
        waiting.remove(sequence);
        self.traces.forget_one(ProposalId { node: self.node, incarnation: self.incarnation, sequence });
        Some(ProposeError::NotProposed { reason: reason.to_owned() })
    }

    /// Refuses new proposals and ends those that wait.
    pub(crate) fn close(&self) {
        // In one critical section: otherwise the sender could take a proposal that is about to be answered `NotProposed`.
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        for (_, proposal) in std::mem::take(&mut waiting.proposals) {
            let reason = "the member is shutting down".to_owned();
            let error = match proposal.sent {
                None => ProposeError::NotProposed { reason },
                Some(_) => ProposeError::Unknown { reason },
            };
            drop(proposal.answer.send(Err(error)));
        }
        waiting.queue.clear();
        waiting.bytes = 0;
    }
}

impl Waiting {
    fn remove(&mut self, sequence: u64) -> Option<Proposal> {
        let proposal = self.proposals.remove(&sequence)?;
        self.queue.remove(&sequence);
        self.bytes -= proposal.bytes.len();
        Some(proposal)
    }

    /// Queues those of the proposals again that were sent in a term which `of_term` accepts.
    fn requeue(&mut self, sequences: impl IntoIterator<Item = u64>, of_term: impl Fn(u64) -> bool) {
        for sequence in sequences {
            let Some(proposal) = self.proposals.get_mut(&sequence) else { continue };
            if proposal.sent.is_some_and(&of_term) {
                proposal.sent = None;
                self.queue.insert(sequence);
            }
        }
    }
}

#[cfg(test)]
mod tests;
