//! Places for connections: their number, and the choice of the connection that is closed for a new one.
//!
//! Owns the table of connections by their holder: the address of a stranger (no valid client certificate, and no
//! request yet whose credentials were accepted), or an authenticated user. When all places are taken, a new connection
//! gets a place of the holder with the most connections: of strangers while there are any, else of users. So a flood of
//! strangers evicts strangers, those of its own address first, and a user who took all places loses them one by one to
//! others. A user who holds more than half of the places gives up theirs before a stranger whose address has one or two:
//! otherwise newcomers would share the few places that are left, and a flood beside that user would evict each of them
//! before its first request. Among addresses with equally many, the oldest connection goes. Of a stranger the oldest
//! connection is evicted; of a user the oldest without a request under way, else the newest. Administrators lose none
//! while another user has two. Where no user has two, new connections wait.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orch_api::authn::{GROUP_MASTERS, User};
use orch_bounded::WarningLimit;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections of one address that keep their places while a user holds more than half of all: a client and its retry.
const ADDRESS_SPARED_MAX: usize = 2;

/// The places of a server. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    permits: Arc<Semaphore>,
    table: Arc<Mutex<Table>>,
    warnings: Arc<WarningLimit>,
}

/// Holder of a connection, by which connections are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Stranger(IpAddr),
    User(Arc<str>),
    Administrator(Arc<str>),
}

/// Rank of a user among those who hold connections: administrators make room last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    User,
    Administrator,
}

impl Rank {
    /// Of a user by membership in the administrators' group.
    pub(super) fn of(is_in_masters: bool) -> Rank {
        if is_in_masters { Rank::Administrator } else { Rank::User }
    }
}

#[derive(Debug)]
struct Table {
    /// Number of all places.
    places: usize,
    /// Number of the next connection.
    number: u64,
    /// Each holder's connections by number, oldest first. Invariant: no inner map is empty.
    held: BTreeMap<Holder, BTreeMap<u64, Held>>,
}

#[derive(Clone, Debug)]
struct Held {
    evicted: CancellationToken,
    /// Requests under way.
    requests: Arc<AtomicUsize>,
}

/// The place of a connection, released on drop.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Places,
    holder: Mutex<Holder>,
    held: Held,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The user that the memory of a connection is charged to; `None`: all strangers together.
pub(super) type Payer = Option<Arc<str>>;

/// Counts a request as under way on its connection until dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<AtomicUsize>);

impl Places {
    /// `count` places.
    pub(super) fn new(count: usize) -> Places {
        let table = Table { places: count, number: 0, held: BTreeMap::new() };
        let (permits, table) = (Arc::new(Semaphore::new(count)), Arc::new(Mutex::new(table)));
        Places { permits, table, warnings: Arc::default() }
    }

    /// A place for a new connection from `address`: a free one, or the next released; evicts a connection when none is
    /// free.
    pub(super) async fn take(&self, address: IpAddr) -> Arc<Place> {
        let free = Arc::clone(&self.permits).try_acquire_owned().ok();
        let permit = match free {
            Some(permit) => Some(permit),
            None => {
                self.make_room();
                // It fails only when the semaphore is closed, and no code closes it.
                Arc::clone(&self.permits).acquire_owned().await.ok()
            }
        };
        let holder = Holder::Stranger(address.to_canonical());
        let held = Held { evicted: CancellationToken::new(), requests: Arc::default() };
        let mut table = self.table.lock();
        let number = table.number;
        table.number += 1;
        table.held.entry(holder.clone()).or_default().insert(number, held.clone());
        drop(table);
        Arc::new(Place { number, places: self.clone(), holder: Mutex::new(holder), held, _permit: permit })
    }

    fn make_room(&self) {
        let mut table = self.table.lock();
        let victim = table.victim().and_then(|(holder, number)| table.remove(&holder, number));
        drop(table);
        match victim {
            Some(held) => {
                tracing::debug!("a connection makes room for a new one");
                held.evicted.cancel();
            }
            None => {
                if let Some(left_out) = self.warnings.pass() {
                    tracing::warn!(left_out, "no place for another connection, new ones wait");
                }
            }
        }
    }
}

