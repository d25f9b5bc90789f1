//! The thread that writes the stored state.
//!
//! Owns the order of state batches and of installations: one thread takes them one after another, so a batch queued
//! before an installation is written before it, and a batch queued after it belongs to the new generation or is
//! dropped. Neither applying nor appending entries waits for this thread: a batch is written when the database has
//! room.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::Mutex;

use super::Core;
use super::state::RocksInstall;
use crate::disk::{DiskError, OnInstalled, OnWritten, StateBatch};

/// Most queued batches and installations. A member queues its next batch when the last one is done, and installs one
/// state at a time; only a caller that breaks this rule waits for a place in the queue.
const QUEUE_MAX: usize = 8;

/// A batch or an installation.
enum Work {
    Write(StateBatch, OnWritten),
    Install(Box<RocksInstall>, Bytes, OnInstalled),
}

/// The sending side of the queue; closed with the disk. Cheap to clone.
#[derive(Clone)]
pub(super) struct StateQueue(Arc<Mutex<Option<SyncSender<Work>>>>);

/// The thread and its queue.
pub(super) struct StateWriter {
    queue: StateQueue,
    thread: Option<JoinHandle<()>>,
}

impl StateQueue {
    /// Queues a batch.
    pub(super) fn write(&self, batch: StateBatch, on_written: OnWritten) {
        self.push(Work::Write(batch, on_written));
    }

    /// Queues an installation, behind all earlier work.
    pub(super) fn install(&self, install: RocksInstall, mark: Bytes, on_installed: OnInstalled) {
        self.push(Work::Install(Box::new(install), mark, on_installed));
    }

    fn push(&self, work: Work) {
        let sender = self.0.lock().clone();
        let refused = match sender {
            Some(sender) => sender.send(work).err().map(|SendError(work)| work),
            None => Some(work),
        };
        let error = || DiskError { operation: "write state", reason: "the disk is closing".to_owned() };
        match refused {
            None => {}
            Some(Work::Write(_, on_written)) => on_written(Err(error())),
            Some(Work::Install(_, _, on_installed)) => on_installed(Err(error())),
        }
    }
}

impl StateWriter {
    /// Starts the thread.
    pub(super) fn start(core: Arc<Core>) -> Result<StateWriter, DiskError> {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let thread = thread::Builder::new()
            .name("disk-state".to_owned())
            .spawn(move || run(&receiver, &core))
            .map_err(|error| DiskError { operation: "start state writer", reason: error.to_string() })?;
        let queue = StateQueue(Arc::new(Mutex::new(Some(sender))));
        Ok(StateWriter { queue, thread: Some(thread) })
    }

    /// The queue for batches and installations.
    pub(super) fn queue(&self) -> StateQueue {
        self.queue.clone()
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        *self.queue.0.lock() = None;
        if let Some(thread) = self.thread.take()
            // A callback may hold the last reference to the disk: the thread cannot join itself.
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the state writer panicked");
        }
    }
}

fn run(queue: &Receiver<Work>, core: &Core) {
    while let Ok(work) = queue.recv() {
        match work {
            Work::Write(batch, on_written) => {
                let written = core.wait_for_room(&batch).and_then(|()| core.write_state(&batch));
                on_written(written);
            }
            Work::Install(install, mark, on_installed) => on_installed(install.make_current(&mark)),
        }
    }
}
