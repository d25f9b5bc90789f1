//! The memory that a node holds for its clients: request bodies, and responses rendered for one client alone.
//!
//! Owns the account of both, in bytes, for the node and for each user. A client decides how fast it sends and reads,
//! for minutes. Without an account, each of a connection's hundred streams could hold 3 MiB of body, or a table of all
//! objects. A body waits for room before it is read; meanwhile the connection's flow control window bounds the client.
//! A response that finds no room is refused, because it exists already. Bytes that a response shares with the store are
//! not counted. A list releases its room as its frames are taken.
//!
//! Invariant: one user takes a quarter of the node's room at most, so that no user takes the room of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;
use crate::render::Frames;

/// Bytes for all users together: eighty bodies of the largest size, next to a state of 4 GiB.
const NODE_BYTES_MAX: usize = 256 << 20;

/// Bytes for each user: twenty bodies of the largest size, or six lists of 20,000 objects as tables.
const USER_BYTES_MAX: usize = NODE_BYTES_MAX / 4;

/// Fewest bytes that are counted: below this, a stream's flow control window holds more.
pub(super) const COUNTED_BYTES_MIN: usize = 64 << 10;

/// Bytes of one permit, so that the number of permits fits the semaphore's integer.
const PERMIT_BYTES: usize = 1 << 10;

/// The account of one node.
pub(super) struct Ledger {
    node: Arc<Semaphore>,
    /// Users with a reservation, and some that had one until recently.
    users: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A reservation of room, released when it is dropped.
///
/// Invariant: `user` and `node` have the same number of permits.
#[derive(Debug)]
pub(super) struct Hold {
    user: OwnedSemaphorePermit,
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
        Some(Hold { user, node })
    }
}

impl Ledger {
    /// An empty account.
    pub(super) fn new() -> Self {
        Ledger { node: Arc::new(Semaphore::new(NODE_BYTES_MAX / PERMIT_BYTES)), users: Mutex::default() }
    }

    /// Waits for room for `bytes` of `user`; at most all of the user's room.
    ///
    /// # Errors
    /// `Unavailable`: the node is stopping.
    pub(super) async fn wait(&self, user: &str, bytes: usize) -> Result<Hold, ApiError> {
        let ended = |_| ApiError::Unavailable("the node is stopping".to_owned());
        let units = units(bytes);
        // The user's own room first: a request that waits for it takes no room from other users.
        let user = self.of(user).acquire_many_owned(units).await.map_err(ended)?;
        let node = self.node.clone().acquire_many_owned(units).await.map_err(ended)?;
        Ok(Hold { user, node })
    }

    /// Reserves room for `bytes` of `user` without waiting; at most all of the user's room.
    ///
    /// # Errors
    /// `NoRoom`: the user or the node has no room.
    pub(super) fn take(&self, user: &str, bytes: usize) -> Result<Hold, ApiError> {
        let units = units(bytes);
        let user = self.of(user).try_acquire_many_owned(units).map_err(|_| ApiError::NoRoom)?;
        let node = self.node.clone().try_acquire_many_owned(units).map_err(|_| ApiError::NoRoom)?;
        Ok(Hold { user, node })
    }

    /// The node's permits.
    #[cfg(test)]
    pub(super) fn room(&self) -> Arc<Semaphore> {
        self.node.clone()
    }

    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = users.get(user).and_then(Weak::upgrade) {
            return room;
        }
        users.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(Semaphore::new(USER_BYTES_MAX / PERMIT_BYTES));
        users.insert(user.to_owned(), Arc::downgrade(&room));
        room
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.min(USER_BYTES_MAX).div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
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

    #[test]
    fn one_user_leaves_room_for_others_and_gets_it_back() {
        let ledger = Ledger::new();
        let held: Vec<Hold> = (0..20).map(|_| ledger.take("a", 3 << 20).unwrap()).collect();
        assert_eq!(ledger.take("a", 5 << 20).unwrap_err(), ApiError::NoRoom);
        let all = ledger.take("b", usize::MAX).unwrap();
        assert_eq!(ledger.take("b", 1).unwrap_err(), ApiError::NoRoom);
        drop((held, all));
        assert!(ledger.take("a", usize::MAX).is_ok() && ledger.take("b", usize::MAX).is_ok());
        let four: Vec<Hold> = ["a", "b", "c", "d"].map(|user| ledger.take(user, usize::MAX).unwrap()).into();
        assert_eq!(ledger.take("e", 1).unwrap_err(), ApiError::NoRoom, "the node has no more");
        drop(four);
        drop(ledger.take("e", 1));
        assert_eq!(ledger.users.lock().unwrap().len(), 1, "users without anything are forgotten");
    }

    #[tokio::test]
    async fn who_waits_for_the_own_room_takes_none_of_the_others() {
        let ledger = Ledger::new();
        let first = ledger.take("a", usize::MAX).unwrap();
        let mut waiting = Box::pin(ledger.wait("a", usize::MAX));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert_eq!(ledger.node.available_permits(), (NODE_BYTES_MAX - USER_BYTES_MAX) / PERMIT_BYTES);
        drop(first);
        drop(waiting.await.unwrap());
        assert_eq!(ledger.node.available_permits(), NODE_BYTES_MAX / PERMIT_BYTES);
    }

    #[tokio::test]
    async fn an_answer_is_held_until_its_last_frame_is_gone() {
        let ledger = Ledger::new();
        let hold = ledger.take("a", 1 << 20).unwrap();
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
