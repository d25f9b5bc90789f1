//! States of snapshots whose streams may be taken up again.
//!
//! Owns which states this member keeps, and for how long: while a stream runs, and for two minutes after it broke or its last byte was
//! handed to the connection, which may still lose bytes. The state is an immutable root, so keeping it costs the objects that were
//! replaced since: it is given up early where the member has gone on by many changes.
//!
//! Streams that two clients began may have one name: those of the held state have no time, and the same header as long as nothing
//! is applied. They share an entry.
//!
//! Invariant: under one name bytes of one state are sent. A stream whose name two different states share cannot be taken up
//! again.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use orch_raft::Store;
use orch_raft::archive::{Header, stream_of};
use orch_raft::state::State;
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::super::store::Handle;

/// Time for which a state is kept after its stream: longer than a route needs to change, an operator to give the command
/// again, and a supervisor to start it anew.
const KEPT_FOR: Duration = Duration::from_secs(120);

/// Changes after which a state is given up. The replaced objects that are kept only for it take 100 MB then, if each has 2 KiB.
const CHANGES_MAX: u64 = 50_000;

/// States that are kept after their streams: one for each stream that may run. For a further one the oldest is given up, first of
/// those that were sent to their end.
const BROKEN_MAX: usize = 2;

/// The time between two looks of the task that gives up old states.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The state that a snapshot shows, with all that its bytes depend on.
pub(in crate::run) struct Root {
    /// The header without the contents.
    pub(in crate::run) origin: Header,
    pub(in crate::run) state: Arc<State>,
    /// The member's count of withdrawn states from before this one was taken.
    pub(in crate::run) revocations: u64,
}

/// The states that this member keeps, by the names of their streams.
#[derive(Default)]
pub(in crate::run) struct ResumableStates(Mutex<Roots>);

#[derive(Default)]
struct Roots {
    by_stream: BTreeMap<String, Entry>,
    /// Whether the task runs that gives up old states.
    is_watched: bool,
}

struct Entry {
    /// The newest root of the name's streams; `None` where two of them differ.
    root: Option<Arc<Root>>,
    /// The revision of the state.
    applied: u64,
    /// Streams under way.
    streams: usize,
    /// When the last stream ended or broke.
    ended: Instant,
    /// Whether that one was sent to its end.
    is_whole: bool,
}

/// A stream under way. Dropping it tells that it broke.
pub(in crate::run) struct Streaming {
    kept: Arc<ResumableStates>,
    stream: String,
    /// The state that it sends.
    root: Arc<Root>,
    is_whole: bool,
    permit: Option<OwnedSemaphorePermit>,
}

impl ResumableStates {
    /// Keeps `root`, of which a stream begins.
    ///
    /// # Errors
    /// The header is over its limit.
    pub(in crate::run) fn begin(
        self: &Arc<Self>,
        root: Arc<Root>,
        permit: OwnedSemaphorePermit,
    ) -> std::io::Result<Streaming> {
        let stream = stream_of(&root.origin, &root.state)?;
        let mut roots = self.0.lock();
        let entry = roots.by_stream.entry(stream.clone()).or_insert_with(|| Entry {
            root: Some(root.clone()),
            applied: root.state.applied().0,
            streams: 0,
            ended: Instant::now(),
            is_whole: false,
        });
        // A root of the same state that was taken later may be sent where the earlier one was withdrawn.
        let same = entry.root.take().filter(|earlier| is_same_state(earlier, &root));
        entry.root = same.map(|_| root.clone());
        entry.streams += 1;
        drop(roots);
        Ok(Streaming { kept: self.clone(), stream, root, is_whole: false, permit: Some(permit) })
    }

    /// The state of a stream that is taken up again, if it is still kept.
    pub(in crate::run) fn resume(
        self: &Arc<Self>,
        stream: &str,
        permit: OwnedSemaphorePermit,
    ) -> Option<(Arc<Root>, Streaming)> {
        let mut roots = self.0.lock();
        let entry = roots.by_stream.get_mut(stream)?;
        let root = entry.root.clone()?;
        entry.streams += 1;
        let (kept, stream) = (self.clone(), stream.to_owned());
        let streaming = Streaming { kept, stream, root: root.clone(), is_whole: false, permit: Some(permit) };
        Some((root, streaming))
    }

    /// Gives up what was kept for long enough, until nothing is left. One task does so, which the first stream starts.
    pub(in crate::run) fn watch(self: &Arc<Self>, handle: &Handle) {
        if !std::mem::replace(&mut self.0.lock().is_watched, true) {
            tokio::spawn(give_up(Arc::downgrade(self), handle.clone()));
        }
    }

