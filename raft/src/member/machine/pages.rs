//! Collections at older revisions that were rebuilt for a list, kept for its next pages.
//!
//! Owns a few of them for a short time. A client that pages through a collection asks for the same revision again and
//! again; the first page rebuilds it, the others take it from here.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::key::Revision;
use crate::state::Collection;

/// Collections kept: more clients than this that page at once through what changes meanwhile rebuild it each time.
const PAGES_MAX: usize = 16;

/// The collections, the last used at the back.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<VecDeque<Page>>);

#[derive(Debug)]
struct Page {
    resource: Arc<str>,
    revision: Revision,
    collection: Arc<Collection>,
    /// Looks of the keeper since it was used: no clock is read for each page.
    looks: u32,
}

impl Pages {
    /// A collection kept here.
    pub(super) fn find(&self, resource: &Arc<str>, revision: Revision) -> Option<Arc<Collection>> {
        let mut pages = self.0.lock();
        let at = pages.iter().position(|page| page.revision == revision && page.resource == *resource)?;
        let mut page = pages.remove(at)?;
        page.looks = 0;
        let collection = page.collection.clone();
        pages.push_back(page);
        Some(collection)
    }

    /// Keeps a collection.
    pub(super) fn keep(&self, resource: &Arc<str>, revision: Revision, collection: &Arc<Collection>) {
        let mut pages = self.0.lock();
        let (resource, collection) = (resource.clone(), collection.clone());
        pages.push_back(Page { resource, revision, collection, looks: 0 });
        while pages.len() > PAGES_MAX {
            pages.pop_front();
        }
    }

    /// Drops what was not used for so many looks.
    pub(super) fn look(&self, looks_max: u32) {
        let mut pages = self.0.lock();
        pages.iter_mut().for_each(|page| page.looks += 1);
        pages.retain(|page| page.looks <= looks_max);
    }

    /// Drops everything: another state was installed.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
