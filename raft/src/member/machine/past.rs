//! Blocks of history on the disk: the list of them, and a cache of decoded ones.
//!
//! Owns the list of blocks of every resource, and the choice of blocks to remove when there are too many. A resource loses
//! blocks by age, or when all blocks together exceed the budget and it has the most bytes: a resource that does not change
//! keeps its whole window, however much others change.
//!
//! Invariant: the blocks of a resource follow each other without a gap, so the changes after a revision are complete if
//! that revision is not before the first block's `after`. A block that does not follow its predecessor removes all earlier
//! blocks from the list. Readers check the chain again: a gap is answered with [`Compacted`] and never skipped.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Generation, HistorySpan};
use crate::key::Revision;
use crate::state::{Change, Compacted};

/// Bytes of blocks in the cache of decoded blocks, for watchers that resume together after a break and read the same
/// blocks. A block has some hundred kilobytes, or one change of large objects.
const DECODED_BYTES_MAX: u64 = 8 << 20;

/// The blocks on the disk of this member.
#[derive(Debug, Default)]
pub(crate) struct Past(Mutex<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    generation: Generation,
    resources: BTreeMap<Arc<str>, Spans>,
    bytes: u64,
    /// Blocks removed from the list that are still on the disk: resource and [`HistorySpan::through`].
    unlisted: Vec<(Box<str>, u64)>,
    /// Decoded blocks, the last used at the back.
    decoded: VecDeque<(Place, Arc<[Change]>)>,
    /// Bytes of the records of `decoded`.
    decoded_bytes: u64,
}

/// The blocks of one resource, oldest first.
#[derive(Debug, Default)]
struct Spans {
    spans: VecDeque<Span>,
    bytes: u64,
}

/// One block; see [`HistorySpan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    after: u64,
    through: u64,
    bytes: u64,
}

/// Where a block is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) generation: Generation,
    pub(super) resource: Arc<str>,
    pub(super) through: u64,
    /// Bytes of its record.
    pub(super) bytes: u64,
}

impl Past {
    /// The blocks that were found on the disk. `floor` gives the start of the history in memory by resource; the blocks of a
    /// resource that do not end there are removed from the list.
    pub(super) fn load(
        generation: Generation,
        found: Vec<HistorySpan>,
        floor: impl Fn(&str) -> Revision,
    ) -> Self {
        let past = Past(Mutex::new(Blocks { generation, ..Blocks::default() }));
        past.add(generation, found);
        past.0.lock().unlist_where(|resource, last| Revision(last.through) != floor(resource));
        past
    }

    /// Adds blocks that are on the disk now, unless another state was installed meanwhile.
    pub(super) fn add(&self, generation: Generation, spans: Vec<HistorySpan>) {
        let mut blocks = self.0.lock();
        if blocks.generation != generation {
            return;
        }
        for HistorySpan { resource, after, through, bytes } in spans {
            let resource: Arc<str> = Arc::from(resource);
            if blocks.last(&resource).is_some_and(|last| last.through != after) {
                blocks.unlist_through(&resource, u64::MAX);
            }
            blocks.bytes += bytes;
            let of_resource = blocks.resources.entry(resource).or_default();
            of_resource.bytes += bytes;
            of_resource.spans.push_back(Span { after, through, bytes });
        }
    }

    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    /// Forgets all blocks: another state was installed, without history.
    pub(super) fn clear(&self, generation: Generation) {
        *self.0.lock() = Blocks { generation, ..Blocks::default() };
    }

    /// The block with the first change of `resource` after `revision`. `floor`: the start of the history in memory.
    pub(super) fn block_after(
        &self,
        resource: &Arc<str>,
        revision: Revision,
        floor: Revision,
    ) -> Result<Place, Compacted> {
        let blocks = self.0.lock();
        let spans = blocks.resources.get(resource).map(|of_resource| &of_resource.spans);
        let oldest = spans.and_then(|spans| spans.front()).map_or(floor, |first| Revision(first.after));
        let gone = Compacted { requested: revision, oldest };
        let spans = spans.filter(|_| revision >= oldest).ok_or(gone)?;
        let at = spans.partition_point(|span| span.through <= revision.0);
        let span = spans.get(at).filter(|span| span.after <= revision.0).ok_or(gone)?;
        Ok(blocks.place(resource, span))
    }

    /// The blocks of `resource` with changes after `revision` up to `floor`, newest first. An error if they have more than
    /// `bytes_max` bytes, or if there is a gap between them or before `floor`.
    pub(super) fn blocks_back_to(
        &self,
        resource: &Arc<str>,
        revision: Revision,
        floor: Revision,
        bytes_max: u64,
    ) -> Result<Vec<Place>, Compacted> {
        let blocks = self.0.lock();
        let gone = Compacted { requested: revision, oldest: floor };
        let spans = &blocks.resources.get(resource).ok_or(gone)?.spans;
        let (mut wanted, mut reached, mut bytes) = (Vec::new(), floor.0, 0);
        // Blocks beyond `floor` hold changes that the reader's state still has in memory.
        for span in spans.iter().rev().skip_while(|span| span.through > floor.0) {
            if reached <= revision.0 {
                break;
            }
            bytes += span.bytes;
            if span.through != reached || bytes > bytes_max {
                return Err(gone);
            }
            wanted.push(blocks.place(resource, span));
            reached = span.after;
        }
        if reached > revision.0 { Err(gone) } else { Ok(wanted) }
    }

