//! The traces of writes on their way through the log.
//!
//! Owns which proposals belong to recorded traces, from the proposal until it is applied here. The context is no part of an entry: it
//! goes with forwarded proposals and with appends, beside them, so that what is stored and compared is the same with traces and
//! without. Spans are a member's own: `log sync` from an append until it is durable, `apply` until the new state is published.
//!
//! Invariant: no decision depends on this map. While it is empty, each look-up is one atomic load. An entry that a new leader cuts off, or
//! that comes in a snapshot, is never applied: the next look-up after [`LIFE_MICROS`] takes its context away.

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use openraft::EntryPayload;
use orch_proto::store as wire;
use orch_spans::{ActiveSpan, SpanKind, TraceContext, TraceState, now_micros};
use parking_lot::{Mutex, MutexGuard};
use prost::Message;

use crate::encoding::ProposalId;
use crate::member::consensus::Entry;

/// Proposals noted since the map was last empty, the ended ones included; beyond this the oldest loses its context. A context is
/// eighty bytes, and what other systems have noted about the trace: 512 bytes at most.
const TRACES_MAX: usize = 1024;

/// Time for which a context waits for its entry to be applied, in microseconds. A write that takes longer loses the spans of its end. By the
/// clock of the spans: where that is set, contexts go early or late.
const LIFE_MICROS: u64 = 30_000_000;

/// The traces of proposals under way.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    has_some: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each with the time at which it was noted.
    contexts: BTreeMap<ProposalId, (u64, TraceContext)>,
    /// The times and proposals in the order in which they came, with those that have ended meanwhile: at most [`TRACES_MAX`].
    order: VecDeque<(u64, ProposalId)>,
}

/// The traces of some entries at the beginning of work on them.
pub(crate) struct Begun {
    at_micros: u64,
    /// Each with the index of its entry.
    traces: Vec<(u64, ActiveSpan)>,
}

impl Traces {
    /// Notes that a proposal belongs to a trace, where this process records any.
    pub(crate) fn note(&self, id: ProposalId, context: TraceContext) {
        if !orch_spans::is_on() || !context.is_sampled {
            return;
        }
        let now = now_micros();
        let mut waiting = self.waiting.lock();
        if let btree_map::Entry::Vacant(place) = waiting.contexts.entry(id) {
            place.insert((now, context));
            waiting.order.push_back((now, id));
        }
        waiting.forget_old(now);
        self.has_some.store(true, Ordering::Relaxed);
    }

    /// The contexts of proposals under way; `None` where there are none.
    fn waiting(&self) -> Option<MutexGuard<'_, Waiting>> {
        if !self.has_some.load(Ordering::Relaxed) {
            return None;
        }
        let mut waiting = self.waiting.lock();
        waiting.forget_old(now_micros());
        let has_some = !waiting.contexts.is_empty();
        self.has_some.store(has_some, Ordering::Relaxed);
        has_some.then_some(waiting)
    }

    /// Notes the traces that `marks`, of another member's message, name. `at` finds the encoded transaction at a position.
    pub(crate) fn note_marks<'b>(&self, marks: &[wire::TraceMark], at: impl Fn(usize) -> Option<&'b Bytes>) {
        if !orch_spans::is_on() {
            return;
        }
        for mark in marks.iter().take(TRACES_MAX) {
            let id = usize::try_from(mark.position).ok().and_then(&at).and_then(proposal_id);
            if let (Some(id), Some(context)) = (id, TraceContext::from_bytes(&mark.context)) {
                self.note(id, context.with_state(TraceState::parse([mark.state.as_str()])));
            }
        }
    }

    /// A span of work on one encoded transaction, which begins now; `None`: it belongs to no recorded trace.
    pub(crate) fn begin_one(&self, bytes: &Bytes) -> Option<(u64, ActiveSpan)> {
        let context = self.waiting()?.context(bytes)?;
        Some((now_micros(), ActiveSpan::of_remote(context)?))
    }

    /// The traces of encoded transactions, with their positions, for another member.
    pub(crate) fn of_transactions<'b>(
        &self,
        transactions: impl Iterator<Item = &'b Bytes>,
    ) -> Vec<wire::TraceMark> {
        let Some(waiting) = self.waiting() else { return Vec::new() };
        let mark = |(position, bytes): (u32, &Bytes)| {
            let context = waiting.context(bytes)?;
            let (place, state) = (context.to_bytes().to_vec().into(), context.state.as_str().to_owned());
            Some(wire::TraceMark { position, context: place, state })
        };
        (0..).zip(transactions).filter_map(mark).collect()
    }

    /// The same of entries. Entries that are no writes have positions, too.
    pub(crate) fn of_entries(&self, entries: &[Entry]) -> Vec<wire::TraceMark> {
        let nothing = Bytes::new();
        self.of_transactions(entries.iter().map(|entry| transaction(entry).unwrap_or(&nothing)))
    }

    /// Work on `entries` begins. `None`: none of them belongs to a trace.
    pub(crate) fn begin(&self, entries: &[Entry]) -> Option<Begun> {
        let waiting = self.waiting()?;
        let of = |entry: &Entry| {
            let context = waiting.context(transaction(entry)?)?;
            Some((entry.log_id.index, ActiveSpan::of_remote(context)?))
        };
        let traces: Vec<_> = entries.iter().filter_map(of).collect();
        (!traces.is_empty()).then(|| Begun { at_micros: now_micros(), traces })
    }

    /// Forgets the traces of `entries`, which are applied.
    pub(crate) fn forget(&self, entries: &[Entry]) {
        self.forget_all(entries.iter().filter_map(transaction).filter_map(proposal_id));
    }

    /// Forgets the trace of a proposal that is not sent, where it has one.
    pub(crate) fn forget_one(&self, id: ProposalId) {
        self.forget_all([id]);
    }

    fn forget_all(&self, ids: impl IntoIterator<Item = ProposalId>) {
        let Some(mut waiting) = self.waiting() else { return };
        for id in ids {
            waiting.contexts.remove(&id);
        }
        if waiting.contexts.is_empty() {
            waiting.order.clear();
            self.has_some.store(false, Ordering::Relaxed);
        }
    }
}

