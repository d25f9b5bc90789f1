//! The keeper: the task that moves history from memory to the disk, and removes old history from the disk.
//!
//! Owns the order of its own work: one step at a time, each bounded, so that neither applying entries nor a reader ever
//! waits for it. It decides by the applied revision and the runtime's monotonic clock; a jump of the wall clock trims
//! nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft_rt::Instant;

use super::Applied;
use super::ages::Ages;
use super::store::batch_of;
use super::writer::{Lock, Step, Writer};
use crate::Runtime;
use crate::disk::{Disk, DiskError, HistorySpan, StateBatch, StateWritten, completed};
use crate::key::Revision;

/// Time between two checks of the age of history. A watch window of minutes does not need to be exact.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Rounds without a request after which a rebuilt collection is dropped: it keeps old objects alive.
const PAGE_LOOKS_MAX: u32 = 10;

/// The age for which history is kept while the disk has little room: connected watches go on, and the space of removed
/// objects is soon free.
const SPARE_AGE: Duration = Duration::from_secs(10);

impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// Moves history until the member ends.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn keep<R: Runtime>(&self) -> Result<(), DiskError> {
        let age = Duration::from_millis(self.history.age_ms);
        let mut ages: Ages<R::Instant> = Ages::new(age);
        let mut spare_ages: Ages<R::Instant> = Ages::new(age.min(SPARE_AGE));
        let mut looked = R::Instant::now();
        loop {
            R::select2(self.work.notified(), R::sleep(LOOK_PERIOD)).await;
            let now = R::Instant::now();
            let applied = self.state().applied();
            let (aged, spare_aged) = (ages.note(now, applied), spare_ages.note(now, applied));
            let aged = if self.is_spare.load(Ordering::Acquire) { spare_aged } else { aged };
            self.move_history(aged).await?;
            if now.saturating_duration_since(looked) >= LOOK_PERIOD {
                looked = now;
                self.forget_blocks(aged).await?;
                self.past.drop_decoded();
                self.pages.look(PAGE_LOOKS_MAX);
            }
        }
    }

    /// Sets whether history leaves the disk after `SPARE_AGE` instead of its whole age.
    pub(crate) fn spare(&self, is_spare: bool) {
        self.is_spare.store(is_spare, Ordering::Release);
    }

    /// Takes steps until the history is within its bounds, if it exceeds them by the slack.
    pub(super) async fn move_history(&self, aged: Revision) -> Result<(), DiskError> {
        if !self.writer.with(|writer| writer.has_work(&self.slack(), aged)) {
            return Ok(());
        }
        while let Some(step) = self.writer.with(|writer| writer.next_step(&self.bounds(), aged)) {
            self.take_step(step, aged).await?;
        }
        Ok(())
    }

    async fn take_step(&self, step: Step, aged: Revision) -> Result<(), DiskError> {
        let mut batch = batch_of(&step, aged);
        // In the same write: changes that are too old for a block leave a gap behind the blocks before them.
        batch.forgotten = self.past.take_excess(step.generation, aged, self.history.disk_bytes_max);
        let span = |block: &crate::disk::HistoryBlock| HistorySpan {
            resource: block.resource.clone(),
            after: block.after,
            through: block.through,
            bytes: block.record.len() as u64,
        };
        let spans = batch.history.iter().map(span).collect();
        if self.write(batch).await? == StateWritten::Superseded {
            return Ok(());
        }
        // Before `finish_step` drops the changes from memory: a reader finds them in one place at least.
        self.past.add(step.generation, spans);
        self.writer.with(|writer| {
            if writer.finish_step(step.generation, step.leaving.floor) {
                self.published.store(Arc::new(writer.state.clone()));
            }
        });
        Ok(())
    }

    /// Removes blocks from the disk that are too old or exceed the budget.
    async fn forget_blocks(&self, aged: Revision) -> Result<(), DiskError> {
        let generation = self.past.generation();
        let forgotten = self.past.take_excess(generation, aged, self.history.disk_bytes_max);
        if forgotten.is_empty() {
            return Ok(());
        }
        self.write(StateBatch { generation, forgotten, ..StateBatch::default() }).await.map(drop)
    }

    async fn write(&self, batch: StateBatch) -> Result<StateWritten, DiskError> {
        let write = |done| {
            self.disk.write_state(batch, done);
            Ok(())
        };
        completed("write state", write).await
    }
}
