//! Reading what was: changes and collections older than what memory holds.
//!
//! Owns the way from memory to the blocks on the disk and back. It changes nothing.

use std::sync::Arc;

use super::Applied;
use super::past::Place;
use super::store::changes_from_record;
use super::writer::{Lock, Writer};
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::log::LogError;
use crate::state::{Change, Collection, Compacted};

/// Blocks that are read for one collection at most: 64 MiB of objects, which takes a few hundred milliseconds. A
/// revision further back is told to be gone, as one that is too old.
const BLOCKS_MAX: usize = 256;

impl<D: Disk, L: Lock<Writer>> Applied<D, L> {
    /// A run of changes of `resource` in order, without a gap after `revision`; the first of them may be before it.
    ///
    /// # Errors
    /// The changes after `revision` are no longer held, or memory still holds them.
    pub(crate) fn past_changes(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<[Change]>, Compacted> {
        let floor = self.state().collection(resource).floor();
        let place = self.past.block_after(resource, revision, floor)?;
        self.block(&place).ok_or(Compacted { requested: revision, oldest: floor })
    }

    /// The collection as it was at `revision`.
    ///
    /// # Errors
    /// The revision can no longer be rebuilt.
    pub(crate) fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        let collection = self.state().collection(resource);
        if collection.changed() <= revision {
            return Ok(collection);
        }
        if let Some(kept) = self.pages.find(resource, revision) {
            return Ok(kept);
        }
        let rebuilt = match collection.at(revision) {
            Ok(rebuilt) => rebuilt,
            Err(Compacted { .. }) => self.rebuild(resource, &collection, revision)?,
        };
        let rebuilt = Arc::new(rebuilt);
        self.pages.keep(resource, revision, &rebuilt);
        Ok(rebuilt)
    }

    /// Goes back from what memory holds by undoing the blocks on the disk, newest first.
    fn rebuild(
        &self,
        resource: &Arc<str>,
        collection: &Collection,
        revision: Revision,
    ) -> Result<Collection, Compacted> {
        let floor = collection.floor();
        let places = self.past.blocks_back_to(resource, revision, floor, BLOCKS_MAX)?;
        let mut then = collection.at(floor)?;
        for place in places.iter().filter(|place| place.through <= floor.0) {
            let changes = self.block(place).ok_or(Compacted { requested: revision, oldest: floor })?;
            let later = changes.iter().rev().take_while(|change| change.revision > revision);
            then = then.undo(later);
        }
        Ok(then)
    }

    /// The changes of a block; `None` when it has gone meanwhile.
    fn block(&self, place: &Place) -> Option<Arc<[Change]>> {
        if let Some(changes) = self.past.decoded(place) {
            return Some(changes);
        }
        let read = || -> Result<Option<Arc<[Change]>>, LogError> {
            let record = self.disk.read_history(place.generation, &place.resource, place.through)?;
            Ok(record.map(changes_from_record).transpose()?)
        };
        // What the disk cannot give or has damaged ends the member; whoever asked is told that it is gone.
        let changes = self.fatal.disk(read()).ok()??;
        self.past.keep_decoded(place.clone(), changes.clone());
        Some(changes)
    }
}
