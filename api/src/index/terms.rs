//! Content of an index: the paths of the objects that have each term.
//!
//! Owns the terms of an object, and how long a path stays under a term that its object has lost: as long as continue tokens
//! are good, so that older revisions are answered, too. It holds no object and no value of a field or label, but random
//! hashes of them: two values with the same hash propose one another's objects, which do not match.
//!
//! Invariant: under each term are the paths of all objects that have had it at `floor` or later.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use orch_raft::{Change, Object, Revision, State};

use crate::follow::{Derived, shrink};

/// Labels of an object that are filed one by one; an object with more is proposed for every label. Filing a label takes about a
/// microsecond, and no kind of the ecosystem's objects has half as many.
const LABELS_MAX: usize = 64;

/// Stored bytes of an object for each label that is filed: as many as an entry takes, so that the index of an object takes about
/// what is stored of it, however short its labels are.
const BYTES_PER_LABEL: usize = 48;

/// Time for which a lost term is kept, in milliseconds: that of a continue token.
const KEPT_MS: u64 = 5 * 60 * 1_000;

/// Lost terms that are kept, but for a quarter of all terms where that is more.
const LOST_MAX: usize = 1 << 15;

/// Losses that are forgotten with a change: no fewer than it adds, which is what a kind has fields and [`LABELS_MAX`] labels, so that
/// they become fewer, and some ten microseconds of the request that brings the index up.
const FORGOTTEN_MAX: usize = 2 * LABELS_MAX;

/// Paths that are looked at first to find the narrowest of several terms.
const COMPARED_FIRST: usize = 64;

/// A field with a value, or a label with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Term(u64);

/// A selectable field of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    /// Its place in objects that were stored without names of fields.
    pub(super) place: usize,
}

/// Where the objects that have a term are filed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filed {
    term: Term,
    is_label: bool,
}

/// A path under a term.
type Entry = (Term, Arc<str>);

/// The end of an entry: its object lost the term.
#[derive(Debug)]
struct Loss {
    revision: Revision,
    time_ms: u64,
    entry: Entry,
}

/// The index of one collection.
#[derive(Debug)]
pub(super) struct Terms {
    source: Arc<str>,
    fields: Arc<[Field]>,
    entries: BTreeSet<Entry>,
    /// The entries whose objects do not have the term any more, with the revision that took it.
    lost: HashMap<Entry, Revision>,
    /// The same in order, with those that objects have got back.
    losses: VecDeque<Loss>,
    floor: Revision,
    /// Tells this value from one that was derived anew.
    origin: Arc<()>,
}

impl Term {
    /// Of objects that [`has_many_labels`].
    const CROWDED: Term = Term(0);

    pub(super) fn field(name: &str, value: &str) -> Term {
        Term::of("field", name, value)
    }

    pub(super) fn label(key: &str, value: &str) -> Term {
        Term::of("label", key, value)
    }

    fn of(sort: &str, name: &str, value: &str) -> Term {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Term(KEYS.hash_one((sort, name, value)))
    }
}

/// Whether an object has too many labels, or too many for its size, to be filed by each.
pub(super) fn has_many_labels(object: &Object) -> bool {
    object.index.labels.len() > LABELS_MAX.min(object.json.len() / BYTES_PER_LABEL)
}

impl Filed {
    /// Under the term, all of them.
    pub(super) fn certain(term: Term) -> Filed {
        Filed { term, is_label: false }
    }

    /// Under the term, or among those with many labels.
    pub(super) fn or_crowded(term: Term) -> Filed {
        Filed { term, is_label: true }
    }

    fn terms(self) -> impl Iterator<Item = Term> {
        std::iter::once(self.term).chain(self.is_label.then_some(Term::CROWDED))
    }
}

impl Terms {
    pub(super) fn new(source: Arc<str>, fields: Arc<[Field]>) -> Self {
        Terms {
            source,
            fields,
            entries: BTreeSet::new(),
            lost: HashMap::new(),
            losses: VecDeque::new(),
            floor: Revision(0),
            origin: Arc::default(),
        }
    }

    /// The one of `required` with the fewest paths in a namespace, and the origin of this value. Where all have more than
    /// `enough`, the first of them. `None`: the index does not reach back to `revision`.
    pub(super) fn narrowest(
        &self,
        required: &[Filed],
        (namespace, enough): (&str, usize),
        revision: Revision,
    ) -> Option<(Filed, Arc<()>)> {
        let first = *required.first().filter(|_| self.floor <= revision)?;
        let mut compared = COMPARED_FIRST;
        while required.len() > 1 && compared <= enough {
            for filed in required {
                let counts = filed.terms().map(|term| self.range(term, namespace, "").take(compared).count());
                if counts.sum::<usize>() < compared {
                    return Some((*filed, self.origin.clone()));
                }
            }
            compared *= 8;
        }
        Some((first, self.origin.clone()))
    }