    /// Removes excess blocks from the list and returns them for removal from the disk: no reader finds them any more. These are
    /// the blocks with no change newer than `aged`; while there are more than `bytes_max` bytes, the oldest blocks of the
    /// resource with the most bytes; and blocks removed from the list before. Empty unless `generation` is current.
    pub(super) fn take_excess(
        &self,
        generation: Generation,
        aged: Revision,
        bytes_max: u64,
    ) -> Vec<(Box<str>, u64)> {
        let mut blocks = self.0.lock();
        if blocks.generation != generation {
            return Vec::new();
        }
        for (resource, through) in blocks.excess(aged, bytes_max) {
            blocks.unlist_through(&resource, through);
        }
        mem::take(&mut blocks.unlisted)
    }

    /// The generation of the state whose blocks are listed.
    pub(super) fn generation(&self) -> Generation {
        self.0.lock().generation
    }

    /// A block from the cache of decoded blocks.
    pub(super) fn decoded(&self, place: &Place) -> Option<Arc<[Change]>> {
        let mut blocks = self.0.lock();
        let at = blocks.decoded.iter().position(|(known, _)| known == place)?;
        let found = blocks.decoded.remove(at)?;
        let changes = found.1.clone();
        blocks.decoded.push_back(found);
        Some(changes)
    }

    /// Adds a decoded block to the cache, unless another state was installed meanwhile.
    pub(super) fn keep_decoded(&self, place: Place, changes: Arc<[Change]>) {
        let mut blocks = self.0.lock();
        if blocks.generation != place.generation {
            return;
        }
        blocks.decoded_bytes += place.bytes;
        blocks.decoded.push_back((place, changes));
        while blocks.decoded_bytes > DECODED_BYTES_MAX {
            let Some((dropped, _)) = blocks.decoded.pop_front() else { break };
            blocks.decoded_bytes -= dropped.bytes;
        }
    }

    /// Empties the cache of decoded blocks: called periodically, so that an idle member holds none.
    pub(super) fn drop_decoded(&self) {
        let mut blocks = self.0.lock();
        blocks.decoded.clear();
        blocks.decoded_bytes = 0;
    }

    /// Removes a block that cannot be read, and all before it, from the list. `false` if they were removed already.
    pub(super) fn unlist(&self, place: &Place) -> bool {
        let mut blocks = self.0.lock();
        let unlisted = blocks.unlisted.len();
        if blocks.generation == place.generation {
            blocks.unlist_through(&place.resource, place.through);
        }
        blocks.unlisted.len() > unlisted
    }
}

impl Blocks {
    fn place(&self, resource: &Arc<str>, span: &Span) -> Place {
        let (generation, resource) = (self.generation, resource.clone());
        Place { generation, resource, through: span.through, bytes: span.bytes }
    }

    fn last(&self, resource: &str) -> Option<&Span> {
        self.resources.get(resource)?.spans.back()
    }

    /// For each resource with blocks to remove, the `through` of the newest of them.
    fn excess(&self, aged: Revision, bytes_max: u64) -> Vec<(Arc<str>, u64)> {
        let mut excess = Vec::new();
        let mut left: BTreeMap<&Arc<str>, (usize, u64)> = BTreeMap::new();
        let mut total = self.bytes;
        for (resource, of_resource) in &self.resources {
            let old = of_resource.spans.iter().take_while(|span| span.through <= aged.0);
            let (mut taken, mut bytes) = (0, of_resource.bytes);
            for span in old {
                (taken, bytes, total) = (taken + 1, bytes - span.bytes, total - span.bytes);
            }
            left.insert(resource, (taken, bytes));
        }
        while total > bytes_max {
            let most = left.iter_mut().max_by_key(|(_, (_, bytes))| *bytes);
            let Some((resource, (taken, bytes))) = most else { break };
            let span = self.resources.get(*resource).and_then(|all| all.spans.get(*taken));
            let Some(span) = span else { break };
            (*taken, *bytes, total) = (*taken + 1, *bytes - span.bytes, total - span.bytes);
        }
        for (resource, (taken, _)) in left {
            let newest = taken.checked_sub(1).and_then(|at| self.resources.get(resource)?.spans.get(at));
            excess.extend(newest.map(|span| (resource.clone(), span.through)));
        }
        excess
    }

    /// Removes the blocks of `resource` up to `through` from the list.
    fn unlist_through(&mut self, resource: &Arc<str>, through: u64) {
        let Some(of_resource) = self.resources.get_mut(resource) else { return };
        while let Some(span) = of_resource.spans.pop_front_if(|span| span.through <= through) {
            of_resource.bytes -= span.bytes;
            self.bytes -= span.bytes;
            self.unlisted.push((Box::from(&**resource), span.through));
        }
        if of_resource.spans.is_empty() {
            self.resources.remove(resource);
        }
    }

    /// Removes all blocks of a resource from the list if `is_useless` accepts its newest block.
    fn unlist_where(&mut self, is_useless: impl Fn(&str, &Span) -> bool) {
        let newest = self.resources.iter().filter_map(|(name, all)| Some((name, all.spans.back()?)));
        let useless = newest.filter(|(name, last)| is_useless(name, last)).map(|(name, _)| name.clone());
        for resource in useless.collect::<Vec<_>>() {
            self.unlist_through(&resource, u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests;
