//! Places for work that users take in turn, one after the other.
//!
//! Owns the order: a place that becomes free goes to the user whose turn it is, and the user to the end of the line. So
//! one user's requests wait for those of that user and for one of each other user, however many these have. Work
//! under way is never broken off. Places that nobody else waits for are all for one user.
//!
//! Invariants: no request waits while a place is free; a place is given to one request or is free; requests that left are
//! passed over.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::authn::User;
use crate::authn::service_account_name::{self, GROUP_SERVICE_ACCOUNTS};

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
}

/// A number of places, and the parties who wait for one.
#[derive(Debug)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    free: usize,
    /// Parties who wait, the next first; each is here once.
    order: VecDeque<Party>,
    /// Their requests, in order. Invariant: a line for each party of `order`, never an empty one.
    lines: HashMap<Party, VecDeque<oneshot::Sender<Place>>>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Option<Arc<Mutex<State>>>);

impl Turns {
    /// `places` free places.
    pub(super) fn new(places: usize) -> Turns {
        Turns(Arc::new(Mutex::new(State { free: places, ..State::default() })))
    }

    /// A place for `party`, when it is its turn.
    pub(super) async fn take(&self, party: &Party) -> Place {
        loop {
            let waiting = {
                let mut state = locked(&self.0);
                if state.free > 0 {
                    state.free -= 1;
                    return Place(Some(self.0.clone()));
                }
                state.join(party)
            };
            if let Ok(place) = waiting.await {
                return place;
            }
        }
    }
}

impl State {
    /// The end of `party`'s line.
    fn join(&mut self, party: &Party) -> oneshot::Receiver<Place> {
        let (sender, receiver) = oneshot::channel();
        if !self.lines.contains_key(party) {
            self.order.push_back(party.clone());
        }
        self.lines.entry(party.clone()).or_default().push_back(sender);
        receiver
    }

    /// The request that is next; its party's next turn is behind all others.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        let party = self.order.pop_front()?;
        let line = self.lines.get_mut(&party)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&party);
        } else {
            self.order.push_back(party);
        }
        next
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = locked(&turns);
                let Some(next) = state.next() else {
                    state.free += 1;
                    return;
                };
                next
            };
            match next.send(Place(Some(turns.clone()))) {
                Ok(()) => return,
                // The request that waited has left: this loop offers the place to the next one.
                Err(mut place) => drop(place.0.take()),
            }
        }
    }
}

/// The state is whole between any two of its changes.
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
        let turns = Turns::new(1);
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
        let turns = Turns::new(1);
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
    fn one_user_alone_has_all_places() {
        let turns = Turns::new(3);
        let held: Vec<_> = (0..3).map(|_| turns.take(&party("a")).now_or_never().unwrap()).collect();
        drop(waiting(&turns, "a"));
        drop(held);
        assert_eq!(locked(&turns.0).free, 3);
    }

    #[test]
    fn service_accounts_of_a_namespace_are_one_party() {
        let account = |name: &str| party(&format!("system:serviceaccount:{name}"));
        assert_eq!(account("ns:a"), account("ns:b"));
        assert_ne!(account("ns:a"), account("other:a"));
        assert_ne!(party("a"), party("b"));
    }
}
