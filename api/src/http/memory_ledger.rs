//! The memory that a node holds for its clients: request bodies, responses rendered for one client alone, and the
//! selectors of watches.
//!
//! Owns the accounts of these, in bytes, for the node and for each party: a user, or the service accounts of a namespace, of whom
//! a client who may make one may make a thousand. Watches have an account of their own, because they
//! hold its room for a day where a body holds it for seconds: full, it refuses watches and nothing else. A client decides
//! how fast it sends and reads, for minutes. Without an account, each of a connection's hundred streams could hold 3 MiB of body, or a table of all
//! objects. A body waits for room before it is read; meanwhile the connection's flow control window bounds the client.
//! A response that finds no room is refused, because it exists already. Bytes that a response shares with the store are
//! not counted. A list releases its room as its frames are taken.
//!
//! Invariant: one party takes a quarter of the node's room at most, half of that of watches, and half of a priority level's; one level a part by its
//! share of the seats, half at most: none takes the room of all others. The level `exempt` has no part of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::turns::Party;
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::pipeline::OBJECT_BYTES_MAX;
use crate::render::Frames;
use crate::request::Verb;

/// Bytes for all users together: eighty bodies of the largest size, next to a state of 4 GiB.
const NODE_BYTES_MAX: usize = 256 << 20;

/// Bytes for each user: twenty bodies of the largest size, or six lists of 20,000 objects as tables.
const USER_BYTES_MAX: usize = NODE_BYTES_MAX / 4;

/// Fewest bytes for a priority level, whatever its share: for each of two users a list of 5,000 objects as a table, or five
/// bodies of the largest size.
const LEVEL_BYTES_MIN: usize = 32 << 20;

/// Fewest bytes that are counted: below this, a stream's flow control window holds more.
pub(super) const COUNTED_BYTES_MIN: usize = 64 << 10;

/// Bytes that one watch is counted with, as measured with its stream and its task (docs/performance.md).
pub const WATCH_BYTES: u64 = 12 << 10;

/// Bytes of a usual watch's selectors, request id and credential: these are in [`WATCH_BYTES`].
const WATCH_SELECTOR_BYTES: usize = 4 << 10;

/// Watches of an API whose number was not chosen.
pub(super) const WATCHES_DEFAULT: usize = 10_000;

/// Bytes of one permit, so that the number of permits fits the semaphore's integer.
const PERMIT_BYTES: usize = 1 << 10;

/// An account of one node.
pub(super) struct Ledger {
    node: Arc<Semaphore>,
    /// Permits of `node` while nothing is held.
    node_permits: usize,
    /// Bytes for each user.
    user_bytes: usize,
    users: Rooms,
    /// The half of a level's room that one user may take, for each user of a level.
    shares: Rooms,
    levels: Rooms,
}

/// The room of each party, or of each level, that has a reservation, and of some that had one until recently.
#[derive(Default)]
struct Rooms(Mutex<Table>);

#[derive(Default)]
struct Table {
    rooms: HashMap<Arc<str>, Weak<Semaphore>>,
    /// Rooms after those without a reservation were last taken away: it is done anew when there are twice as many, so that it
    /// costs each new one a constant time.
    kept: usize,
}

/// Rooms below which none is taken away.
const ROOMS_MIN: usize = 64;

/// The party that holds bytes.
#[derive(Clone, Debug)]
pub(super) struct Payer<'a> {
    party: Party,
    /// Name and bytes of the priority level; `None`: no level counts.
    level: Option<(&'a str, usize)>,
}

impl<'a> Payer<'a> {
    /// `user` with the level of its request.
    pub(super) fn of(user: &'a User, exchange: &'a Exchange) -> Self {
        let level = exchange.flow().and_then(|entry| entry.limited_level());
        let level = level.map(|(name, permille)| {
            let part = NODE_BYTES_MAX / 1000 * usize::try_from(permille).unwrap_or(0);
            (name, part.clamp(LEVEL_BYTES_MIN, NODE_BYTES_MAX / 2))
        });
        Payer { party: Party::of(user), level }
    }

    /// The permits for `bytes`: at most all of the smallest room.
    fn units(&self, bytes: usize) -> u32 {
        units(bytes.min(self.level.map_or(USER_BYTES_MAX, |(_, room)| room / 2)))
    }
}

/// A reservation of room, released when it is dropped.
///
/// Invariant: all have the same number of permits.
#[derive(Debug)]
pub(super) struct Hold {
    user: OwnedSemaphorePermit,
    /// Of the user's half of the level's room.
    share: Option<OwnedSemaphorePermit>,
    level: Option<OwnedSemaphorePermit>,
    node: OwnedSemaphorePermit,
}

