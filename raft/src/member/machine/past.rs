//! Changes that have left memory: which blocks of them are on the disk, and reading them back.
//!
//! Owns the list of blocks of every resource and which of them go when there are too many. A resource loses blocks by
//! age, or when all blocks together exceed the budget and it has the most: a resource at rest keeps its whole window
//! however much others change.
//!
//! Invariant: the blocks of a resource follow each other without a gap, so what is after a revision is complete if that
//! revision is not before the first block's `after`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Generation, HistorySpan};
use crate::key::Revision;
use crate::state::{Change, Compacted};

/// Decoded blocks kept for others that read the same: watchers that resume together after a break. A block decodes to
/// at most some hundred kilobytes.
const DECODED_MAX: usize = 8;

/// The blocks on the disk of this member.
#[derive(Debug, Default)]
pub(crate) struct Past(Mutex<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    generation: Generation,
    resources: BTreeMap<Arc<str>, Spans>,
    bytes: u64,
    /// The last used is at the back.
    decoded: VecDeque<(Place, Arc<[Change]>)>,
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
}

impl Past {
    /// The blocks that were found on the disk.
    pub(super) fn load(generation: Generation, found: Vec<HistorySpan>) -> Self {
        let past = Past(Mutex::new(Blocks { generation, ..Blocks::default() }));
        past.add(generation, found);
        past
    }

    /// Adds blocks that are on the disk now, unless another state was installed meanwhile.
    pub(super) fn add(&self, generation: Generation, spans: Vec<HistorySpan>) {
        let mut blocks = self.0.lock();
        if blocks.generation != generation {
            return;
        }
        for HistorySpan { resource, after, through, bytes } in spans {
            blocks.bytes += bytes;
            let of_resource = blocks.resources.entry(Arc::from(resource)).or_default();
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
        let span = spans.get(at).ok_or(gone)?;
        Ok(blocks.place(resource, span))
    }

    /// The blocks of `resource` with changes after `revision`, newest first, if there are no more than `count_max`.
    pub(super) fn blocks_back_to(
        &self,
        resource: &Arc<str>,
        revision: Revision,
        floor: Revision,
        count_max: usize,
    ) -> Result<Vec<Place>, Compacted> {
        let first = self.block_after(resource, revision, floor)?;
        let blocks = self.0.lock();
        let gone = Compacted { requested: revision, oldest: floor };
        let spans = &blocks.resources.get(resource).ok_or(gone)?.spans;
        let wanted = spans.iter().rev().take_while(|span| span.through >= first.through);
        let wanted: Vec<Place> = wanted.map(|span| blocks.place(resource, span)).collect();
        if wanted.len() > count_max { Err(gone) } else { Ok(wanted) }
    }

    /// The blocks that must go: those with nothing newer than `aged`, and while there are more than `bytes_max` the
    /// oldest of whichever resource has most.
    pub(super) fn excess(&self, aged: Revision, bytes_max: u64) -> (Generation, Vec<(Arc<str>, u64)>) {
        let blocks = self.0.lock();
        let mut excess = Vec::new();
        let mut left: BTreeMap<&Arc<str>, (usize, u64)> = BTreeMap::new();
        let mut total = blocks.bytes;
        for (resource, of_resource) in &blocks.resources {
            let old = of_resource.spans.iter().take_while(|span| span.through <= aged.0);
            let (mut taken, mut bytes) = (0, of_resource.bytes);
            for span in old {
                (taken, bytes, total) = (taken + 1, bytes - span.bytes, total - span.bytes);
                excess.push((resource.clone(), span.through));
            }
            left.insert(resource, (taken, bytes));
        }
        while total > bytes_max {
            let most = left.iter_mut().max_by_key(|(_, (_, bytes))| *bytes);
            let Some((resource, (taken, bytes))) = most else { break };
            let span = blocks.resources.get(*resource).and_then(|all| all.spans.get(*taken));
            let Some(span) = span else { break };
            (*taken, *bytes, total) = (*taken + 1, *bytes - span.bytes, total - span.bytes);
            excess.push(((*resource).clone(), span.through));
        }
        (blocks.generation, excess)
    }

    /// Takes blocks off the list: nobody finds them any more, so they may be removed from the disk.
    pub(super) fn remove(&self, generation: Generation, gone: &[(Arc<str>, u64)]) {
        let mut blocks = self.0.lock();
        if blocks.generation != generation {
            return;
        }
        for (resource, through) in gone {
            let Some(of_resource) = blocks.resources.get_mut(resource) else { continue };
            if of_resource.spans.front().is_some_and(|span| span.through == *through)
                && let Some(span) = of_resource.spans.pop_front()
            {
                of_resource.bytes -= span.bytes;
                blocks.bytes -= span.bytes;
            }
        }
        blocks.resources.retain(|_, of_resource| !of_resource.spans.is_empty());
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
        blocks.decoded.push_back((place, changes));
        while blocks.decoded.len() > DECODED_MAX {
            blocks.decoded.pop_front();
        }
    }

    /// Drops decoded blocks: called from time to time, so that an idle member holds none.
    pub(super) fn drop_decoded(&self) {
        self.0.lock().decoded.clear();
    }
}

impl Blocks {
    fn place(&self, resource: &Arc<str>, span: &Span) -> Place {
        Place { generation: self.generation, resource: resource.clone(), through: span.through }
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
        Past::load(NOW, spans)
    }

    fn found(past: &Past, resource: &str, revision: u64) -> Result<u64, u64> {
        let place = past.block_after(&Arc::from(resource), Revision(revision), Revision(99));
        place.map(|place| place.through).map_err(|gone| gone.oldest.0)
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
        let back = past.blocks_back_to(&Arc::from("leases"), Revision(25), Revision(99), 9).unwrap();
        assert_eq!(back.iter().map(|place| place.through).collect::<Vec<_>>(), [40, 30]);
        assert!(past.blocks_back_to(&Arc::from("leases"), Revision(15), Revision(99), 2).is_err());
    }

    #[test]
    fn the_resource_with_most_pays_for_the_budget() {
        let past = past();
        let (generation, gone) = past.excess(Revision(0), 200);
        assert_eq!(gone, [(Arc::from("leases"), 20), (Arc::from("leases"), 30)]);
        past.remove(generation, &gone);
        assert_eq!((found(&past, "leases", 25), found(&past, "leases", 30)), (Err(30), Ok(40)));
        assert_eq!(found(&past, "roles", 5), Ok(12), "a resource at rest keeps its window");
        let (_, gone) = past.excess(Revision(12), 200);
        assert_eq!(gone, [(Arc::from("roles"), 12)], "until it is too old");
    }

    #[test]
    fn what_belongs_to_another_state_is_ignored() {
        let past = past();
        past.clear(Generation(4));
        past.add(NOW, vec![span("leases", 10, 20, 100)]);
        assert_eq!(found(&past, "leases", 15), Err(99));
        past.add(Generation(4), vec![span("leases", 50, 60, 100)]);
        past.remove(NOW, &[(Arc::from("leases"), 60)]);
        assert_eq!(found(&past, "leases", 55), Ok(60));
    }
}
