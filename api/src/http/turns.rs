//! Places for work that users take in turn, one after the other.
//!
//! Owns the order: a place that becomes free goes to the user whose turn it is, and the user to the end of the line. So
//! one user's requests wait for those of that user and for one of each other user, however many these have. A user has a
//! share of the places at most. Work that lasts passes its place on after a slice of time ([`Slices`]) and waits for its next
//! turn: what a turn takes counts, and not the number of requests.
//!
//! Invariants: no request waits while a place is free, unless its user has the share; a place is given to one request or is
//! free; requests that left are passed over.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::authn::User;
use crate::authn::service_account_name::{self, GROUP_SERVICE_ACCOUNTS};

/// Time after which work passes its place on if another user waits: what a reader of a small table notices, and a thousand
/// times what passing it on takes.
const SLICE: Duration = Duration::from_millis(10);

/// Longest wait for the next turn. Work that waits longer goes on without a place, one thread more than there are processors:
/// were it to hold what the others wait for, all would wait for ever.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A party that takes turns: a user, or all service accounts of a namespace together, since a client who may make one
/// account may make a thousand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Party(Arc<str>);

impl Party {
    /// The party of `user`.
    pub(super) fn of(user: &User) -> Party {
        Party(match service_account_name::parse(&user.name) {
            Some(account) => format!("{GROUP_SERVICE_ACCOUNTS}:{}", account.namespace).into(),
            None => user.name.as_str().into(),
        })
    }

    /// The name of the user, or that of the group of the service accounts.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.0
    }
}

/// A number of places, and the parties who wait for one. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    free: usize,
    /// Most places of one party.
    share: usize,
    /// Places that parties have; none of them is 0.
    held: HashMap<Party, usize>,
    /// Parties who wait, the next first; each is here once.
    order: VecDeque<Party>,
    /// Their requests, in order. Invariant: a line for each party of `order`, never an empty one.
    lines: HashMap<Party, VecDeque<oneshot::Sender<Place>>>,
}

/// A party's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Option<(Turns, Party)>);

/// The place of work on a thread of its own, which is passed on when a slice of time is over and another party waits.
#[derive(Debug)]
pub(super) struct Slices {
    turns: Turns,
    party: Party,
    /// `None`: the next turn did not come in time.
    place: RefCell<Option<Place>>,
    since: Cell<Instant>,
}

impl Turns {
    /// `places` free places, of which one party has `share` at most.
    pub(super) fn new(places: usize, share: usize) -> Turns {
        Turns(Arc::new(Mutex::new(State { free: places, share, ..State::default() })))
    }

    /// Places that are free.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        locked(&self.0).free
    }

    /// A place for `party`, when it is its turn.
    pub(super) async fn take(&self, party: &Party) -> Place {
        loop {
            let waiting = {
                let mut state = locked(&self.0);
                if state.free > 0 && state.may_hold(party) {
                    state.give(party);
                    return Place(Some((self.clone(), party.clone())));
                }
                state.join(party)
            };
            if let Ok(place) = waiting.await {
                return place;
            }
        }
    }
}

impl Slices {
    /// Work of `party` begins on this thread with `place`, one of `turns`.
    pub(super) fn begin(turns: Turns, party: Party, place: Place) -> Slices {
        let (place, since) = (RefCell::new(Some(place)), Cell::new(Instant::now()));
        Slices { turns, party, place, since }
    }

    /// Passes the place on if its slice is over and another party waits, and blocks the thread until the next turn.
    pub(super) fn pause(&self) {
        if self.since.get().elapsed() >= SLICE {
            self.pass();
            self.since.set(Instant::now());
        }
    }

    fn pass(&self) {
        let next = {
            let mut state = locked(&self.turns.0);
            if !state.order.iter().any(|party| *party != self.party) {
                return;
            }
            state.join(&self.party)
        };
        drop(self.place.borrow_mut().take());
        *self.place.borrow_mut() = wait_at_most(next, PAUSE_MAX).and_then(Result::ok);
    }
}

/// Blocks the thread until `future` is ready; `None` after `time`.
fn wait_at_most<F: Future>(future: F, time: Duration) -> Option<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (waker, begun) = (Waker::from(Arc::new(Unpark(std::thread::current()))), Instant::now());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = time.checked_sub(begun.elapsed())?;
        std::thread::park_timeout(left);
    }
}

impl State {
    /// Whether `party` has less than its share.
    fn may_hold(&self, party: &Party) -> bool {
        self.held.get(party).is_none_or(|held| *held < self.share)
    }

    /// A free place is `party`'s.
    fn give(&mut self, party: &Party) {
        self.free -= 1;
        *self.held.entry(party.clone()).or_default() += 1;
    }

