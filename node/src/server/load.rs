//! The memory that connections hold for requests under way and for responses that their clients have not taken.
//!
//! Each item of a connection is small: a request's head, a body below 64 KiB, a response below 64 KiB, a frame. The number
//! of items is not: a client may have a hundred streams on each of thousands of connections, and open no flow control window.
//! Owns the account of their bytes. A connection counts its bytes in an atomic of its own; the first [`FREE_BYTES`] take no
//! room. Beyond these it takes room of the node in pieces of [`CHUNK_BYTES`], for its user; all strangers together are
//! one user.
//!
//!     request   counted from its head to the head of its response; without room: 429
//!     response  of one small piece: counted until it is written; without room: its stream ends
//!     frame     counted until it is written; without room the next frame waits until earlier ones are written
//!
//! Large bodies and the responses that only one client holds have an account in the API, which knows them before they exist.
//!
//! Invariant: a user takes a third of what is left of the node's room at most: one user alone a quarter of all, ten that
//! fill it together leave a twentieth to others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};

use http::Request;
use hyper::body::Body;
use parking_lot::Mutex;

use super::limits;
use super::places::{Payer, Place};

/// Bytes of a connection that are taken from no room: a response of the largest size that the API does not count, or eight
/// usual requests. Ten thousand connections hold 640 MB of them at most, and one item each beyond: bodies that are not read
/// are bounded by the connection's window besides.
const FREE_BYTES: usize = 64 << 10;

/// Bytes that a connection takes from its user's room at once, so that it locks the account once for thirty requests.
const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of room that a connection keeps unused before it gives some back: a chunk that the next requests use, and one
/// that is used in part.
const SPARE_BYTES: usize = 2 * CHUNK_BYTES;

/// Bytes of all connections together beyond the [`FREE_BYTES`] of each: as much as the API has for large bodies and responses.
const NODE_BYTES_MAX: usize = 256 << 20;

/// Bytes of a request under way besides its head and body: the state of its handler.
const REQUEST_BYTES: usize = 8 << 10;

/// Bytes that the header map keeps for each field besides its text.
const FIELD_BYTES: usize = 96;

/// Responses in one piece below this size are counted as a whole, before the client takes any of them. The API counts
/// larger ones.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// Wakers of responses that wait for room: two for each of the hundred streams of a connection, and a reserve. Beyond it
/// all are woken, and ask again.
const WAITING_MAX: usize = 256;

/// The room of a node for all connections. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    /// Bytes of the whole room.
    bytes: usize,
    /// Bytes that all payers hold. Invariant: the sum of `payers`, at most `bytes`.
    held: usize,
    /// Bytes of each payer that holds some.
    payers: HashMap<Payer, usize>,
}

impl Room {
    /// The room of a node.
    pub(super) fn of_node() -> Room {
        Room::new(NODE_BYTES_MAX)
    }

    /// A room of `bytes`.
    pub(super) fn new(bytes: usize) -> Room {
        Room(Arc::new(Mutex::new(Account { bytes, held: 0, payers: HashMap::new() })))
    }

    /// Takes `bytes` for `payer`; `false`: there is no room for them.
    fn take(&self, payer: &Payer, bytes: usize) -> bool {
        let mut account = self.0.lock();
        let own = account.payers.get(payer).copied().unwrap_or(0).saturating_add(bytes);
        let left = account.bytes.saturating_sub(account.held).saturating_sub(bytes);
        if own.saturating_mul(3) > left {
            return false;
        }
        account.held += bytes;
        account.payers.insert(payer.clone(), own);
        true
    }

    fn give_back(&self, payer: &Payer, bytes: usize) {
        let mut account = self.0.lock();
        account.held = account.held.saturating_sub(bytes);
        if let Some(own) = account.payers.get_mut(payer) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                account.payers.remove(payer);
            }
        }
    }

    /// Bytes of room that connections hold.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.0.lock().held
    }
}

/// The bytes of one connection. Invariant: room is taken for `used` less [`FREE_BYTES`], but for one item or frame.
#[derive(Debug)]
pub(super) struct Load {
    place: Arc<Place>,
    room: Room,
    used: AtomicUsize,
    /// Bytes that may be used before more room is taken.
    allowed: AtomicUsize,
    taken: Mutex<Taken>,
    /// Responses that wait until bytes are given back.
    waiting: Mutex<Vec<Waker>>,
    is_awaited: AtomicBool,
}

