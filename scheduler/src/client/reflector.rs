//! Follows all objects of one kind: a list, then a watch that resumes.
//!
//! ```text
//!   list ──(pages)──> upserts, then deletes of what is gone, then Synced
//!     ^                                     │
//!     │ 410 Gone                            v
//!     └──────────────── watch from the last version <──┐
//!                          │ ended, broke, refused      │ pause (none after an orderly end)
//!                          └────────────────────────────┘
//! ```
//!
//! Owns which changes the receiver is told: after any failure, those that lead from what it was last told to what is
//! stored now. It keeps keys and versions, not objects. The channel is bounded: a receiver that is slow slows the
//! watch down, and the server ends a watch that falls too far behind, which leads to a new list.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use rand::Rng;
use smol_str::SmolStr;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::ambient;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::backoff::Backoff;
use super::error::{Error, Reason, chain};
use super::kind::{Listed, ObjectKey};
use super::request::{Client, ListQuery};
use super::watch::{WatchEvent, WatchStream};

/// Objects of a page: a few megabytes of pods, and 50 requests for a hundred thousand.
const PAGE_OBJECTS_MAX: u32 = 2_000;

/// Pauses after failures.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(30);

/// A watch that lived this long was a success, whatever ended it.
const WATCH_GOOD: Duration = Duration::from_secs(5);

/// How long watches are asked to stay open: a random time in this range, so that they do not end all at once.
const WATCH_SECONDS: std::ops::Range<u32> = 300..600;

/// A change of what is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<T> {
    /// The object was created or changed: this is its state. Another UID than before means that it was deleted and
    /// created again in the meantime.
    Upsert(Box<T>),
    /// The object is gone, or left the selection.
    Delete(ObjectKey),
    /// All objects of a list were sent to the consumer. Sent after each list, with the number of the newest
    /// [`Relist::request`] before the list began.
    Synced(u64),
}

/// Asks a reflector for a new list, although its watch is well: what a watch has told may be old, a list is not.
#[derive(Debug, Default)]
pub struct Relist {
    wanted: AtomicU64,
    // Whether the receiver has forgotten what it was told.
    is_forgotten: AtomicBool,
    told: Notify,
}

impl Relist {
    /// Asks for a list that begins after this call. Numbers grow from request to request, and begin at 1.
    pub fn request(&self, number: u64) {
        self.wanted.store(number, Ordering::Release);
        self.told.notify_one();
    }

    /// The same for a receiver that has forgotten what it was told: the list tells it every object.
    pub fn request_all(&self, number: u64) {
        self.is_forgotten.store(true, Ordering::Release);
        self.request(number);
    }
}

/// Follows the objects of one kind.
pub struct Reflector<T> {
    client: Client,
    query: ListQuery,
    // The objects that the receiver was told, each with the version; without one, it has forgotten the object since.
    known: HashMap<ObjectKey, Option<SmolStr>>,
    backoff: Backoff,
    relist: Arc<Relist>,
    object: std::marker::PhantomData<T>,
}

/// The consumer has dropped its channel.
struct Closed;

/// The consumer's channel.
struct Receiver<T, E> {
    sender: mpsc::Sender<E>,
    wrap: Wrap<T, E>,
}

/// Wraps a change into the channel's type.
type Wrap<T, E> = Box<dyn Fn(Change<T>) -> E + Send + Sync>;

impl<T, E> Receiver<T, E> {
    async fn tell(&self, change: Change<T>) -> Result<(), Closed> {
        self.sender.send((self.wrap)(change)).await.map_err(|_| Closed)
    }
}

/// The end of a watch.
enum WatchEnd {
    /// The server ended it in order.
    Ended,
    /// The history from the last version on is gone.
    Expired,
    /// It broke.
    Failed(Error),
    /// A new list was asked for.
    Relist,
}

impl<T: Listed> Reflector<T> {
    /// A reflector of what `query` covers.
    pub fn new(client: Client, query: ListQuery) -> Self {
        let backoff = Backoff::new(PAUSE_FIRST, PAUSE_LAST);
        let relist = Arc::default();
        Self { client, query, known: HashMap::new(), backoff, relist, object: std::marker::PhantomData }
    }

    /// Asks this reflector for new lists while it runs.
    pub fn relist(&self) -> Arc<Relist> {
        self.relist.clone()
    }

    /// Follows until the receiver is gone. `wrap` makes of a change what the channel carries.
    pub async fn run<E>(
        mut self,
        sender: mpsc::Sender<E>,
        wrap: impl Fn(Change<T>) -> E + Send + Sync + 'static,
    ) {
        let receiver = Receiver { sender, wrap: Box::new(wrap) };
        loop {
            let version = match self.list(&receiver).await {
                Ok(Ok(version)) => version,
                Ok(Err(error)) => {
                    self.pause(&receiver, "list", &error).await;
                    if receiver.sender.is_closed() {
                        return;
                    }
                    continue;
                }
                Err(Closed) => return,
            };
            if self.follow(version, &receiver).await.is_err() {
                return;
            }
        }
    }