impl Hold {
    /// Shrinks the reservation to `bytes`, and returns the excess, if any.
    fn keep(&mut self, bytes: usize) -> Option<Hold> {
        let beyond = self.user.num_permits().saturating_sub(bytes.div_ceil(PERMIT_BYTES));
        if beyond == 0 {
            return None;
        }
        let (user, node) = (self.user.split(beyond)?, self.node.split(beyond)?);
        let split = |permit: &mut OwnedSemaphorePermit| permit.split(beyond);
        let share = self.share.as_mut().and_then(split);
        let level = self.level.as_mut().and_then(split);
        Some(Hold { user, share, level, node })
    }
}

impl Ledger {
    /// An empty account of bodies and responses.
    pub(super) fn new() -> Self {
        Ledger::with_room(NODE_BYTES_MAX, NODE_BYTES_MAX / USER_BYTES_MAX)
    }

    /// An empty account of `count` watches, of which a user has half at most: one process with many users behind it may
    /// open a watch for each.
    pub(super) fn of_watches(count: usize) -> Self {
        Ledger::with_room(count.saturating_mul(watch_bytes(0)), 2)
    }

    /// An account of `bytes`, of which a user has one part of `user_parts`.
    fn with_room(bytes: usize, user_parts: usize) -> Self {
        let node_permits = (bytes / PERMIT_BYTES).min(Semaphore::MAX_PERMITS);
        Ledger {
            node: Arc::new(Semaphore::new(node_permits)),
            node_permits,
            user_bytes: bytes / user_parts,
            users: Rooms::default(),
            shares: Rooms::default(),
            levels: Rooms::default(),
        }
    }

    /// Bytes that are held now.
    pub(super) fn held_bytes(&self) -> usize {
        self.node_permits.saturating_sub(self.node.available_permits()) * PERMIT_BYTES
    }

    /// Reserves room for a watch of `user` that keeps `bytes` of its request.
    ///
    /// # Errors
    /// `NoRoom`: the user or the node has as many watches as it may.
    pub(super) fn take_for_watch(&self, user: &User, bytes: usize) -> Result<Hold, ApiError> {
        self.take(&Payer { party: Party::of(user), level: None }, watch_bytes(bytes))
    }

    /// Waits for room for `bytes` of `payer`; at most all of the smallest room.
    ///
    /// # Errors
    /// `Unavailable`: the node is stopping.
    pub(super) async fn wait(&self, payer: &Payer<'_>, bytes: usize) -> Result<Hold, ApiError> {
        let ended = |_| ApiError::Unavailable("the node is stopping".to_owned());
        let units = payer.units(bytes.min(self.user_bytes));
        // The user's own room first: a request that waits for it takes no room from other users. Then the level's.
        let user = self.user_room(payer).acquire_many_owned(units).await.map_err(ended)?;
        let (mut share, mut level) = (None, None);
        if let Some([of_user, of_all]) = self.level_rooms(payer) {
            share = Some(of_user.acquire_many_owned(units).await.map_err(ended)?);
            level = Some(of_all.acquire_many_owned(units).await.map_err(ended)?);
        }
        let node = self.node.clone().acquire_many_owned(units).await.map_err(ended)?;
        Ok(Hold { user, share, level, node })
    }

    /// Reserves room for `bytes` of `payer` without waiting; at most all of the smallest room.
    ///
    /// # Errors
    /// `NoRoom`: the user, the level or the node has no room.
    pub(super) fn take(&self, payer: &Payer<'_>, bytes: usize) -> Result<Hold, ApiError> {
        let units = payer.units(bytes.min(self.user_bytes));
        let take = |room: Arc<Semaphore>| room.try_acquire_many_owned(units).map_err(|_| ApiError::NoRoom);
        let user = take(self.user_room(payer))?;
        let (mut share, mut level) = (None, None);
        if let Some([of_user, of_all]) = self.level_rooms(payer) {
            (share, level) = (Some(take(of_user)?), Some(take(of_all)?));
        }
        let node = take(self.node.clone())?;
        Ok(Hold { user, share, level, node })
    }

    /// The node's permits.
    #[cfg(test)]
    pub(super) fn room(&self) -> Arc<Semaphore> {
        self.node.clone()
    }

    fn user_room(&self, payer: &Payer<'_>) -> Arc<Semaphore> {
        self.users.of(payer.party.name(), self.user_bytes)
    }