/// The room that a connection has taken, and from whom: its user may come to be known meanwhile.
#[derive(Debug, Default)]
struct Taken {
    payer: Payer,
    bytes: usize,
}

/// Bytes of a connection, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Weight {
    load: Arc<Load>,
    bytes: usize,
}

impl Load {
    /// The empty load of the connection at `place`.
    pub(super) fn new(place: Arc<Place>, room: Room) -> Load {
        Load {
            place,
            room,
            used: AtomicUsize::new(0),
            allowed: AtomicUsize::new(FREE_BYTES),
            taken: Mutex::default(),
            waiting: Mutex::default(),
            is_awaited: AtomicBool::new(false),
        }
    }

    /// Counts `bytes`; `None`: the connection's user has no room for them. The item that crosses [`FREE_BYTES`] is admitted
    /// without room: so a connection that holds little has its request, whatever its user holds on others.
    pub(super) fn try_add(self: &Arc<Load>, bytes: usize) -> Option<Weight> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let weight = Weight { load: Arc::clone(self), bytes };
        let has_room = before + bytes <= self.allowed.load(Ordering::Relaxed) || self.grow(0);
        (has_room || before <= FREE_BYTES).then_some(weight)
    }

    /// Counts the `bytes` of a frame that exists.
    pub(super) fn add_frame(self: &Arc<Load>, bytes: usize) -> Weight {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used > self.allowed.load(Ordering::Relaxed) {
            // Where there is no room, the next frame waits.
            self.grow(0);
        }
        Weight { load: Arc::clone(self), bytes }
    }

    /// Whether another frame may be made. If not, the task of `cx` is woken when bytes are given back.
    pub(super) fn has_room_for_frame(&self, cx: &Context<'_>) -> bool {
        if self.used.load(Ordering::Relaxed) < self.allowed.load(Ordering::Relaxed) || self.grow(1) {
            return true;
        }
        self.has_room_after_all(cx)
    }

    /// Registers the task of `cx` to be woken. `true`: it need not wait, because there is room after all.
    fn has_room_after_all(&self, cx: &Context<'_>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            // A client may wake its streams without end by opening their windows byte by byte.
            waiting.drain(..).for_each(Waker::wake);
        }
        waiting.push(cx.waker().clone());
        drop(waiting);
        self.is_awaited.store(true, Ordering::SeqCst);
        // Bytes that were given back before the waker was registered woke no task. The rest may be held by streams whose
        // clients take nothing, so that no other bytes wake it for a long time: any room that was taken counts.
        self.used.load(Ordering::SeqCst) < self.allowed.load(Ordering::SeqCst)
    }

    /// Takes room for all bytes used and for `ahead` further ones; `false`: there is none.
    fn grow(&self, ahead: usize) -> bool {
        let mut taken = self.taken.lock();
        let payer = self.place.payer();
        if payer != taken.payer {
            let before = std::mem::replace(&mut *taken, Taken { payer, bytes: 0 });
            self.room.give_back(&before.payer, before.bytes);
        }
        let used = self.used.load(Ordering::Relaxed);
        let needed = (used + ahead).saturating_sub(FREE_BYTES).next_multiple_of(CHUNK_BYTES);
        let more = needed.saturating_sub(taken.bytes);
        let has_room = more == 0 || self.room.take(&taken.payer, more);
        if has_room {
            taken.bytes += more;
        }
        self.allowed.store(FREE_BYTES + taken.bytes, Ordering::Relaxed);
        has_room
    }

    fn give_back(&self, bytes: usize) {
        let left = self.used.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        let allowed = self.allowed.load(Ordering::Relaxed);
        if allowed > FREE_BYTES && (left <= FREE_BYTES / 2 || left.saturating_add(SPARE_BYTES) < allowed) {
            self.shrink();
        }
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            std::mem::take(&mut *self.waiting.lock()).into_iter().for_each(Waker::wake);
        }
    }

    /// Gives back the room beyond the bytes used: a connection that stays busy does not keep its peak.
    fn shrink(&self) {
        let mut taken = self.taken.lock();
        let used = self.used.load(Ordering::Relaxed);
        let kept = used.saturating_sub(FREE_BYTES).next_multiple_of(CHUNK_BYTES).min(taken.bytes);
        self.room.give_back(&taken.payer, taken.bytes - kept);
        taken.bytes = kept;
        self.allowed.store(FREE_BYTES + kept, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let taken = self.taken.get_mut();
        self.room.give_back(&taken.payer, taken.bytes);
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.load.give_back(self.bytes);
    }
}