    /// The first `max` paths of `namespace` behind `after`, in order. `None`: this is another value than that of `origin`, or
    /// does not reach back to `revision`.
    pub(super) fn paths(
        &self,
        filed: Filed,
        (namespace, after, max): (&str, &str, usize),
        (origin, revision): (&Arc<()>, Revision),
    ) -> Option<Vec<Arc<str>>> {
        if self.floor > revision || !Arc::ptr_eq(origin, &self.origin) {
            return None;
        }
        let of = |term| self.range(term, namespace, after).take(max).cloned();
        let mut paths: Vec<Arc<str>> = filed.terms().flat_map(of).collect();
        if filed.is_label {
            paths.sort_unstable();
            paths.dedup();
            paths.truncate(max);
        }
        Some(paths)
    }

    /// The paths of `namespace` under `term` behind `after`, in order.
    fn range<'a>(
        &'a self,
        term: Term,
        namespace: &str,
        after: &str,
    ) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        // '0' is the character after '/'.
        let [first, end] = ['/', '0'].map(|separator| format!("{namespace}{separator}"));
        let from: Bound<Entry> = match namespace.is_empty() || after > first.as_str() {
            true => Bound::Excluded((term, after.into())),
            false => Bound::Included((term, first.into())),
        };
        let to: Bound<Entry> = match namespace.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Excluded((term, end.as_str().into())),
        };
        // A path behind the namespace leads nowhere.
        let is_before = namespace.is_empty() || after < end.as_str();
        let range = is_before.then(|| self.entries.range::<Entry, _>((from, to))).into_iter().flatten();
        range.take_while(move |(of, _)| *of == term).map(|(_, path)| path)
    }

    /// The terms of an object, sorted.
    fn terms_of(&self, object: Option<&Object>) -> Vec<Term> {
        let Some(object) = object else { return Vec::new() };
        let index = &object.index;
        let values =
            self.fields.iter().map(|field| (&*field.name, index.fields.value(&field.name, field.place)));
        let fields =
            values.filter(|(_, value)| !value.is_empty()).map(|(name, value)| Term::field(name, value));
        let mut terms: Vec<Term> = fields.collect();
        match has_many_labels(object) {
            false => terms.extend(index.labels.iter().map(|(key, value)| Term::label(key, value))),
            true => terms.push(Term::CROWDED),
        }
        terms.sort_unstable();
        terms.dedup();
        terms
    }

    fn gain(&mut self, entry: Entry) {
        self.lost.remove(&entry);
        self.entries.insert(entry);
    }

    fn lose(&mut self, entry: Entry, change: &Change) {
        #[cfg(any(test, feature = "simulation"))]
        if super::planted::has(super::IndexBug::ForgetsLostTerms) {
            self.entries.remove(&entry);
            return;
        }
        // There already, unless the value is being derived.
        self.entries.insert(entry.clone());
        self.lost.insert(entry.clone(), change.revision);
        self.losses.push_back(Loss { revision: change.revision, time_ms: change.time_ms, entry });
    }

    /// Forgets losses that are too old at `now_ms`, or too many: [`FORGOTTEN_MAX`] at most.
    fn forget(&mut self, now_ms: u64) {
        let kept_max = LOST_MAX.max(self.entries.len() / 4);
        let is_full = |count: usize| count > kept_max;
        let is_due = |loss: &Loss, count| is_full(count) || loss.time_ms.saturating_add(KEPT_MS) < now_ms;
        for _ in 0..FORGOTTEN_MAX {
            if !self.losses.front().is_some_and(|loss| is_due(loss, self.losses.len())) {
                return;
            }
            let Some(Loss { revision, entry, .. }) = self.losses.pop_front() else { return };
            self.floor = self.floor.max(revision);
            // The object may have got the term back, and lost it again later.
            if self.lost.get(&entry) == Some(&revision) {
                self.lost.remove(&entry);
                self.entries.remove(&entry);
            }
            shrink(&mut self.lost);
            shrink(&mut self.losses);
        }
    }
}