    /// The user's half of the level's room, and that room.
    fn level_rooms(&self, payer: &Payer<'_>) -> Option<[Arc<Semaphore>; 2]> {
        // A level whose share has changed has another room: what is held keeps the old one.
        payer.level.map(|(name, bytes)| {
            let (level, party) = (format!("{name}/{bytes}"), payer.party.name());
            let share = format!("{level}/{party}").into();
            [self.shares.of(&share, bytes / 2), self.levels.of(&level.into(), bytes)]
        })
    }
}

/// Bytes that a watch is counted with which keeps `bytes` of its request.
fn watch_bytes(bytes: usize) -> usize {
    let usual = usize::try_from(WATCH_BYTES).unwrap_or(usize::MAX);
    usual.saturating_add(bytes.saturating_sub(WATCH_SELECTOR_BYTES))
}

impl Rooms {
    /// The room of `name`; `bytes` where it has no reservation.
    fn of(&self, name: &Arc<str>, bytes: usize) -> Arc<Semaphore> {
        let Table { rooms, kept } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(name).and_then(Weak::upgrade) {
            return room;
        }
        if rooms.len() >= (2 * *kept).max(ROOMS_MIN) {
            rooms.retain(|_, room| room.strong_count() > 0);
            *kept = rooms.len();
        }
        let room = Arc::new(Semaphore::new(bytes / PERMIT_BYTES));
        rooms.insert(name.clone(), Arc::downgrade(&room));
        room
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.min(USER_BYTES_MAX).div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// Bytes to reserve for a body of `bytes` and the response, which contains the object. An update may leave an object
/// larger than the body.
pub(super) fn with_answer(verb: Verb, bytes: usize) -> usize {
    let answer = if matches!(verb, Verb::Update | Verb::Patch) { bytes.max(OBJECT_BYTES_MAX) } else { bytes };
    bytes + answer
}

/// `response`, keeping `hold` until the connection has written or dropped the last byte.
pub(super) fn keep_until_sent(response: Response<Body>, hold: Hold) -> Response<Body> {
    let hold = Arc::new(hold);
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            frame.map_data(|bytes| Bytes::from_owner(Piece { bytes, _hold: hold.clone() }))
        }))
    })
}

/// The frames of a response that holds fewer bytes with each of them. The bytes that a frame takes out of the response
/// stay reserved until the connection has written or dropped the frame.
pub(super) struct HeldFrames {
    frames: Frames,
    hold: Hold,
}

impl HeldFrames {
    /// `hold` is the reservation for the bytes that `frames` hold.
    pub(super) fn new(frames: Frames, hold: Hold) -> Self {
        HeldFrames { frames, hold }
    }
}

impl Iterator for HeldFrames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let bytes = self.frames.next()?;
        Some(match self.hold.keep(self.frames.own_bytes()) {
            Some(hold) => Bytes::from_owner(Piece { bytes, _hold: hold }),
            None => bytes,
        })
    }
}

/// A frame with its reservation, because an HTTP/2 connection keeps the frame for longer than the body.
struct Piece<H> {
    bytes: Bytes,
    _hold: H,
}