impl Table {
    /// The connection to evict: its holder and number. `None`: no strangers, and no user has two connections.
    fn victim(&self) -> Option<(Holder, u64)> {
        let largest = |may_give: &dyn Fn(&Holder, usize) -> bool| {
            let candidates = self.held.iter().filter(|(holder, held)| may_give(holder, held.len()));
            candidates.max_by_key(|(_, held)| (held.len(), Reverse(held.keys().next().copied())))
        };
        let is_user = |holder: &Holder, count| matches!(holder, Holder::User(_)) && count > 1;
        let user = largest(&is_user);
        let has_most = user.is_some_and(|(_, held)| held.len() > self.places / 2);
        let spared = if has_most { ADDRESS_SPARED_MAX } else { 0 };
        let is_stranger = |holder: &Holder, count| matches!(holder, Holder::Stranger(_)) && count > spared;
        if let Some((holder, held)) = largest(&is_stranger) {
            return held.keys().next().map(|&oldest| (holder.clone(), oldest));
        }
        let (holder, held) = user.or_else(|| largest(&|_, count| count > 1))?;
        let is_idle = |held: &Held| held.requests.load(Ordering::Relaxed) == 0;
        let oldest_idle = held.iter().find(|(_, held)| is_idle(held));
        let (&number, _) = oldest_idle.or_else(|| held.iter().next_back())?;
        Some((holder.clone(), number))
    }

    fn remove(&mut self, holder: &Holder, number: u64) -> Option<Held> {
        let connections = self.held.get_mut(holder)?;
        let held = connections.remove(&number);
        if connections.is_empty() {
            self.held.remove(holder);
        }
        held
    }
}

impl Place {
    /// Counts the place for `user` from now on: a request of the connection was accepted as that user. The first user
    /// stays the holder.
    pub(super) fn hold(&self, user: &User) {
        self.hold_as(&user.name, Rank::of(user.is_in_group(GROUP_MASTERS)));
    }

    /// As [`Place::hold`], with the user's name and rank.
    pub(super) fn hold_as(&self, name: &str, rank: Rank) {
        let mut holder = self.holder.lock();
        if !matches!(*holder, Holder::Stranger(_)) {
            return;
        }
        let user = match rank {
            Rank::User => Holder::User(name.into()),
            Rank::Administrator => Holder::Administrator(name.into()),
        };
        let mut table = self.places.table.lock();
        // An evicted connection is no longer in the table.
        if let Some(held) = table.remove(&holder, self.number) {
            table.held.entry(user.clone()).or_default().insert(self.number, held);
        }
        *holder = user;
    }

    /// Counts another request as under way. Returns its guard and the number under way, this one included.
    pub(super) fn request(&self) -> (UnderWay, usize) {
        let before = self.held.requests.fetch_add(1, Ordering::Relaxed);
        (UnderWay(Arc::clone(&self.held.requests)), before + 1)
    }

    /// The user that holds the place.
    pub(super) fn payer(&self) -> Payer {
        match &*self.holder.lock() {
            Holder::Stranger(_) => None,
            Holder::User(name) | Holder::Administrator(name) => Some(Arc::clone(name)),
        }
    }

    /// Completes when the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.held.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table.lock().remove(self.holder.get_mut(), self.number);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(place: &Place) -> bool {
        place.held.evicted.is_cancelled()
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    async fn stranger(places: &Places) -> Arc<Place> {
        places.take(address(1)).await
    }

    async fn user(places: &Places, name: &str) -> Arc<Place> {
        let place = stranger(places).await;
        place.hold_as(name, Rank::of(name == "admin"));
        place
    }