impl Derived for Terms {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        let Change { old, new, path, .. } = change;
        let is_alike = old.as_ref().zip(new.as_ref()).is_some_and(|(old, new)| {
            let are_filed = has_many_labels(old) == has_many_labels(new);
            are_filed && old.index.labels == new.index.labels && old.index.fields == new.index.fields
        });
        if !is_alike {
            let [old, new] = [old, new].map(|object| self.terms_of(object.as_deref()));
            let is_in = |terms: &[Term], term: &Term| terms.binary_search(term).is_ok();
            // All entries of an object share one text, though each change comes with its own.
            let kept = old.iter().filter(|term| is_in(&new, term)).map(|term| (*term, path.clone()));
            let known = kept.take(1).find_map(|kept| self.entries.get(&kept));
            let path = known.map_or(path, |(_, path)| path).clone();
            #[cfg(any(test, feature = "simulation"))]
            let filed: &[Term] =
                match super::planted::has(super::IndexBug::FilesNewObjectsOnly) && change.old.is_some() {
                    true => &[],
                    false => new.as_slice(),
                };
            #[cfg(not(any(test, feature = "simulation")))]
            let filed: &[Term] = new.as_slice();
            for term in filed.iter().filter(|term| !is_in(&old, term)) {
                self.gain((*term, path.clone()));
            }
            for term in old.iter().filter(|term| !is_in(&new, term)) {
                self.lose((*term, path.clone()), change);
            }
        }
        self.forget(change.time_ms);
    }

    fn rebuild(&mut self, state: &State) {
        let collection = state.collection(&self.source);
        *self = Terms::new(self.source.clone(), self.fields.clone());
        let mut entries = Vec::new();
        for (path, object) in collection.range_from("") {
            entries.extend(self.terms_of(Some(object)).into_iter().map(|term| (term, path.clone())));
        }
        // Made of sorted entries the set takes half the memory.
        self.entries = entries.into_iter().collect();
        self.floor = collection.floor();
        #[cfg(any(test, feature = "simulation"))]
        if super::planted::has(super::IndexBug::ReachesTooFar) {
            self.floor = Revision(0);
        }
        let source = self.source.clone();
        let changes = collection.changes_after(collection.floor()).into_iter().flatten();
        changes.for_each(|change| self.change(&source, change));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use orch_raft::{Fields, Index, Labels};

    use super::*;

    /// Bytes of an entry in the set, whose nodes are half full at least, with a tenth for the nodes above.
    const ENTRY_BYTES: usize = size_of::<Entry>() * 11 / 6 * 11 / 10;

    /// The shortest object with so many labels that the server stores, with the owner of the labels.
    fn object(labels: usize) -> Object {
        let pairs: Vec<(String, &str)> = (0..labels).map(|at| (format!("{at:x}"), "")).collect();
        let text: usize = pairs.iter().map(|(key, _)| 2 * key.len() + r#""":"","f:":{},"#.len()).sum();
        let index = Index {
            labels: Labels::new(pairs),
            fields: Fields::new([("spec.nodeName", "n"), ("status.phase", "p")]),
            ..Index::default()
        };
        let (revision, json) = (Revision(2), bytes::Bytes::from(vec![b' '; 420 + text]));
        let protobuf = OnceLock::new();
        Object { revision, created: revision, written_ms: 0, json, revision_at: 0, index, protobuf }
    }

    #[test]
    fn an_object_takes_about_its_stored_bytes() {
        let field = |(place, name): (usize, &str)| Field { name: name.into(), place };
        let fields = ["spec.nodeName", "status.phase"].into_iter().enumerate().map(field);
        let terms = Terms::new("pods".into(), fields.collect());
        const { assert!(ENTRY_BYTES <= BYTES_PER_LABEL) }
        let mut most = 0;
        for labels in (0..2 * LABELS_MAX).chain([100_000]) {
            let object = object(labels);
            let filed = terms.terms_of(Some(&object)).len();
            assert_eq!(filed, 2 + if has_many_labels(&object) { 1 } else { labels }, "{labels} labels");
            let percent = filed * ENTRY_BYTES * 100 / object.json.len();
            assert!(percent <= 125, "{labels} labels: {percent}%");
            most = most.max(filed);
        }
        assert!(most >= 12, "{most}: labels of short objects are filed");
    }

    #[test]
    fn a_term_that_an_object_has_lost_is_kept_for_a_while() {
        let mut terms = Terms::new("pods".into(), Arc::new([]));
        let change = |revision, time_ms| Change {
            revision: Revision(revision),
            time_ms,
            path: "n/p".into(),
            old: None,
            new: None,
        };
        let entry: Entry = (Term::label("a", "b"), "n/p".into());
        terms.gain(entry.clone());
        terms.lose(entry.clone(), &change(5, 1_000));
        terms.gain(entry.clone());
        terms.lose(entry.clone(), &change(7, 2_000));
        terms.forget(1_001 + KEPT_MS);
        assert_eq!((terms.floor, terms.entries.len()), (Revision(5), 1), "it had the term at revision 6");
        terms.forget(2_001 + KEPT_MS);
        assert_eq!((terms.floor, terms.entries.len(), terms.lost.len()), (Revision(7), 0, 0));
        terms.gain(entry.clone());
        for at in 0..u64::try_from(LOST_MAX).unwrap() + 10 {
            terms.lose(entry.clone(), &change(8 + at, 3_000));
        }
        terms.forget(3_000);
        assert_eq!((terms.floor, terms.losses.len()), (Revision(17), LOST_MAX));
    }
}
