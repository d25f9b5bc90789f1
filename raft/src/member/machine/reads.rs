//! Reads of older revisions: changes and collections older than the history in memory.
//!
//! Owns reading blocks from the disk, and the bound on how much is read at once. Its only change is that blocks which cannot
//! be read are removed from the list: lost history is no reason to end the member.

use std::sync::Arc;

use super::Applied;
use super::past::Place;
use super::store::changes_from_record;
use super::writer::{Lock, Writer};
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::log::LogError;
use crate::state::{Change, Collection, Compacted};

/// Bytes of blocks read to rebuild one collection, at most, which takes a few hundred milliseconds. An older revision is
/// answered as compacted.
const REBUILD_BYTES_MAX: u64 = 64 << 20;

impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// A run of changes of `resource` in order, without a gap after `revision`; the first of them may be before it.
    ///
    /// # Errors
    /// The changes after `revision` are compacted, or memory still holds them.
    pub(crate) fn past_changes(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<[Change]>, Compacted> {
        let floor = self.state().collection(resource).floor();
        let place = self.past.block_after(resource, revision, floor)?;
        self.block(&place).ok_or(Compacted { requested: revision, oldest: floor })
    }

    /// The collection as it was at `revision`. One collection at a time is rebuilt from the disk; other callers wait.
    ///
    /// # Errors
    /// The revision can no longer be rebuilt.
    pub(crate) async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        if let Ok(found) = self.at_hand(resource, revision) {
            return Ok(found);
        }
        let _turn = self.rebuilding.lock().await;
        // The caller that had the turn before may have rebuilt the same collection.
        if let Ok(found) = self.at_hand(resource, revision) {
            return Ok(found);
        }
        let generation = self.pages.generation();
        let now = self.state().collection(resource);
        let then = Arc::new(self.rebuild(resource, &now, revision).await?);
        self.pages.keep(generation, resource, revision, &then, now.bytes_kept_by(&then));
        Ok(then)
    }

    /// The collection as it was at `revision`, if memory holds it or its history.
    fn at_hand(&self, resource: &Arc<str>, revision: Revision) -> Result<Arc<Collection>, Compacted> {
        let generation = self.pages.generation();
        let now = self.state().collection(resource);
        if now.changed() <= revision {
            return Ok(now);
        }
        if let Some(kept) = self.pages.find(resource, revision) {
            return Ok(kept);
        }
        let then = Arc::new(now.at(revision)?);
        self.pages.keep(generation, resource, revision, &then, now.bytes_kept_by(&then));
        Ok(then)
    }

    /// Rebuilds the collection at `revision`: undoes the history in memory, then the blocks on the disk, newest first.
    async fn rebuild(
        &self,
        resource: &Arc<str>,
        collection: &Collection,
        revision: Revision,
    ) -> Result<Collection, Compacted> {
        let floor = collection.floor();
        let places = self.past.blocks_back_to(resource, revision, floor, REBUILD_BYTES_MAX)?;
        let mut then = collection.at(floor)?;
        for place in &places {
            let changes = self.block(place).ok_or(Compacted { requested: revision, oldest: floor })?;
            let later = changes.iter().rev().take_while(|change| change.revision > revision);
            then = then.undo(later);
            // Each block takes some milliseconds: lets other tasks of this thread run in between.
            tokio::task::yield_now().await;
        }
        Ok(then)
    }

    /// The changes of a block; `None` when it was removed meanwhile, or cannot be read.
    fn block(&self, place: &Place) -> Option<Arc<[Change]>> {
        if let Some(changes) = self.past.decoded(place) {
            return Some(changes);
        }
        let read = || -> Result<Option<Arc<[Change]>>, LogError> {
            let record = self.disk.read_history(place.generation, &place.resource, place.through)?;
            Ok(record.map(changes_from_record).transpose()?)
        };
        match read() {
            Ok(changes) => {
                let changes = changes?;
                self.past.keep_decoded(place.clone(), changes.clone());
                Some(changes)
            }
            Err(error) => {
                if self.past.unlist(place) {
                    let (resource, through) = (&place.resource, place.through);
                    tracing::warn!(%error, %resource, through, "history up to here cannot be read and is forgotten");
                }
                None
            }
        }
    }
}
