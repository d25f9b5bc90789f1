//! Indexes of stored objects, from which lists by an equality are answered without a scan.
//!
//! Owns which collections have an index, and which equality of a selector it is asked for. An index is a value derived from
//! the state (`crate::follow`): writes pay nothing for it, a list brings it up by the changes since the last one. It only
//! proposes: every object is looked up in the collection that the list reads, at its revision, and matched against the whole
//! selector. Without an index, and where it does not reach back to the revision, a list scans.
//!
//!     Reach      the part of a collection that a request looks at, with or without an index
//!     Indexes    of all collections, made for those that are worth one
//!     Terms      what one index holds
//!     Lookup     one question to one index
//!     Matching   the objects that a lookup proposes, in the order of a list
//!
//! Invariant: among what an index proposes for a term are all objects that have the term, at every revision that it covers.

mod matching;
#[cfg(any(test, feature = "simulation"))]
mod planted;
mod reach;
mod terms;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use orch_raft::{Collection, Revision, Store};
use parking_lot::RwLock;

use crate::follow::{Applied, Builder, Maintained, shrink};
use crate::registry::Resource;
use crate::selector::Selector;
pub(crate) use matching::{Lookup, Matching};
#[cfg(any(test, feature = "simulation"))]
pub use planted::{INDEX_BUGS, IndexBug, with_index_bug};
pub(crate) use reach::Reach;
use terms::{Field, Filed, Term, Terms};

/// Objects in the reach of a list from which on an index is asked: a scan of fewer takes some fifty microseconds.
const OBJECTS_MIN: usize = 1_024;

/// Scans that an index would have saved before it is made: filing an object costs as much as matching it some ten times, and
/// a list that comes once is not worth the memory.
const SCANS_BEFORE: usize = 16;

/// Period in which an index that no list has asked for is given back: informers that come back after a failure ask within
/// minutes, and an index costs as much as a dozen scans.
const UNUSED_MAX: Duration = Duration::from_secs(10 * 60);

/// Equalities of a selector that are considered. A client may send thousands.
const CONSIDERED_MAX: usize = 8;

/// The indexes of a node, by collection.
#[derive(Debug)]
pub struct Indexes {
    by_storage: RwLock<HashMap<Arc<str>, Arc<Index>>>,
    objects_min: usize,
    scans_before: usize,
    builder: Builder,
}

/// The index of one collection.
#[derive(Debug)]
struct Index {
    /// The fields that it is made by.
    fields: Arc<[Field]>,
    terms: Maintained<Terms>,
    /// Objects that lists had to scan while there was no index.
    scanned: AtomicUsize,
    /// They were enough. It stays so while lists ask, however many objects come.
    is_wanted: AtomicBool,
    /// A list has asked since the last look for unused indexes.
    is_used: AtomicBool,
}

/// How a list found its objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By their path.
    Path,
    /// Among those that an index proposed.
    Index,
    /// Among all within reach.
    #[default]
    Scan,
}

impl Way {
    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Path => "path",
            Way::Index => "index",
            Way::Scan => "scan",
        }
    }
}

impl Default for Indexes {
    fn default() -> Self {
        Indexes {
            by_storage: RwLock::default(),
            objects_min: OBJECTS_MIN,
            scans_before: SCANS_BEFORE,
            builder: Builder::default(),
        }
    }
}

impl Indexes {
    /// Indexes of every collection that is asked for an equality, however few objects and lists it has: for tests and
    /// simulations, whose collections are small.
    pub fn of_all(builder: Builder) -> Self {
        Indexes { objects_min: 0, scans_before: 0, builder, ..Indexes::default() }
    }

    /// Gives back the indexes that no list asks for. Never completes.
    pub(crate) async fn give_back_unused(&self, store: &impl Store) -> Infallible {
        loop {
            store.sleep(UNUSED_MAX).await;
            self.look_for_unused();
        }
    }

    fn look_for_unused(&self) {
        let mut indexes = self.by_storage.write();
        // The collection may be that of a kind that is gone: not even the entry stays.
        let is_unused = |_: &Arc<str>, index: &mut Arc<Index>| !index.is_used.swap(false, Ordering::Relaxed);
        let unused: Vec<Arc<Index>> = indexes.extract_if(is_unused).map(|(_, index)| index).collect();
        shrink(&mut *indexes);
        drop(indexes);
        unused.iter().for_each(|index| index.terms.forget());
    }