    /// Tells the difference between what is stored and what the receiver knows. Returns the version of the list.
    async fn list<E>(&mut self, receiver: &Receiver<T, E>) -> Result<Result<String, Error>, Closed> {
        // This list answers the requests until now; one that comes meanwhile is kept.
        let _ = self.relist.told.notified().now_or_never();
        let wanted = self.relist.wanted.load(Ordering::Acquire);
        if self.relist.is_forgotten.swap(false, Ordering::AcqRel) {
            // The keys stay: objects that are gone by now are still told to be.
            self.known.values_mut().for_each(|version| *version = None);
        }
        let mut gone: HashSet<ObjectKey> = self.known.keys().cloned().collect();
        let mut token = String::new();
        loop {
            let page = match self.client.list::<T>(&self.query, PAGE_OBJECTS_MAX, &token).await {
                Ok(page) => page,
                Err(error) => {
                    // A server that does not know the kind has no objects of it. It may learn it by an upgrade.
                    if error.is(Reason::NotFound) && self.known.is_empty() {
                        receiver.tell(Change::Synced(wanted)).await?;
                    }
                    return Ok(Err(error));
                }
            };
            for object in page.items {
                gone.remove(&object.key());
                self.upsert(object, receiver).await?;
            }
            if page.continue_token.is_empty() {
                let mut gone: Vec<ObjectKey> = gone.into_iter().collect();
                // In the order of names, so that the same changes are told in the same order each time.
                gone.sort_unstable();
                #[cfg(test)]
                if plant::is(Plant::ListsWithoutDeletes) {
                    gone.clear();
                }
                for key in gone {
                    self.delete(key, receiver).await?;
                }
                receiver.tell(Change::Synced(wanted)).await?;
                return Ok(Ok(page.resource_version));
            }
            token = page.continue_token;
        }
    }

    /// Watches from `version` on until a new list is needed.
    async fn follow<E>(&mut self, mut version: String, receiver: &Receiver<T, E>) -> Result<(), Closed> {
        loop {
            let opened = Instant::now();
            let seconds = ambient::rng().random_range(WATCH_SECONDS);
            let relist = self.relist.clone();
            let opened_watch = tokio::select! {
                biased;
                () = relist.told.notified() => return Ok(()),
                opened = self.client.watch::<T>(&self.query, &version, seconds) => opened,
            };
            let end = match opened_watch {
                Ok(mut stream) => {
                    let end = tokio::select! {
                        biased;
                        end = self.consume(&mut stream, &mut version, receiver) => end?,
                        () = receiver.sender.closed() => return Err(Closed),
                    };
                    if let WatchEnd::Failed(Error::Lost { .. }) = &end {
                        self.client.leave_server_of(&stream);
                    }
                    end
                }
                Err(error) if error.is(Reason::Expired) => WatchEnd::Expired,
                Err(error) => WatchEnd::Failed(error),
            };
            let is_good = opened.elapsed() >= WATCH_GOOD;
            if is_good {
                self.backoff.reset();
            }
            match end {
                WatchEnd::Expired => {
                    tracing::info!(kind = T::KIND.kind, version, "the history is gone, listing anew");
                    // A server that has lost the version of each new list must not be asked for lists without pause:
                    // they cost it the most, and bindings wait for the same limit of requests.
                    if !is_good {
                        let pause = self.backoff.random_pause();
                        self.sleep(receiver, pause).await;
                    }
                    return Ok(());
                }
                WatchEnd::Relist => return Ok(()),
                WatchEnd::Ended if is_good => {}
                WatchEnd::Ended => {
                    let pause = self.backoff.random_pause();
                    self.sleep(receiver, pause).await;
                }
                WatchEnd::Failed(error) => self.pause(receiver, "watch", &error).await,
            }
            if receiver.sender.is_closed() {
                return Err(Closed);
            }
            #[cfg(test)]
            if plant::is(Plant::SkipsVersion) {
                version = version.parse::<u64>().map_or(version, |number| (number + 1).to_string());
            }
        }
    }

    async fn consume<E>(
        &mut self,
        stream: &mut WatchStream<T>,
        version: &mut String,
        receiver: &Receiver<T, E>,
    ) -> Result<WatchEnd, Closed> {
        loop {
            // Not around the rest of the loop: a change must not be dropped halfway.
            let next = tokio::select! {
                biased;
                () = self.relist.told.notified() => return Ok(WatchEnd::Relist),
                next = stream.next() => next,
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(WatchEnd::Ended),
                Err(error) if error.is(Reason::Expired) => return Ok(WatchEnd::Expired),
                Err(error) => return Ok(WatchEnd::Failed(error)),
            };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    object.resource_version().clone_into(version);
                    self.upsert(object, receiver).await?;
                }
                WatchEvent::Deleted(object) => {
                    object.resource_version().clone_into(version);
                    self.delete(object.key(), receiver).await?;
                }
                WatchEvent::Bookmark(told) => *version = told,
            }
        }
    }

    /// Tells an object, unless the receiver has this version of it: lists repeat what watches have told.
    async fn upsert<E>(&mut self, object: T, receiver: &Receiver<T, E>) -> Result<(), Closed> {
        let version = Some(SmolStr::from(object.resource_version()));
        let before = self.known.insert(object.key(), version.clone());
        if before == Some(version) {
            return Ok(());
        }
        receiver.tell(Change::Upsert(Box::new(object))).await
    }

    async fn delete<E>(&mut self, key: ObjectKey, receiver: &Receiver<T, E>) -> Result<(), Closed> {
        match self.known.remove(&key) {
            Some(_) => receiver.tell(Change::Delete(key)).await,
            None => Ok(()),
        }
    }

    async fn pause<E>(&mut self, receiver: &Receiver<T, E>, verb: &str, error: &Error) {
        let pause = self.backoff.random_pause();
        tracing::warn!(
            kind = T::KIND.kind,
            verb,
            error = chain(error),
            ?pause,
            "cannot follow, trying again"
        );
        self.sleep(receiver, pause).await;
    }

    /// Pauses, until a new list is asked for at the latest. The next list, or the next wait, takes the request.
    async fn sleep<E>(&self, receiver: &Receiver<T, E>, pause: Duration) {
        tokio::select! {
            biased;
            () = self.relist.told.notified() => self.relist.told.notify_one(),
            () = receiver.sender.closed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