/// Bytes that `request` may hold until it is answered: its head, its handler, and of its body as much as the handler or the
/// stream's window may hold without an account of its own.
pub(super) fn request_bytes(request: &Request<impl Body>) -> usize {
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let head = fields.sum::<usize>() + FIELD_BYTES * request.headers().len();
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let window = u64::from(limits::STREAM_WINDOW);
    let body = request.body().size_hint().upper().map_or(window, |bytes| bytes.min(window));
    REQUEST_BYTES + head + path + usize::try_from(body).unwrap_or(usize::MAX)
}

/// Bytes of a response that are counted before the client takes any: all of one that exists in one small piece. The frames
/// of others are counted one by one.
pub(super) fn whole_bytes(body: &impl Body) -> Option<usize> {
    let bytes = body.size_hint().exact().filter(|bytes| (1..SMALL_BYTES_MAX).contains(bytes))?;
    usize::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::places::{Places, Rank};

    const ROOM: usize = 64 << 20;

    async fn load(places: &Places, room: &Room, user: &str) -> Arc<Load> {
        let place = places.take([10, 0, 0, 1].into()).await;
        place.hold_as(user, Rank::User);
        Arc::new(Load::new(place, room.clone()))
    }

    /// Counts items of `bytes` until there is no room; returns them.
    fn fill(load: &Arc<Load>, bytes: usize) -> Vec<Weight> {
        std::iter::from_fn(|| load.try_add(bytes)).collect()
    }

    #[tokio::test]
    async fn small_items_without_number_have_a_bound_for_each_user_over_all_connections() {
        let (places, room) = (Places::new(1000), Room::new(ROOM));
        let mut held = Vec::new();
        for _ in 0..100 {
            held.extend(fill(&load(&places, &room, "greedy").await, 60 << 10));
        }
        let bytes = held.len() * (60 << 10);
        assert!(bytes <= ROOM / 4 + 100 * (FREE_BYTES + (60 << 10)), "{bytes} bytes of one user");
        assert!(bytes > ROOM / 4, "{bytes} bytes");
        let others: Vec<Vec<Weight>> = futures::future::join_all((0..5).map(|number| {
            let (places, room) = (&places, &room);
            async move { fill(&load(places, room, &format!("other{number}")).await, 60 << 10) }
        }))
        .await;
        let least = others.iter().map(Vec::len).min().unwrap() * (60 << 10);
        assert!(least > FREE_BYTES + CHUNK_BYTES, "whoever comes last has {least} bytes");
        drop((held, others));
        assert_eq!(room.held(), 0, "all of it is given back");
    }

    #[tokio::test]
    async fn free_room_locks_nothing_and_is_given_back_when_little_is_used() {
        let (places, room) = (Places::new(10), Room::new(ROOM));
        let load = load(&places, &room, "u").await;
        let first = load.try_add(FREE_BYTES).unwrap();
        assert_eq!(room.held(), 0);
        let second = load.try_add(1).unwrap();
        assert_eq!(room.held(), CHUNK_BYTES);
        drop(first);
        assert_eq!(room.held(), 0);
        drop(second);
        assert_eq!(load.used.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_connection_that_stays_busy_gives_back_the_room_of_its_peak() {
        let (places, room) = (Places::new(10), Room::new(ROOM));
        let load = load(&places, &room, "u").await;
        let _lasting = load.try_add(FREE_BYTES + 1).unwrap();
        let mut peak: Vec<Weight> = (0..64).map(|_| load.try_add(60 << 10).unwrap()).collect();
        assert!(room.held() >= 15 * CHUNK_BYTES, "{} bytes", room.held());
        peak.truncate(1);
        assert!(room.held() <= CHUNK_BYTES + SPARE_BYTES, "{} bytes", room.held());
    }

    #[tokio::test]
    async fn a_connection_that_holds_little_has_its_request_though_its_user_has_no_room() {
        let (places, room) = (Places::new(1000), Room::new(ROOM));
        let mut held = Vec::new();
        for _ in 0..100 {
            held.extend(fill(&load(&places, &room, "greedy").await, 60 << 10));
        }
        let honest = load(&places, &room, "greedy").await;
        let window = usize::try_from(limits::STREAM_WINDOW).unwrap();
        let request = honest.try_add(REQUEST_BYTES + window).expect("a request with a body of any size");
        assert!(honest.try_add(REQUEST_BYTES).is_none(), "and no other one beside it");
        drop(request);
        assert!(honest.try_add(REQUEST_BYTES).is_some());
    }

    #[tokio::test]
    async fn room_moves_to_the_user_that_a_stranger_turns_out_to_be() {
        let (places, room) = (Places::new(10), Room::new(ROOM));
        let place = places.take([10, 0, 0, 1].into()).await;
        let load = Arc::new(Load::new(place.clone(), room.clone()));
        let _as_stranger = load.try_add(1 << 20).unwrap();
        place.hold_as("u", Rank::User);
        let _as_user = load.try_add(1 << 20).unwrap();
        let payers: Vec<Payer> = room.0.lock().payers.keys().cloned().collect();
        assert_eq!(payers, [place.payer()]);
    }

    #[tokio::test]
    async fn a_frame_without_room_waits_for_those_before_it() {
        let (places, room) = (Places::new(10), Room::new(0));
        let load = load(&places, &room, "u").await;
        let (waker, woken) = counting_waker();
        let cx = Context::from_waker(&waker);
        assert!(load.has_room_for_frame(&cx));
        let frame = load.add_frame(FREE_BYTES);
        assert!(!load.has_room_for_frame(&cx));
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        drop(frame);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(load.has_room_for_frame(&cx));
    }

    /// The order of a lost wake-up: a frame finds no room, bytes are given back, and only then its task is registered.
    #[tokio::test]
    async fn a_frame_that_found_no_room_sees_what_was_given_back_before_it_was_registered() {
        let (places, room) = (Places::new(10), Room::new(8 * CHUNK_BYTES));
        let load = load(&places, &room, "u").await;
        let mut held: Vec<Weight> = fill(&load, FREE_BYTES / 2);
        let (waker, woken) = counting_waker();
        let cx = Context::from_waker(&waker);
        assert!(load.used.load(Ordering::Relaxed) >= load.allowed.load(Ordering::Relaxed) && !load.grow(1));
        // A single client takes its item; the other clients take nothing.
        drop(held.pop());
        assert!(load.used.load(Ordering::Relaxed) > FREE_BYTES, "{} items are left", held.len());
        assert!(load.has_room_after_all(&cx));
        assert_eq!(woken.load(Ordering::Relaxed), 0, "nothing else would wake it");
    }

    /// A waker and the count of its calls.
    fn counting_waker() -> (Waker, Arc<AtomicUsize>) {
        struct Counter(Arc<AtomicUsize>);
        impl std::task::Wake for Counter {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(AtomicUsize::new(0));
        (Waker::from(Arc::new(Counter(Arc::clone(&count)))), count)
    }

    #[test]
    fn a_head_of_many_small_fields_weighs_what_its_map_holds() {
        let mut request = Request::new(axum::body::Body::empty());
        assert_eq!(request_bytes(&request), REQUEST_BYTES + 1, "a path");
        for _ in 0..1000 {
            request.headers_mut().append("a", http::HeaderValue::from_static(""));
        }
        assert_eq!(request_bytes(&request), REQUEST_BYTES + 1 + 1000 * (FIELD_BYTES + 1));
        let stream = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let unannounced = Request::new(axum::body::Body::from_stream(stream));
        assert_eq!(request_bytes(&unannounced), REQUEST_BYTES + 1 + (256 << 10));
    }
}