    /// The way to the objects of `collection`, that of `resource` at `revision`, which `selector` may select in `namespace` (in
    /// all if it is empty). `None`: a scan is the way.
    pub(crate) async fn lookup<S: Store>(
        &self,
        store: &S,
        resource: &Resource,
        (collection, revision): (&Collection, Revision),
        namespace: &str,
        selector: &Selector,
    ) -> Option<Lookup> {
        let reach = collection.count(namespace);
        if reach < self.objects_min {
            return None;
        }
        let required = required(resource, selector);
        if required.is_empty() {
            return None;
        }
        // Taken after the collection: the index is brought up to its revision at least.
        let applied = Applied::of(store);
        let index = self.index(resource);
        if !index.is_worth_while(reach, self.scans_before * collection.len()) {
            return None;
        }
        let visits = Lookup::visits(reach);
        let find = |terms: &Terms| terms.narrowest(&required, (namespace, visits), revision);
        let (filed, origin) = index.terms.read(&applied, find).await?;
        Some(Lookup::new(index.terms.clone(), origin, filed, revision, visits))
    }

    fn index(&self, resource: &Resource) -> Arc<Index> {
        // The fields that a kind declares may be others than when the index was made.
        let is_of = |index: &&Arc<Index>| {
            index.fields.iter().map(|field| (&*field.name, field.place)).eq(indexed(resource))
        };
        let known = self.by_storage.read().get(&resource.storage).filter(is_of).cloned();
        if let Some(index) = known {
            return index;
        }
        let index = Arc::new(Index::of(resource, self.builder));
        self.by_storage.write().insert(resource.storage.clone(), index.clone());
        index
    }
}

impl Index {
    fn of(resource: &Resource, builder: Builder) -> Index {
        let fields: Arc<[Field]> =
            indexed(resource).map(|(name, place)| Field { name: name.into(), place }).collect();
        let (source, own) = (resource.storage.clone(), fields.clone());
        let terms = Maintained::built_by(builder, move || Terms::new(source.clone(), own.clone()));
        Index {
            fields,
            terms,
            scanned: AtomicUsize::default(),
            is_wanted: AtomicBool::default(),
            is_used: AtomicBool::default(),
        }
    }

    /// Whether the index is there, or shall be made: lists over `reach` objects have scanned more than `enough` of them.
    fn is_worth_while(&self, reach: usize, enough: usize) -> bool {
        self.is_used.store(true, Ordering::Relaxed);
        if self.is_wanted.load(Ordering::Relaxed) {
            return true;
        }
        let is_wanted = self.scanned.fetch_add(reach, Ordering::Relaxed) >= enough;
        if is_wanted {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
        is_wanted
    }
}

/// The fields of a kind that objects are filed by, each with its place.
fn indexed(resource: &Resource) -> impl Iterator<Item = (&str, usize)> {
    let declared = resource.rules.selectable.iter().enumerate();
    // A field that one version of a declared kind withholds, another one selects by: they share the index.
    let is_shared = resource.is_declared();
    let indexed = declared.filter(move |(_, field)| !field.unindexed && (!field.withheld || is_shared));
    indexed.map(|(place, field)| (field.name.as_str(), place))
}

/// The terms that every selected object has, those of fields first: fields tell objects apart better than labels do.
fn required(resource: &Resource, selector: &Selector) -> Vec<Filed> {
    let declared = &resource.rules.selectable;
    let is_indexed = |place: usize| declared.get(place).is_some_and(|field| !field.unindexed);
    let fields = selector.fields.required_values();
    let fields = fields.filter(|required| !required.value.is_empty() && is_indexed(required.place));
    let fields = fields.map(|required| Filed::certain(Term::field(required.field, required.value)));
    let labels = selector.labels.required_values();
    let labels = labels.map(|(key, value)| Filed::or_crowded(Term::label(key, value)));
    fields.chain(labels).take(CONSIDERED_MAX).collect()
}
