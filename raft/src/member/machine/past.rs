//! Changes that have left memory: which blocks of them are on the disk, and reading them back.
//!
//! Owns the list of blocks of every resource and which of them go when there are too many. A resource loses blocks by
//! age, or when all blocks together exceed the budget and it has the most: a resource at rest keeps its whole window
//! however much others change.
//!
//! Invariant: the blocks of a resource follow each other without a gap, so what is after a revision is complete if that
//! revision is not before the first block's `after`. A block that does not follow the one before it pushes all earlier ones
//! off the list. Readers check the chain again: a gap is answered with [`Compacted`] and never passed over.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Generation, HistorySpan};
use crate::key::Revision;
use crate::state::{Change, Compacted};

/// Bytes of decoded blocks that are kept for others that read the same: watchers that resume together after a break. A
/// block has some hundred kilobytes, or one change of large objects.
const DECODED_BYTES_MAX: u64 = 8 << 20;

/// The blocks on the disk of this member.
#[derive(Debug, Default)]
pub(crate) struct Past(Mutex<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    generation: Generation,
    resources: BTreeMap<Arc<str>, Spans>,
    bytes: u64,
    /// Off the list and still on the disk: resource and [`HistorySpan::through`].
    unlisted: Vec<(Box<str>, u64)>,
    /// The last used is at the back.
    decoded: VecDeque<(Place, Arc<[Change]>)>,
    /// Of their records.
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
    /// The blocks that were found on the disk. `floor`: where the history in memory starts, of each resource; blocks
    /// that do not lead up to it are of no use.
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

    /// Forgets everything: another state was installed, without history.
    pub(super) fn clear(&self, generation: Generation) {
        *self.0.lock() = Blocks { generation, ..Blocks::default() };
    }

    /// The block with the first change of `resource` after `revision`. `floor`: what memory still holds starts there.
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

    /// The blocks of `resource` with changes after `revision` up to `floor`, newest first, if they have no more than
    /// `bytes_max` and nothing is missing between them or before `floor`.
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
        // Blocks beyond the floor hold what memory still held when the reader looked.
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

    /// Takes the blocks that must go off the list: nobody finds them any more, so they may be removed from the disk.
    /// These are the blocks with nothing newer than `aged`, the oldest of whichever resource has most while there are
    /// more than `bytes_max`, and those that were pushed off before. Nothing unless `generation` is current.
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

    /// The state whose blocks are listed.
    pub(super) fn generation(&self) -> Generation {
        self.0.lock().generation
    }

    /// A block that was decoded a while ago.
    pub(super) fn decoded(&self, place: &Place) -> Option<Arc<[Change]>> {
        let mut blocks = self.0.lock();
        let at = blocks.decoded.iter().position(|(known, _)| known == place)?;
        let found = blocks.decoded.remove(at)?;
        let changes = found.1.clone();
        blocks.decoded.push_back(found);
        Some(changes)
    }

    /// Keeps a decoded block for others.
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

    /// Drops decoded blocks: called from time to time, so that an idle member holds none.
    pub(super) fn drop_decoded(&self) {
        let mut blocks = self.0.lock();
        blocks.decoded.clear();
        blocks.decoded_bytes = 0;
    }

    /// Takes the blocks up to one that cannot be read off the list. `false`: somebody else did.
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

    /// Of each resource, the newest block that must go.
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

    /// Takes the blocks of `resource` up to `through` off the list.
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

    /// Takes all blocks of the resources off the list of which `is_useless` says so, given the newest one.
    fn unlist_where(&mut self, is_useless: impl Fn(&str, &Span) -> bool) {
        let newest = self.resources.iter().filter_map(|(name, all)| Some((name, all.spans.back()?)));
        let useless = newest.filter(|(name, last)| is_useless(name, last)).map(|(name, _)| name.clone());
        for resource in useless.collect::<Vec<_>>() {
            self.unlist_through(&resource, u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Generation = Generation(3);

    fn span(resource: &str, after: u64, through: u64, bytes: u64) -> HistorySpan {
        HistorySpan { resource: resource.into(), after, through, bytes }
    }

    fn past() -> Past {
        let spans = vec![
            span("leases", 10, 20, 100),
            span("leases", 20, 30, 100),
            span("leases", 30, 40, 100),
            span("roles", 5, 12, 50),
        ];
        Past::load(NOW, spans, |resource| Revision(if resource == "leases" { 40 } else { 12 }))
    }

    fn found(past: &Past, resource: &str, revision: u64) -> Result<u64, u64> {
        let place = past.block_after(&Arc::from(resource), Revision(revision), Revision(99));
        place.map(|place| place.through).map_err(|gone| gone.oldest.0)
    }

    /// The blocks to undo from `floor` back to `revision`; `None` when something is missing.
    fn back(past: &Past, revision: u64, floor: u64, bytes_max: u64) -> Option<Vec<u64>> {
        let leases = Arc::from("leases");
        let places = past.blocks_back_to(&leases, Revision(revision), Revision(floor), bytes_max).ok()?;
        Some(places.iter().map(|place| place.through).collect())
    }

    #[test]
    fn the_first_block_with_a_later_change_is_found_or_the_gap_is_told() {
        let past = past();
        let cases = [
            ("leases", 9, Err(10)),
            ("leases", 10, Ok(20)),
            ("leases", 19, Ok(20)),
            ("leases", 20, Ok(30)),
            ("leases", 39, Ok(40)),
            ("roles", 5, Ok(12)),
            ("pods", 5, Err(99)),
        ];
        for (resource, revision, expected) in cases {
            assert_eq!(found(&past, resource, revision), expected, "{resource} after {revision}");
        }
        assert_eq!(back(&past, 25, 40, 200), Some(vec![40, 30]));
        assert_eq!(back(&past, 15, 40, 299), None, "more than is read");
        assert_eq!(back(&past, 9, 40, 999), None, "older than the oldest block");
        assert_eq!(
            back(&past, 25, 30, 999),
            Some(vec![30]),
            "the reader's state still holds what is in the last"
        );
        assert_eq!(back(&past, 25, 50, 999), None, "changes after the last block are missing");
    }

    #[test]
    fn blocks_before_a_gap_are_off_the_list_and_leave_the_disk() {
        let past = past();
        past.add(NOW, vec![span("leases", 60, 70, 100)]);
        assert_eq!((found(&past, "leases", 35), found(&past, "leases", 50)), (Err(60), Err(60)));
        assert_eq!((found(&past, "leases", 60), found(&past, "roles", 5)), (Ok(70), Ok(12)));
        let gone = past.take_excess(NOW, Revision(0), 1000);
        assert_eq!(gone, [("leases".into(), 20), ("leases".into(), 30), ("leases".into(), 40)]);
        assert!(past.take_excess(NOW, Revision(0), 1000).is_empty(), "once");
        // As found on a disk that was written by a version that left gaps.
        let spans = vec![
            span("leases", 10, 20, 1),
            span("leases", 30, 40, 1),
            span("pods", 1, 2, 1),
            span("roles", 5, 12, 1),
        ];
        let floor = |resource: &str| Revision(if resource == "pods" { 3 } else { 40 });
        let past = Past::load(NOW, spans, floor);
        assert_eq!((found(&past, "leases", 15), found(&past, "leases", 30)), (Err(30), Ok(40)));
        assert_eq!(
            (found(&past, "pods", 1), found(&past, "roles", 5)),
            (Err(99), Err(99)),
            "before the floor"
        );
        let gone = past.take_excess(NOW, Revision(0), 1000);
        assert_eq!(gone, [("leases".into(), 20), ("pods".into(), 2), ("roles".into(), 12)]);
    }

    #[test]
    fn decoded_blocks_are_kept_within_a_budget() {
        let past = Past::load(NOW, vec![span("pods", 0, 9, DECODED_BYTES_MAX / 2)], |_| Revision(9));
        let place = |through| Place {
            generation: NOW,
            resource: Arc::from("pods"),
            through,
            bytes: DECODED_BYTES_MAX / 2,
        };
        (1..=3).for_each(|through| past.keep_decoded(place(through), Arc::new([])));
        assert!(past.decoded(&place(1)).is_none() && past.decoded(&place(2)).is_some());
        past.keep_decoded(Place { bytes: DECODED_BYTES_MAX + 1, ..place(4) }, Arc::new([]));
        assert!([2, 3, 4].iter().all(|through| past.decoded(&place(*through)).is_none()));
        past.clear(Generation(4));
        past.keep_decoded(place(5), Arc::new([]));
        assert!(past.decoded(&place(5)).is_none(), "of a state that was replaced");
    }

    #[test]
    fn the_resource_with_most_pays_for_the_budget() {
        let past = past();
        let gone = past.take_excess(NOW, Revision(0), 200);
        assert_eq!(gone, [("leases".into(), 20), ("leases".into(), 30)]);
        assert_eq!((found(&past, "leases", 25), found(&past, "leases", 30)), (Err(30), Ok(40)));
        assert_eq!(found(&past, "roles", 5), Ok(12), "a resource at rest keeps its window");
        let gone = past.take_excess(NOW, Revision(12), 200);
        assert_eq!(gone, [("roles".into(), 12)], "until it is too old");
    }

    #[test]
    fn what_belongs_to_another_state_is_ignored() {
        let past = past();
        past.clear(Generation(4));
        past.add(NOW, vec![span("leases", 10, 20, 100)]);
        assert_eq!(found(&past, "leases", 15), Err(99));
        past.add(Generation(4), vec![span("leases", 50, 60, 100)]);
        assert!(past.take_excess(NOW, Revision(60), 0).is_empty());
        assert_eq!(found(&past, "leases", 55), Ok(60));
    }
}
