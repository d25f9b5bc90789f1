//! A cache of collections at older revisions, rebuilt for a list and kept for its next pages.
//!
//! Owns a few such collections for a short time, within a budget of bytes. A client that pages through a collection asks
//! for the same revision with each continue token: the first page rebuilds the collection, the others find it here.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::Generation;
use crate::key::Revision;
use crate::state::Collection;

/// Collections kept: if more clients page at once, each through a changing collection, every page is rebuilt.
const PAGES_MAX: usize = 16;

/// Bytes of objects that these collections alone keep alive, at most. The newest collection is kept whatever its size,
/// which is bounded by `REBUILD_BYTES_MAX` (`reads`) and the history in memory.
const PAGES_BYTES_MAX: usize = 32 << 20;

/// The collections, the last used at the back.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<CachedPages>);

#[derive(Debug, Default)]
struct CachedPages {
    generation: Generation,
    pages: VecDeque<Page>,
    bytes: usize,
}

#[derive(Debug)]
struct Page {
    resource: Arc<str>,
    revision: Revision,
    collection: Arc<Collection>,
    /// Bytes of objects that this collection alone keeps alive.
    bytes: usize,
    /// Rounds of the keeper since the last use. Rounds, so that no clock is read for each page.
    looks: u32,
}

impl Pages {
    /// The generation of the state whose collections are kept. Callers of `keep` read it before that state.
    pub(super) fn generation(&self) -> Generation {
        self.0.lock().generation
    }

    /// The kept collection of `resource` at `revision`, if any.
    pub(super) fn find(&self, resource: &Arc<str>, revision: Revision) -> Option<Arc<Collection>> {
        let mut kept = self.0.lock();
        let is_it = |page: &Page| page.revision == revision && page.resource == *resource;
        let at = kept.pages.iter().position(is_it)?;
        let mut page = kept.pages.remove(at)?;
        page.looks = 0;
        let collection = page.collection.clone();
        kept.pages.push_back(page);
        Some(collection)
    }

    /// Keeps a collection that keeps `bytes` bytes alive, unless the state of `generation` was replaced.
    pub(super) fn keep(
        &self,
        generation: Generation,
        resource: &Arc<str>,
        revision: Revision,
        collection: &Arc<Collection>,
        bytes: usize,
    ) {
        let mut kept = self.0.lock();
        if kept.generation != generation {
            return;
        }
        let (resource, collection) = (resource.clone(), collection.clone());
        kept.bytes += bytes;
        kept.pages.push_back(Page { resource, revision, collection, bytes, looks: 0 });
        while kept.pages.len() > PAGES_MAX || (kept.bytes > PAGES_BYTES_MAX && kept.pages.len() > 1) {
            kept.drop_first();
        }
    }

    /// Counts a round of the keeper and drops collections that were not used for more than `looks_max` rounds.
    pub(super) fn look(&self, looks_max: u32) {
        let mut kept = self.0.lock();
        kept.pages.iter_mut().for_each(|page| page.looks += 1);
        kept.pages.retain(|page| page.looks <= looks_max);
        kept.bytes = kept.pages.iter().map(|page| page.bytes).sum();
    }

    /// Drops all collections: the state was replaced by that of `generation`.
    pub(super) fn clear(&self, generation: Generation) {
        *self.0.lock() = CachedPages { generation, ..CachedPages::default() };
    }
}

impl CachedPages {
    fn drop_first(&mut self) {
        if let Some(page) = self.pages.pop_front() {
            self.bytes -= page.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revisions(pages: &Pages) -> Vec<u64> {
        pages.0.lock().pages.iter().map(|page| page.revision.0).collect()
    }

    #[test]
    fn the_last_used_are_kept_within_the_budget() {
        let (pages, pods) = (Pages::default(), Arc::from("pods"));
        let keep = |revision: u64, bytes: usize| {
            pages.keep(Generation(0), &pods, Revision(revision), &Arc::default(), bytes);
        };
        (1..=20).for_each(|revision| keep(revision, 1));
        assert_eq!(revisions(&pages), (5..=20).collect::<Vec<_>>());
        assert!(pages.find(&pods, Revision(5)).is_some() && pages.find(&pods, Revision(4)).is_none());
        keep(21, PAGES_BYTES_MAX - 1);
        assert_eq!(revisions(&pages), [5, 21]);
        keep(22, PAGES_BYTES_MAX * 2);
        assert_eq!(revisions(&pages), [22], "a large one alone");
        keep(23, PAGES_BYTES_MAX);
        assert_eq!(revisions(&pages), [23]);
        pages.look(0);
        keep(24, PAGES_BYTES_MAX);
        assert_eq!(revisions(&pages), [24]);
    }

    #[test]
    fn a_collection_of_a_state_that_was_replaced_is_not_kept() {
        let (pages, pods) = (Pages::default(), Arc::from("pods"));
        let before = pages.generation();
        pages.clear(Generation(7));
        pages.keep(before, &pods, Revision(1), &Arc::default(), 1);
        assert_eq!(revisions(&pages), []);
        pages.keep(pages.generation(), &pods, Revision(1), &Arc::default(), 1);
        assert_eq!(revisions(&pages), [1]);
    }
}
