//! The thread that syncs the write-ahead log for all waiting writers.
//!
//! Owns the queue of callbacks and the fuse. It takes all pending callbacks, syncs once, and calls them in the order of
//! the queue (group commit). A writer that is alone may sync by itself ([`Flusher::complete_here`]), which saves the thread's
//! wake-up and the way back. A failed sync is never retried, since the kernel may have dropped the pages it could not
//! write: the fuse blows, and all callbacks, pending and later, get that error.
//!
//! Invariant: callbacks are called in the order of the calls that brought them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::disk::{DiskError, OnDurable};

/// Most queued callbacks. An append of many entries takes one place, and a sync takes milliseconds at worst on a
/// healthy disk, so the queue is never near full; when it is, the disk has stalled, and writers wait for it in `append`
/// instead of filling the memory.
const QUEUE_MAX: usize = 4096;

/// Longest last sync after which a writer syncs by itself: its thread does nothing else meanwhile. A disk that turns slow holds up
/// one writer once.
const QUICK_SYNC_MAX: Duration = Duration::from_millis(1);

/// The first error of a disk, with which every later operation fails.
#[derive(Debug, Default)]
pub(super) struct Fuse(OnceLock<DiskError>);

impl Fuse {
    /// The first error, if there was one.
    pub(super) fn check(&self) -> Result<(), DiskError> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Records an error and returns the first one.
    pub(super) fn blow(&self, error: DiskError) -> DiskError {
        self.0.get_or_init(|| error).clone()
    }
}

/// The queue to the thread, and the thread.
pub(super) struct Flusher {
    // `None` only while dropping.
    queue: Option<SyncSender<OnDurable>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What the thread and writers share.
struct Shared {
    fuse: Arc<Fuse>,
    /// Callbacks in the queue, and those of the sync that is under way on the thread.
    queued: AtomicUsize,
    // Locked during a sync.
    syncs: Mutex<Syncs>,
}

struct Syncs {
    /// Makes everything written before its call durable.
    sync: Box<dyn FnMut() -> Result<(), DiskError> + Send>,
    /// Duration of the last sync.
    took: Duration,
}

impl Shared {
    fn sync(&self, syncs: &mut Syncs) -> Result<(), DiskError> {
        let began = now();
        let synced = self.fuse.check().and_then(|()| (syncs.sync)().map_err(|error| self.fuse.blow(error)));
        syncs.took = now().saturating_duration_since(began);
        synced
    }

    /// The right to sync on the calling thread, unless others wait for a sync or the last one took long.
    fn idle(&self) -> Option<MutexGuard<'_, Syncs>> {
        let syncs = self.syncs.try_lock()?;
        // Under the lock: the thread syncs for a callback that is queued later only once this one's is called.
        let is_idle = self.queued.load(Ordering::Acquire) == 0 && syncs.took <= QUICK_SYNC_MAX;
        is_idle.then_some(syncs)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a disk takes decides nothing but the thread that syncs"
)]
fn now() -> Instant {
    Instant::now()
}

impl Flusher {
    /// Starts the thread. `sync` makes everything written before its call durable.
    pub(super) fn start(
        fuse: Arc<Fuse>,
        sync: impl FnMut() -> Result<(), DiskError> + Send + 'static,
    ) -> Result<Flusher, DiskError> {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let syncs = Mutex::new(Syncs { sync: Box::new(sync), took: Duration::ZERO });
        let shared = Arc::new(Shared { fuse, queued: AtomicUsize::new(0), syncs });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("disk-flush".to_owned())
            .spawn(move || run(&receiver, &of_thread))
            .map_err(|error| DiskError { operation: "start flusher", reason: error.to_string() })?;
        Ok(Flusher { queue: Some(sender), thread: Some(thread), shared })
    }

