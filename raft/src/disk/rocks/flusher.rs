//! The thread that syncs the write-ahead log for all waiting writers.
//!
//! Owns the queue of callbacks and the fuse. It takes all pending callbacks, syncs once, and calls them in the order of
//! the queue (group commit). A failed sync is never retried, since the kernel may have dropped the pages it could not
//! write: the fuse blows, and all callbacks, pending and later, get that error.

use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use crate::disk::{DiskError, OnDurable};

/// Most queued callbacks. An append of many entries takes one place, and a sync takes milliseconds at worst on a
/// healthy disk, so the queue is never near full; when it is, the disk has stalled, and writers wait for it in `append`
/// instead of filling the memory.
const QUEUE_MAX: usize = 4096;

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
#[derive(Debug)]
pub(super) struct Flusher {
    // `None` only while dropping.
    queue: Option<SyncSender<OnDurable>>,
    thread: Option<JoinHandle<()>>,
    fuse: Arc<Fuse>,
}

impl Flusher {
    /// Starts the thread. `sync` makes everything written before its call durable.
    pub(super) fn start(
        fuse: Arc<Fuse>,
        mut sync: impl FnMut() -> Result<(), DiskError> + Send + 'static,
    ) -> Result<Flusher, DiskError> {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let of_thread = Arc::clone(&fuse);
        let thread = thread::Builder::new()
            .name("disk-flush".to_owned())
            .spawn(move || run(&receiver, &of_thread, &mut sync))
            .map_err(|error| DiskError { operation: "start flusher", reason: error.to_string() })?;
        Ok(Flusher { queue: Some(sender), thread: Some(thread), fuse })
    }

    /// Calls `on_durable` once the writes before this call are durable, or at once with the error of `written`. Waits
    /// while the queue is full.
    pub(super) fn complete(&self, written: &Result<(), DiskError>, on_durable: OnDurable) {
        if let Err(error) = written {
            return on_durable(Err(error.clone()));
        }
        let Some(queue) = &self.queue else { return on_durable(Err(stopped(&self.fuse))) };
        if let Err(SendError(on_durable)) = queue.send(on_durable) {
            on_durable(Err(stopped(&self.fuse)));
        }
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

fn run(queue: &Receiver<OnDurable>, fuse: &Fuse, sync: &mut dyn FnMut() -> Result<(), DiskError>) {
    let mut pending = Vec::new();
    while let Ok(first) = queue.recv() {
        pending.push(first);
        pending.extend(queue.try_iter().take(QUEUE_MAX));
        let synced = fuse.check().and_then(|()| sync().map_err(|error| fuse.blow(error)));
        for on_durable in pending.drain(..) {
            on_durable(synced.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
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