    /// Forgets the states that are no longer kept with the member at `applied`. Returns whether any is left.
    fn forget(&self, now: Instant, applied: u64) -> bool {
        let mut roots = self.0.lock();
        roots.by_stream.retain(|_, entry| {
            let changes = applied.saturating_sub(entry.applied);
            let is_recent = now.saturating_duration_since(entry.ended) < KEPT_FOR && changes <= CHANGES_MAX;
            entry.streams > 0 || is_recent
        });
        roots.is_watched = !roots.by_stream.is_empty();
        roots.is_watched
    }
}

/// Whether the streams of two roots with one header have the same bytes.
fn is_same_state(one: &Root, other: &Root) -> bool {
    Arc::ptr_eq(&one.state, &other.state) || one.state.fingerprint() == other.state.fingerprint()
}

async fn give_up(kept: Weak<ResumableStates>, handle: Handle) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(kept) = kept.upgrade() else { return };
        if !kept.forget(Instant::now(), handle.state().applied().0) {
            return;
        }
    }
}

impl Roots {
    /// Gives up one of too many states without a stream.
    fn bound(&mut self) {
        let idle = self.by_stream.iter().filter(|(_, entry)| entry.streams == 0);
        let least = idle.clone().min_by_key(|(_, entry)| (!entry.is_whole, entry.ended));
        let least = least.map(|(stream, _)| stream.clone());
        if idle.count() > BROKEN_MAX
            && let Some(stream) = least
        {
            self.by_stream.remove(&stream);
        }
    }
}

impl Streaming {
    /// The name of the stream.
    pub(in crate::run) fn stream(&self) -> &str {
        &self.stream
    }

    /// Tells that the connection was given the last byte.
    pub(in crate::run) fn end(mut self) {
        self.is_whole = true;
    }