    /// Calls `on_durable` once the writes before this call are durable, or at once with the error of `written`. Waits
    /// while the queue is full.
    pub(super) fn complete(&self, written: &Result<(), DiskError>, on_durable: OnDurable) {
        if let Err(error) = written {
            return on_durable(Err(error.clone()));
        }
        let Some(queue) = &self.queue else { return on_durable(Err(stopped(&self.shared.fuse))) };
        self.shared.queued.fetch_add(1, Ordering::AcqRel);
        if let Err(SendError(on_durable)) = queue.send(on_durable) {
            self.shared.queued.fetch_sub(1, Ordering::AcqRel);
            on_durable(Err(stopped(&self.shared.fuse)));
        }
    }

    /// The same; syncs before it returns where nobody else waits for a sync and the last one was quick.
    pub(super) fn complete_here(&self, written: &Result<(), DiskError>, on_durable: OnDurable) {
        let Some(mut syncs) = self.shared.idle().filter(|_| written.is_ok()) else {
            return self.complete(written, on_durable);
        };
        let synced = self.shared.sync(&mut syncs);
        // Before the lock is given back, and with it the next callback.
        on_durable(synced);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            // A callback may hold the last reference to the disk: the thread cannot join itself.
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the disk flusher panicked");
        }
    }
}

fn stopped(fuse: &Fuse) -> DiskError {
    fuse.blow(DiskError { operation: "flush", reason: "the flusher has stopped".to_owned() })
}

