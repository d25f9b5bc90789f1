//! The objects that an index proposes, in the order of a list.
//!
//! Owns the way through them: paths are taken from the index some at a time, so that its lock is held for microseconds, and
//! looked up in the collection that the list reads. Where the index proposes a large part of all objects, or cannot go on, the
//! way ends in a scan from there. While the index is being brought up for longer than a request waits, a part is scanned, and
//! the index is asked again behind it.

use std::sync::Arc;
use std::vec;

use orch_raft::object::SharedObject;
use orch_raft::{Collection, Revision};

use super::terms::{Filed, Terms};
use crate::follow::Maintained;

/// Paths that are taken from an index at first, and at most. Each costs some ten nanoseconds under the lock.
const BATCH: [usize; 2] = [64, 1_024];

/// Matches of a scan that take about as long as one look-up: an index is used where it visits no more than this part of the
/// objects.
const VISITED_PART: usize = 16;

/// Objects that are looked up though that is more than the part above.
const VISITED_MIN: usize = 256;

/// Objects that are scanned before an index is asked again that was being brought up: some ten microseconds. Each further part
/// is four times as large, so that a list waits for the lock a few times at most.
const SCANNED_MEANWHILE: usize = 1_024;

/// A question to an index: the objects with one term, at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    terms: Maintained<Terms>,
    origin: Arc<()>,
    filed: Filed,
    revision: Revision,
    /// Objects that are looked up at most.
    visits: usize,
}

impl Lookup {
    pub(super) fn new(
        terms: Maintained<Terms>,
        origin: Arc<()>,
        filed: Filed,
        revision: Revision,
        visits: usize,
    ) -> Self {
        Lookup { terms, origin, filed, revision, visits }
    }

    /// Objects that are looked up before a scan of the rest of `reach` objects costs less.
    pub(super) fn visits(reach: usize) -> usize {
        VISITED_MIN.max(reach / VISITED_PART)
    }

    /// As [`Terms::paths`]. The outer `None`: the index is being brought up for longer than a request waits.
    fn paths(&self, namespace: &str, after: &str, max: usize) -> Option<Option<Vec<Arc<str>>>> {
        let known = (&self.origin, self.revision);
        self.terms.peek(|terms| terms.paths(self.filed, (namespace, after, max), known))
    }
}

/// A path, and the object under it.
type Found<'a> = (&'a Arc<str>, &'a SharedObject);

/// The objects of a collection that a selector may select, in the order of their paths. They are still to be matched.
pub(crate) struct Matching<'a> {
    collection: &'a Collection,
    lookup: Option<&'a Lookup>,
    namespace: &'a str,
    /// The last path that was taken from the index.
    after: Arc<str>,
    batch: vec::IntoIter<Arc<str>>,
    batch_max: usize,
    visits_left: usize,
    /// The rest, where it is scanned.
    scan: Option<Box<dyn Iterator<Item = Found<'a>> + 'a>>,
    /// Objects of it that are left before the index is asked again; `None`: it is not asked again.
    scan_left: Option<usize>,
    /// Objects of the next such part.
    scan_next: usize,
}

impl<'a> Matching<'a> {
    /// The objects of `namespace` (of all namespaces if empty) behind the path `after`; all of them without a `lookup`, which is
    /// a question about `collection`.
    pub(crate) fn new(
        collection: &'a Collection,
        lookup: Option<&'a Lookup>,
        namespace: &'a str,
        after: &str,
    ) -> Self {
        let mut matching = Matching {
            collection,
            lookup,
            namespace,
            after: after.into(),
            batch: Vec::new().into_iter(),
            batch_max: BATCH[0],
            visits_left: lookup.map_or(0, |lookup| lookup.visits),
            scan: None,
            scan_left: None,
            scan_next: SCANNED_MEANWHILE,
        };
        if lookup.is_none() {
            matching.scan_rest();
        }
        matching
    }

    fn scan_rest(&mut self) {
        self.scan = Some(Box::new(self.collection.within(self.namespace, &self.after)));
        self.scan_left = None;
    }

    /// Scans a part of the rest, until the index can be asked again.
    fn scan_meanwhile(&mut self) {
        self.scan_rest();
        self.scan_left = Some(self.scan_next);
        self.scan_next = self.scan_next.saturating_mul(4);
    }

    /// The next object of the scan. `None`: the index is asked again behind it, or the scan has come to the end.
    fn scanned(&mut self) -> Option<Found<'a>> {
        if self.scan_left == Some(0) {
            (self.scan, self.scan_left) = (None, None);
            return None;
        }
        let found = self.scan.as_mut()?.next();
        if let (Some(left), Some((path, _))) = (&mut self.scan_left, found) {
            *left -= 1;
            self.after = path.clone();
        }
        found
    }

    /// Takes the next paths from the index. `false`: there are none.
    fn take_batch(&mut self) -> bool {
        let Some(lookup) = self.lookup else { return false };
        let max = self.batch_max.min(self.visits_left);
        if max == 0 {
            self.scan_rest();
            return true;
        }
        let paths = match lookup.paths(self.namespace, &self.after, max) {
            Some(Some(paths)) => paths,
            Some(None) => {
                self.scan_rest();
                return true;
            }
            None => {
                self.scan_meanwhile();
                return true;
            }
        };
        match paths.last() {
            Some(last) if paths.len() == max => self.after = last.clone(),
            // The index has no more of them.
            _ => self.lookup = None,
        }
        self.visits_left -= paths.len();
        self.batch_max = (4 * max).min(BATCH[1]);
        let is_any = !paths.is_empty();
        self.batch = paths.into_iter();
        is_any
    }
}

impl<'a> Iterator for Matching<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        loop {
            if self.scan.is_some() {
                match self.scanned() {
                    None if self.scan.is_none() => {}
                    found => return found,
                }
            }
            // An object that was removed is not in the collection, nor one that is created later.
            let collection = self.collection;
            if let Some(found) = self.batch.find_map(|path| collection.find(&path)) {
                return Some(found);
            }
            if !self.take_batch() {
                return None;
            }
        }
    }
}