    /// Tells that the state may not be sent again. A later state of the same name can be.
    pub(in crate::run) fn withdraw(self) {
        let mut roots = self.kept.0.lock();
        if let Some(entry) = roots.by_stream.get_mut(&self.stream)
            && entry.root.as_ref().is_some_and(|root| Arc::ptr_eq(root, &self.root))
        {
            entry.root = None;
            if entry.streams == 1 {
                roots.by_stream.remove(&self.stream);
            }
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        // Before the state is free to be asked for: its next stream needs the permit.
        self.permit.take();
        let mut roots = self.kept.0.lock();
        if let Some(entry) = roots.by_stream.get_mut(&self.stream) {
            entry.streams = entry.streams.saturating_sub(1);
            (entry.ended, entry.is_whole) = (Instant::now(), self.is_whole);
        }
        roots.bound();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orch_raft::{Index, Key, Operation, Put, Revision, Transaction};
    use tokio::sync::Semaphore;

    use super::*;

    fn root(time_ms: u64) -> Arc<Root> {
        let origin = Header { time_ms, ..Header::default() };
        Arc::new(Root { origin, state: Arc::default(), revocations: 0 })
    }

    /// A state with one pod.
    fn state(pod: &str) -> Arc<State> {
        let mut state = State::default();
        let key = Key::new(&Arc::from("pods"), "default", pod).unwrap();
        let json = Bytes::from_static(br#"{"v":""}"#);
        let put = Put { key, json, revision_at: 6, index: Index::default() };
        let operations = vec![Operation::Put(put)];
        state.apply(Revision(2), &Transaction { proposed_ms: 1, conditions: vec![], operations });
        Arc::new(state)
    }

    /// A registry, and permits without an end.
    fn kept() -> (Arc<ResumableStates>, impl Fn() -> OwnedSemaphorePermit) {
        let permits = Arc::new(Semaphore::new(100));
        (Arc::default(), move || permits.clone().try_acquire_owned().unwrap())
    }

    #[test]
    fn a_stream_that_broke_is_taken_up_again_and_one_whose_state_is_withdrawn_is_not() {
        let (kept, permit) = kept();
        let streaming = kept.begin(root(1), permit()).unwrap();
        let name = streaming.stream().to_owned();
        let (_, second) = kept.resume(&name, permit()).expect("a stream under way may have broken unseen");
        drop(streaming);
        drop(second);
        let (found, again) = kept.resume(&name, permit()).expect("it broke");
        assert_eq!(found.origin.time_ms, 1);
        again.withdraw();
        assert!(kept.resume(&name, permit()).is_none());
        assert!(kept.resume("another", permit()).is_none());
        drop(kept.begin(root(1), permit()).unwrap());
        assert!(kept.resume(&name, permit()).is_some(), "a later state of the same name");
    }

    #[test]
    fn a_stream_whose_last_piece_was_lost_by_its_connection_is_taken_up_again() {
        let (kept, permit) = kept();
        let streaming = kept.begin(root(1), permit()).unwrap();
        let name = streaming.stream().to_owned();
        streaming.end();
        let (_, again) = kept.resume(&name, permit()).expect("nobody knows that the last piece arrived");
        again.end();
        assert!(!kept.forget(Instant::now() + KEPT_FOR, 0), "no longer than a stream that broke");
    }

    #[test]
    fn states_that_were_sent_to_their_end_are_given_up_before_those_whose_streams_broke() {
        let (kept, permit) = kept();
        let streams: Vec<Streaming> = (1..=3).map(|time| kept.begin(root(time), permit()).unwrap()).collect();
        let names: Vec<String> = streams.iter().map(|streaming| streaming.stream().to_owned()).collect();
        let mut streams = streams.into_iter();
        drop(streams.next());
        streams.by_ref().for_each(Streaming::end);
        let left: Vec<bool> = names.iter().map(|name| kept.resume(name, permit()).is_some()).collect();
        assert_eq!(left, [true, false, true]);
    }

    #[test]
    fn two_streams_of_one_name_break_each_for_itself() {
        let (kept, permit) = kept();
        // Two clients ask a member without a quorum for the state that it holds.
        let (one, other) = (kept.begin(root(0), permit()).unwrap(), kept.begin(root(0), permit()).unwrap());
        let name = one.stream().to_owned();
        assert_eq!(other.stream(), name);
        one.end();
        drop(other);
        assert!(kept.resume(&name, permit()).is_some(), "the other one broke");

        // The later root counts: it was taken after the earlier one was withdrawn.
        let withdrawn = kept.begin(root(0), permit()).unwrap();
        let later = Root { origin: Header::default(), state: Arc::default(), revocations: 1 };
        drop((withdrawn, kept.begin(Arc::new(later), permit()).unwrap()));
        assert_eq!(kept.resume(&name, permit()).unwrap().0.revocations, 1);
    }

    #[test]
    fn a_name_that_two_different_states_have_is_taken_up_by_nobody() {
        let (kept, permit) = kept();
        // The same number of objects and bytes at the same revision, and another content.
        let of = |pod| Arc::new(Root { origin: Header::default(), state: state(pod), revocations: 0 });
        let name = kept.begin(of("x"), permit()).unwrap().stream().to_owned();
        assert!(kept.resume(&name, permit()).is_some());
        drop(kept.begin(of("x"), permit()).unwrap());
        assert!(kept.resume(&name, permit()).is_some(), "the same once more");
        let streaming = kept.begin(of("y"), permit()).unwrap();
        assert_eq!(streaming.stream(), name);
        assert!(kept.resume(&name, permit()).is_none());
        drop(streaming);
        assert!(kept.resume(&name, permit()).is_none());
        assert!(!kept.forget(Instant::now() + KEPT_FOR, 0), "it is forgotten as others are");
    }

    #[test]
    fn a_state_is_kept_for_a_while_and_for_some_changes_and_as_long_as_it_is_sent() {
        let (kept, permit) = kept();
        let streaming = kept.begin(root(1), permit()).unwrap();
        let name = streaming.stream().to_owned();
        let late = || Instant::now() + KEPT_FOR;
        assert!(kept.forget(late(), CHANGES_MAX + 1), "it is being sent");
        drop(streaming);
        assert!(kept.forget(Instant::now(), CHANGES_MAX));
        assert!(kept.resume(&name, permit()).is_some());
        assert!(!kept.forget(Instant::now(), CHANGES_MAX + 1), "the member went on");
        assert!(kept.resume(&name, permit()).is_none());
        drop(kept.begin(root(1), permit()).unwrap());
        assert!(!kept.forget(late(), 0), "it is too late");
        assert!(kept.resume(&name, permit()).is_none());
    }

    #[test]
    fn the_oldest_of_too_many_broken_streams_is_given_up() {
        let (kept, permit) = kept();
        let mut names = Vec::new();
        for time_ms in 1..=4 {
            let streaming = kept.begin(root(time_ms), permit()).unwrap();
            names.push(streaming.stream().to_owned());
        }
        let left: Vec<bool> = names.iter().map(|name| kept.resume(name, permit()).is_some()).collect();
        assert_eq!(left, [false, false, true, true]);
    }
}