impl Waiting {
    /// The context of an encoded transaction.
    fn context(&self, bytes: &Bytes) -> Option<TraceContext> {
        self.contexts.get(&proposal_id(bytes)?).map(|(_, context)| context.clone())
    }

    /// Takes the contexts away that are too old at `now`, and the oldest one of too many.
    fn forget_old(&mut self, now: u64) {
        while let Some((noted, id)) = self.order.front().copied()
            && (self.order.len() > TRACES_MAX || now.abs_diff(noted) > LIFE_MICROS)
        {
            self.order.pop_front();
            // The proposal may have ended and been noted again.
            if self.contexts.get(&id).is_some_and(|(at, _)| *at == noted) {
                self.contexts.remove(&id);
            }
        }
    }
}

impl Begun {
    /// The work, called `name`, has ended.
    pub(crate) fn end(self, name: &'static str) {
        let times = (self.at_micros, now_micros());
        for (index, trace) in self.traces {
            trace.ended(SpanKind::Internal, name, times).with_number("revision", index).record();
        }
    }
}

/// The encoded transaction of an entry; `None` for other entries.
pub(crate) fn transaction(entry: &Entry) -> Option<&Bytes> {
    match &entry.payload {
        EntryPayload::Normal(command) => Some(&command.0),
        EntryPayload::Blank | EntryPayload::Membership(_) => None,
    }
}

/// The id of an encoded transaction. Skips the rest of it.
fn proposal_id(bytes: &Bytes) -> Option<ProposalId> {
    let id = wire::TransactionHead::decode(bytes.clone()).ok()?.id?;
    Some(ProposalId { node: id.node, incarnation: id.incarnation, sequence: id.sequence })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use orch_spans::{Sampling, Sources};

    use super::*;
    use crate::encoding::encode_transaction;
    use crate::transaction::Transaction;

    /// The clock of the spans of this process.
    static NOW: AtomicU64 = AtomicU64::new(1);

    fn id(sequence: u64) -> ProposalId {
        ProposalId { node: 1, incarnation: u64::MAX, sequence }
    }

    /// The recorder is installed for the whole process, so that its cases are in a single test.
    #[test]
    fn a_trace_goes_with_its_proposal_and_the_oldest_ends_where_there_are_too_many() {
        let traces = Traces::default();
        let state = TraceState::parse(["vendor=1"]);
        let context = TraceContext { trace_id: 5, span_id: 6, is_sampled: true, state };
        let encoded = |sequence| encode_transaction(id(sequence), &Transaction::default(), 1);
        let all: Vec<Bytes> = (0..3).map(encoded).collect();
        traces.note(id(1), context.clone());
        assert!(traces.of_transactions(all.iter()).is_empty(), "without a recorder nothing is noted");
        let sources = Sources { now_micros: || NOW.load(Ordering::Relaxed), random: || 1 };
        orch_spans::install(Sampling::per_million(0), sources, drop);
        traces.note(id(2), TraceContext { is_sampled: false, ..context.clone() });
        assert!(traces.of_transactions(all.iter()).is_empty(), "a trace that is not recorded is not noted");
        let mark = |position, context: &[u8]| {
            let state = "vendor=1".to_owned();
            wire::TraceMark { position, context: context.to_vec().into(), state }
        };
        let marks = [mark(1, &context.to_bytes()), mark(2, b"no context"), mark(9, &context.to_bytes())];
        traces.note_marks(&marks, |position| all.get(position));
        let marks = traces.of_transactions(all.iter());
        let [mark] = &marks[..] else { panic!("{marks:?}") };
        assert_eq!((mark.position, &mark.context[..]), (1, &context.to_bytes()[..]));
        assert_eq!(mark.state, "vendor=1", "it goes to other members");
        for sequence in 0..=u64::try_from(TRACES_MAX).unwrap() {
            traces.note(id(sequence + 10), context.clone());
        }
        assert!(traces.of_transactions(all.iter()).is_empty(), "the oldest one is gone");
        assert_eq!(traces.waiting.lock().contexts.len(), TRACES_MAX);
        // Of none of them comes an entry. While one is young the look-ups go on.
        NOW.fetch_add(LIFE_MICROS / 2, Ordering::Relaxed);
        traces.note(id(0), context);
        NOW.fetch_add(LIFE_MICROS / 2 + 1, Ordering::Relaxed);
        assert_eq!(traces.of_transactions(all.iter()).len(), 1);
        let left = traces.waiting.lock().contexts.len();
        assert_eq!(
            (left, traces.waiting.lock().order.len()),
            (1, 1),
            "old contexts go with the next look-up"
        );
        NOW.fetch_add(LIFE_MICROS / 2, Ordering::Relaxed);
        assert!(traces.of_transactions(all.iter()).is_empty());
        assert!(!traces.has_some.load(Ordering::Relaxed), "each look-up is one load again");
    }
}