fn run(queue: &Receiver<OnDurable>, shared: &Shared) {
    let mut pending = Vec::new();
    while let Ok(first) = queue.recv() {
        pending.push(first);
        let synced = {
            let mut syncs = shared.syncs.lock();
            pending.extend(queue.try_iter().take(QUEUE_MAX));
            shared.sync(&mut syncs)
        };
        let count = pending.len();
        for on_durable in pending.drain(..) {
            on_durable(synced.clone());
        }
        shared.queued.fetch_sub(count, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn failure() -> DiskError {
        DiskError { operation: "flush", reason: "input/output error".to_owned() }
    }

    fn report(to: &Sender<(u32, Result<(), DiskError>)>, number: u32) -> OnDurable {
        let to = to.clone();
        Box::new(move |result| to.send((number, result)).unwrap())
    }

    #[test]
    fn callbacks_come_in_order_and_share_syncs() {
        let syncs = Arc::new(AtomicUsize::new(0));
        let (entered, entries) = channel();
        let (release, released) = channel();
        let counted = Arc::clone(&syncs);
        let flusher = Flusher::start(Arc::default(), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            entered.send(()).unwrap();
            released.recv().unwrap();
            Ok(())
        })
        .unwrap();
        let (sender, receiver) = channel();
        flusher.complete(&Ok(()), report(&sender, 0));
        entries.recv().unwrap();
        // The first sync is under way: the other hundred callbacks wait, and one more sync serves them all.
        (1..=100).for_each(|number| flusher.complete(&Ok(()), report(&sender, number)));
        release.send(()).unwrap();
        release.send(()).unwrap();
        let order: Vec<u32> = receiver.iter().take(101).map(|(number, _)| number).collect();
        assert_eq!(order, (0..=100).collect::<Vec<_>>());
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
    }

    /// A flusher whose syncs tell of their thread and last as long as they are told.
    fn timed(lasts: Duration) -> (Flusher, Receiver<thread::ThreadId>, Arc<Mutex<Duration>>) {
        let (at, threads) = channel();
        let lasts = Arc::new(Mutex::new(lasts));
        let told = Arc::clone(&lasts);
        let flusher = Flusher::start(Arc::default(), move || {
            let until = now() + *told.lock();
            while now() < until {
                thread::yield_now();
            }
            at.send(thread::current().id()).unwrap();
            Ok(())
        });
        (flusher.unwrap(), threads, lasts)
    }

    #[test]
    fn a_writer_that_is_alone_syncs_by_itself_until_that_takes_long() {
        let (flusher, threads, lasts) = timed(QUICK_SYNC_MAX * 2);
        let (sender, receiver) = channel();
        flusher.complete_here(&Ok(()), report(&sender, 0));
        assert_eq!(threads.try_recv(), Ok(thread::current().id()));
        assert_eq!(receiver.try_recv(), Ok((0, Ok(()))), "called before the call returns");
        // That one took long: the thread takes the next.
        *lasts.lock() = Duration::ZERO;
        flusher.complete_here(&Ok(()), report(&sender, 1));
        assert_eq!(receiver.recv().unwrap(), (1, Ok(())));
        assert_ne!(threads.recv().unwrap(), thread::current().id());
    }

    #[test]
    fn a_writer_behind_others_waits_in_the_queue() {
        let (entered, entries) = channel();
        let (release, released) = channel();
        let flusher = Flusher::start(Arc::default(), move || {
            entered.send(thread::current().id()).unwrap();
            released.recv().unwrap();
            Ok(())
        })
        .unwrap();
        let (sender, receiver) = channel();
        flusher.complete(&Ok(()), report(&sender, 0));
        assert_ne!(entries.recv().unwrap(), thread::current().id());
        // The sync of the first one is under way, and does not cover what was written meanwhile.
        flusher.complete_here(&Ok(()), report(&sender, 1));
        release.send(()).unwrap();
        assert_ne!(entries.recv().unwrap(), thread::current().id());
        release.send(()).unwrap();
        let order: Vec<u32> = receiver.iter().take(2).map(|(number, _)| number).collect();
        assert_eq!(order, [0, 1]);
    }

    #[test]
    fn callbacks_keep_their_order_whoever_syncs() {
        let flusher = Flusher::start(Arc::default(), || Ok(())).unwrap();
        let (sender, receiver) = channel();
        for number in 0..2_000 {
            let complete = if number % 3 == 0 { Flusher::complete } else { Flusher::complete_here };
            complete(&flusher, &Ok(()), report(&sender, number));
        }
        let order: Vec<u32> = receiver.iter().take(2_000).map(|(number, _)| number).collect();
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn a_failed_sync_of_a_writer_is_not_tried_again() {
        let (fuse, syncs) = (Arc::new(Fuse::default()), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&syncs);
        let flusher = Flusher::start(Arc::clone(&fuse), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(failure())
        })
        .unwrap();
        let (sender, receiver) = channel();
        flusher.complete_here(&Ok(()), report(&sender, 0));
        assert_eq!((receiver.try_recv(), fuse.check()), (Ok((0, Err(failure()))), Err(failure())));
        flusher.complete_here(&Ok(()), report(&sender, 1));
        assert_eq!(receiver.try_recv(), Ok((1, Err(failure()))));
        flusher.complete(&Ok(()), report(&sender, 2));
        assert_eq!(receiver.recv().unwrap(), (2, Err(failure())));
        assert_eq!(syncs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failed_sync_is_not_tried_again() {
        let syncs = Arc::new(AtomicUsize::new(0));
        let fuse = Arc::new(Fuse::default());
        let counted = Arc::clone(&syncs);
        let flusher = Flusher::start(Arc::clone(&fuse), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(failure())
        })
        .unwrap();
        let (sender, receiver) = channel();
        for number in 0..3 {
            flusher.complete(&Ok(()), report(&sender, number));
            assert_eq!(receiver.recv().unwrap(), (number, Err(failure())));
        }
        assert_eq!(syncs.load(Ordering::SeqCst), 1);
        assert_eq!(fuse.check(), Err(failure()));
    }

    #[test]
    fn a_failed_write_is_told_without_a_sync() {
        let flusher = Flusher::start(Arc::default(), || panic!("nothing to sync")).unwrap();
        let (sender, receiver) = channel();
        flusher.complete(&Err(failure()), report(&sender, 1));
        assert_eq!(receiver.recv().unwrap(), (1, Err(failure())));
    }

    #[test]
    fn dropping_completes_what_is_pending() {
        let flusher = Flusher::start(Arc::default(), || Ok(())).unwrap();
        let (sender, receiver) = channel();
        (0..50).for_each(|number| flusher.complete(&Ok(()), report(&sender, number)));
        drop(flusher);
        drop(sender);
        assert_eq!(receiver.iter().count(), 50);
    }
}
