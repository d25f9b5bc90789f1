//! Collections at older revisions that were rebuilt for a list, kept for its next pages.
//!
//! Owns a few of them for a short time, within a budget of bytes. A client that pages through a collection asks for the
//! same revision again and again; the first page rebuilds it, the others take it from here.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::Generation;
use crate::key::Revision;
use crate::state::Collection;

/// Collections kept: more clients than this that page at once through what changes meanwhile rebuild it each time.
const PAGES_MAX: usize = 16;

/// Bytes of objects that nobody but these collections keeps alive, at most. The newest is kept whatever it holds, which
/// is bounded by what is read for one (`reads`) and what memory holds of the history.
const PAGES_BYTES_MAX: usize = 32 << 20;

/// The collections, the last used at the back.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    generation: Generation,
    pages: VecDeque<Page>,
    bytes: usize,
}

#[derive(Debug)]
struct Page {
    resource: Arc<str>,
    revision: Revision,
    collection: Arc<Collection>,
    /// What it keeps alive.
    bytes: usize,
    /// Looks of the keeper since it was used: no clock is read for each page.
    looks: u32,
}

impl Pages {
    /// The state whose collections are kept: asked for before that state is read, told when one is kept.
    pub(super) fn generation(&self) -> Generation {
        self.0.lock().generation
    }

    /// A collection kept here.
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

    /// Keeps a collection that keeps `bytes` alive, unless the state it is of was replaced.
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

    /// Drops what was not used for so many looks.
    pub(super) fn look(&self, looks_max: u32) {
        let mut kept = self.0.lock();
        kept.pages.iter_mut().for_each(|page| page.looks += 1);
        kept.pages.retain(|page| page.looks <= looks_max);
        kept.bytes = kept.pages.iter().map(|page| page.bytes).sum();
    }

    /// Drops everything: the state is that of `generation` now.
    pub(super) fn clear(&self, generation: Generation) {
        *self.0.lock() = Kept { generation, ..Kept::default() };
    }
}

impl Kept {
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