    /// Takes one more connection; returns which of `held` are evicted.
    async fn evicted(places: &Places, held: &[&Arc<Place>]) -> Vec<bool> {
        let waiting = places.take(address(9));
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        held.iter().map(|place| is_evicted(place)).collect()
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_those_let_in_stay() {
        let places = Places::new(3);
        let known = user(&places, "u").await;
        let (older, newer) = (stranger(&places).await, stranger(&places).await);
        assert_eq!(evicted(&places, &[&known, &older, &newer]).await, [false, true, false]);
        drop(older);
        assert!(!is_evicted(&*stranger(&places).await));
    }

    #[tokio::test]
    async fn of_strangers_the_address_that_has_the_most_makes_room() {
        let places = Places::new(3);
        let alone = places.take(address(2)).await;
        let (older, newer) = (stranger(&places).await, stranger(&places).await);
        assert_eq!(evicted(&places, &[&alone, &older, &newer]).await, [false, true, false]);
    }

    #[tokio::test]
    async fn of_addresses_with_equally_many_the_oldest_connection_makes_room() {
        let places = Places::new(2);
        let (older, newer) = (places.take(address(1)).await, places.take(address(2)).await);
        assert_eq!(evicted(&places, &[&older, &newer]).await, [true, false]);
        let places = Places::new(2);
        let (older, newer) = (places.take(address(2)).await, places.take(address(1)).await);
        assert_eq!(evicted(&places, &[&older, &newer]).await, [true, false]);
    }

    /// One user holds all places; another address opens many connections a step, whose places it never gives back by
    /// itself; a newcomer takes part in a few steps before its first request is accepted.
    #[tokio::test]
    async fn a_user_with_all_places_and_a_flood_of_another_address_keep_no_newcomer_out() {
        const PLACES: usize = 16;
        const FLOOD_PER_STEP: usize = 10;
        const STEPS_TO_FIRST_REQUEST: usize = 3;
        let places = Places::new(PLACES);
        let mut open = Vec::new();
        for _ in 0..PLACES {
            open.push(user(&places, "greedy").await);
        }
        // The honest addresses are smaller and larger than the flood's.
        for newcomer in [1, 2, 201, 202] {
            let mut own = None;
            for _ in 0..STEPS_TO_FIRST_REQUEST {
                for at in 0..=FLOOD_PER_STEP {
                    let is_own = at == FLOOD_PER_STEP / 2 && own.is_none();
                    let waiting = places.take(address(if is_own { newcomer } else { 100 }));
                    tokio::pin!(waiting);
                    let taken = match futures::poll!(waiting.as_mut()) {
                        std::task::Poll::Ready(taken) => taken,
                        std::task::Poll::Pending => {
                            // The evicted connection is closed.
                            open.retain(|place| !is_evicted(place));
                            waiting.await
                        }
                    };
                    if is_own { own = Some(taken) } else { open.push(taken) }
                }
            }
            let own = own.unwrap();
            assert!(!is_evicted(&own), "newcomer {newcomer}");
            own.hold_as(&format!("honest{newcomer}"), Rank::User);
            open.push(own);
        }
        let table = places.table.lock();
        let greedy = table.held[&Holder::User("greedy".into())].len();
        assert!(greedy >= PLACES / 2, "a flood takes no more than half of the places from a user: {greedy}");
    }

    #[tokio::test]
    async fn a_user_who_has_the_most_gives_up_the_oldest_idle_or_the_newest() {
        let places = Places::new(4);
        let other = user(&places, "other").await;
        let many = [user(&places, "u").await, user(&places, "u").await, user(&places, "u").await];
        let busy = [many[0].request(), many[2].request()];
        let held = [&other, &many[0], &many[1], &many[2]];
        assert_eq!(evicted(&places, &held).await, [false, false, true, false]);
        assert_eq!(evicted(&places, &held).await, [false, false, true, true]);
        drop(busy);
    }

    #[tokio::test]
    async fn administrators_make_room_last() {
        let places = Places::new(5);
        let admins =
            [user(&places, "admin").await, user(&places, "admin").await, user(&places, "admin").await];
        let users = [user(&places, "u").await, user(&places, "u").await];
        let held = [&admins[0], &admins[1], &admins[2], &users[0], &users[1]];
        assert_eq!(evicted(&places, &held).await, [false, false, false, true, false]);
        assert_eq!(evicted(&places, &held).await, [true, false, false, true, false]);
    }

    #[tokio::test]
    async fn where_nobody_has_two_a_new_one_waits() {
        let places = Places::new(2);
        let known = [user(&places, "u").await, user(&places, "v").await];
        let waiting = stranger(&places);
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert!(!known.iter().any(|place| is_evicted(place)));
        drop(known);
        waiting.await;
    }
}