impl<H> AsRef<[u8]> for Piece<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> User {
        User { name: name.to_owned(), ..User::default() }
    }

    fn of(name: &str) -> Payer<'static> {
        Payer { party: Party::of(&named(name)), level: None }
    }

    #[test]
    fn a_user_leaves_half_of_a_level_to_others_and_a_level_leaves_room_to_the_rest() {
        let ledger = Ledger::new();
        let at = |user, level| Payer { level: Some((level, 32 << 20)), ..of(user) };
        let low = ledger.take(&at("a", "low"), usize::MAX).unwrap();
        assert_eq!(
            low.level.as_ref().map(OwnedSemaphorePermit::num_permits),
            Some((16 << 20) / PERMIT_BYTES)
        );
        assert_eq!(ledger.take(&at("a", "low"), 1).unwrap_err(), ApiError::NoRoom, "it has its half");
        let second = ledger.take(&at("b", "low"), usize::MAX).unwrap();
        assert_eq!(ledger.take(&at("c", "low"), 1).unwrap_err(), ApiError::NoRoom, "the level is full");
        let other = ledger.take(&at("c", "high"), 1).unwrap();
        drop((low, second, other));
        assert!(ledger.take(&at("b", "low"), 1).is_ok());
    }

    #[test]
    fn a_user_leaves_room_for_others_and_gets_it_back() {
        let ledger = Ledger::new();
        let held: Vec<Hold> = (0..20).map(|_| ledger.take(&of("a"), 3 << 20).unwrap()).collect();
        assert_eq!(ledger.take(&of("a"), 5 << 20).unwrap_err(), ApiError::NoRoom);
        let all = ledger.take(&of("b"), usize::MAX).unwrap();
        assert_eq!(ledger.take(&of("b"), 1).unwrap_err(), ApiError::NoRoom);
        drop((held, all));
        assert!(ledger.take(&of("a"), usize::MAX).is_ok() && ledger.take(&of("b"), usize::MAX).is_ok());
        let four: Vec<Hold> =
            ["a", "b", "c", "d"].map(|user| ledger.take(&of(user), usize::MAX).unwrap()).into();
        assert_eq!(ledger.take(&of("e"), 1).unwrap_err(), ApiError::NoRoom, "the node has no more");
        drop(four);
        drop(ledger.take(&of("e"), 1));
    }

    #[test]
    fn a_user_has_half_of_the_watches_and_long_requests_count_as_several() {
        let ledger = Ledger::of_watches(8);
        let (a, b, c) = (named("a"), named("b"), named("c"));
        let held: Vec<Hold> = (0..4).map(|_| ledger.take_for_watch(&a, 100).unwrap()).collect();
        assert_eq!(ledger.take_for_watch(&a, 100).unwrap_err(), ApiError::NoRoom, "it has its half");
        let long = ledger.take_for_watch(&b, WATCH_SELECTOR_BYTES + 2 * watch_bytes(0)).unwrap();
        assert_eq!(ledger.take_for_watch(&b, 2 * watch_bytes(0)).unwrap_err(), ApiError::NoRoom);
        let last = ledger.take_for_watch(&c, 0).unwrap();
        assert_eq!(ledger.take_for_watch(&c, 0).unwrap_err(), ApiError::NoRoom, "the node has no more");
        drop((held, long, last));
        assert!(ledger.take_for_watch(&a, 100).is_ok());
    }

    #[test]
    fn the_accounts_of_a_namespace_share_a_room() {
        let ledger = Ledger::of_watches(8);
        let account = |name: &str| named(&format!("system:serviceaccount:ns:{name}"));
        let held: Vec<Hold> =
            (0..4).map(|at| ledger.take_for_watch(&account(&format!("a{at}")), 0).unwrap()).collect();
        assert_eq!(ledger.take_for_watch(&account("b"), 0).unwrap_err(), ApiError::NoRoom);
        assert!(ledger.take_for_watch(&named("system:serviceaccount:other:a"), 0).is_ok());
        drop(held);
    }

    #[test]
    fn rooms_without_a_reservation_are_forgotten_when_they_are_many() {
        let ledger = Ledger::new();
        let held = ledger.take(&of("held"), 1).unwrap();
        let rooms = || ledger.users.0.lock().unwrap().rooms.len();
        for at in 0..10 * ROOMS_MIN {
            drop(ledger.take(&of(&at.to_string()), 1));
            assert!(rooms() <= ROOMS_MIN);
        }
        drop(held);
        let many: Vec<Hold> =
            (0..3 * ROOMS_MIN).map(|at| ledger.take(&of(&at.to_string()), 1).unwrap()).collect();
        assert!(rooms() >= many.len());
    }

    #[tokio::test]
    async fn a_wait_for_the_own_room_takes_none_of_the_others() {
        let ledger = Ledger::new();
        let first = ledger.take(&of("a"), usize::MAX).unwrap();
        let payer = of("a");
        let mut waiting = Box::pin(ledger.wait(&payer, usize::MAX));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert_eq!(ledger.node.available_permits(), (NODE_BYTES_MAX - USER_BYTES_MAX) / PERMIT_BYTES);
        drop(first);
        drop(waiting.await.unwrap());
        assert_eq!(ledger.node.available_permits(), NODE_BYTES_MAX / PERMIT_BYTES);
    }

    #[tokio::test]
    async fn an_answer_is_held_until_its_last_frame_is_gone() {
        let ledger = Ledger::new();
        let hold = ledger.take(&of("a"), 1 << 20).unwrap();
        let mut body = keep_until_sent(Response::new(Body::from("whole")), hold).into_body();
        let frame = body.frame().await.unwrap().unwrap();
        drop(body);
        assert!(
            ledger.node.available_permits() < NODE_BYTES_MAX / PERMIT_BYTES,
            "a connection may keep the frame"
        );
        assert_eq!(frame.data_ref().unwrap(), "whole");
        drop(frame);
        assert_eq!(ledger.node.available_permits(), NODE_BYTES_MAX / PERMIT_BYTES);
    }
}