    /// A place of `party` is free again.
    fn take_back(&mut self, party: &Party) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(party) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(party);
            }
        }
    }

    /// The end of `party`'s line.
    fn join(&mut self, party: &Party) -> oneshot::Receiver<Place> {
        let (sender, receiver) = oneshot::channel();
        if !self.lines.contains_key(party) {
            self.order.push_back(party.clone());
        }
        self.lines.entry(party.clone()).or_default().push_back(sender);
        receiver
    }

    /// Gives a free place to the request that is next, of a party that has less than its share; the party's next turn is
    /// behind all others.
    fn next(&mut self) -> Option<(Party, oneshot::Sender<Place>)> {
        let at = self.order.iter().position(|party| self.may_hold(party))?;
        let party = self.order.remove(at)?;
        let line = self.lines.get_mut(&party)?;
        let next = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&party);
        } else {
            self.order.push_back(party.clone());
        }
        self.give(&party);
        Some((party, next))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((turns, mut party)) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = locked(&turns.0);
                state.take_back(&party);
                let Some(next) = state.next() else { return };
                next
            };
            match next.1.send(Place(Some((turns.clone(), next.0.clone())))) {
                Ok(()) => return,
                // The request that waited has left: this loop offers the place to the next one.
                Err(mut place) => drop(place.0.take()),
            }
            party = next.0;
        }
    }
}

/// The state, also after a panic of another holder: it is whole between any two of its changes.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;

    fn party(name: &str) -> Party {
        Party::of(&User { name: name.to_owned(), ..User::anonymous() })
    }

    fn waiting<'a>(turns: &'a Turns, user: &str) -> BoxFuture<'a, Place> {
        let party = party(user);
        let mut waiting = async move { turns.take(&party).await }.boxed();
        assert!((&mut waiting).now_or_never().is_none(), "a place was free");
        waiting
    }

    #[test]
    fn users_take_turns_however_many_requests_each_has() {
        let turns = Turns::new(1, 1);
        let mut held = turns.take(&party("a")).now_or_never();
        let mut lines: Vec<_> =
            ["a", "a", "a", "b", "b", "c"].iter().map(|user| (*user, Some(waiting(&turns, user)))).collect();
        let mut served = String::new();
        for _ in 0..lines.len() {
            drop(held.take());
            for (user, line) in &mut lines {
                if let Some(place) = line.as_mut().and_then(FutureExt::now_or_never) {
                    assert!(held.replace(place).is_none(), "one place for two");
                    served.push_str(user);
                    *line = None;
                }
            }
        }
        assert_eq!(served, "abcaba");
        drop(held);
        assert_eq!(locked(&turns.0).free, 1);
        assert!(locked(&turns.0).lines.is_empty() && locked(&turns.0).order.is_empty());
    }

    #[test]
    fn requests_that_leave_lose_no_place() {
        let turns = Turns::new(1, 1);
        let held = turns.take(&party("a")).now_or_never();
        let (left, mut stays) = (waiting(&turns, "a"), waiting(&turns, "b"));
        let given = waiting(&turns, "c");
        drop(left);
        drop(held);
        let place = (&mut stays).now_or_never();
        assert!(place.is_some(), "the place of one who left is lost");
        // A waiting request that leaves after a place was given to it, before it looks.
        drop(place);
        drop(given);
        assert_eq!(locked(&turns.0).free, 1);
    }

    #[test]
    fn a_user_alone_has_all_places() {
        let turns = Turns::new(3, 3);
        let held: Vec<_> = (0..3).map(|_| turns.take(&party("a")).now_or_never().unwrap()).collect();
        drop(waiting(&turns, "a"));
        drop(held);
        assert_eq!(locked(&turns.0).free, 3);
    }

    #[test]
    fn a_party_leaves_what_is_beyond_its_share_to_others() {
        let turns = Turns::new(4, 2);
        let held: Vec<_> = (0..2).map(|_| turns.take(&party("a")).now_or_never().unwrap()).collect();
        let mut more = waiting(&turns, "a");
        let other = turns.take(&party("b")).now_or_never();
        assert!(other.is_some(), "a place is free for others");
        drop(other);
        assert!((&mut more).now_or_never().is_none(), "the share is the same");
        drop(held);
        assert!(more.now_or_never().is_some());
        assert_eq!(locked(&turns.0).free, 4);
        assert!(locked(&turns.0).held.is_empty());
    }

    #[test]
    fn work_that_lasts_passes_its_place_on_and_gets_it_back() {
        let turns = Turns::new(1, 1);
        let place = turns.take(&party("a")).now_or_never().unwrap();
        let slices = Slices::begin(turns.clone(), party("a"), place);
        let over = || slices.since.set(Instant::now().checked_sub(SLICE).unwrap());
        let mut own = waiting(&turns, "a");
        over();
        slices.pause();
        assert!((&mut own).now_or_never().is_none(), "requests of one user take no turns among themselves");
        let mut other = waiting(&turns, "b");
        slices.pause();
        assert!((&mut other).now_or_never().is_none(), "the slice is not over");
        over();
        std::thread::scope(|scope| {
            let b = scope.spawn(|| drop(futures::executor::block_on(other)));
            let a = scope.spawn(|| drop(futures::executor::block_on(own)));
            slices.pause();
            assert!(slices.place.borrow().is_some(), "the next turn came");
            b.join().unwrap();
            drop(slices.place.borrow_mut().take());
            a.join().unwrap();
        });
        assert_eq!(locked(&turns.0).free, 1);
        assert!(locked(&turns.0).order.is_empty());
    }

    #[test]
    fn service_accounts_of_a_namespace_are_one_party() {
        let account = |name: &str| party(&format!("system:serviceaccount:{name}"));
        assert_eq!(account("ns:a"), account("ns:b"));
        assert_ne!(account("ns:a"), account("other:a"));
        assert_ne!(party("a"), party("b"));
    }
}
