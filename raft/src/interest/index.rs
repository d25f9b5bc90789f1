//! The watchers of one resource by their interests.
//!
//! Owns the filing and the search: a change costs a look-up for each kind of interest that is there, whatever the number of
//! watchers. It knows watchers as numbers only, and of a change the path and both versions' indexes; objects' bytes are
//! never read. A crowd, many watchers under one interest, is found once for all changes up to a revision, and not again for
//! each of them: its watchers are awake then.
//!
//! Invariant: no empty entry is kept, so that the index is as large as the interests of the watchers there are.

use std::collections::{BTreeMap, BTreeSet};

use super::Interest;
use crate::key::{ObjectPath, Revision};
use crate::object::SharedObject;
use crate::state::Change;

/// Watchers under one interest.
#[derive(Debug, Default)]
struct Members {
    numbers: BTreeSet<u64>,
    /// All changes up to this revision were found for all of them.
    announced: Revision,
}

/// Watchers by one text of their interests.
type ByText = BTreeMap<Box<str>, Members>;

/// Watchers of one value, in every namespace and in one.
#[derive(Debug, Default)]
struct OfValue {
    anywhere: Members,
    namespaces: ByText,
}

/// Watchers by the value of a field or of a label.
type ByValue = BTreeMap<Box<str>, OfValue>;

/// Watchers by interest.
#[derive(Debug, Default)]
pub(super) struct Index {
    everything: Members,
    objects: ByText,
    names: ByText,
    namespaces: ByText,
    /// By name and position of the field, then by value. As many as the kind has selectable fields, at most.
    fields: BTreeMap<(Box<str>, usize), ByValue>,
    /// By key, then by value.
    labels: BTreeMap<Box<str>, ByValue>,
}

/// The watchers that changes concern, and the work of finding them.
#[derive(Debug)]
pub(super) struct Found {
    /// Newest revision of the changes.
    newest: Revision,
    /// Number of members from which on they are found for all changes up to `newest` at once.
    crowd_min: usize,
    /// Number of a watcher, and the last change that may concern it. One may be there more than once.
    pub watchers: Vec<(u64, Revision)>,
    /// Look-ups in the index.
    pub lookups: usize,
}

impl Found {
    /// Nothing found yet of changes up to `newest`.
    pub(super) fn new(newest: Revision, crowd_min: usize) -> Found {
        Found { newest, crowd_min, watchers: Vec::new(), lookups: 0 }
    }
}

impl Members {
    fn file(&mut self, number: u64) -> Revision {
        self.numbers.insert(number);
        self.announced
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Adds all of them to `found` for a change at `revision`.
    fn add_to(&mut self, revision: Revision, found: &mut Found) {
        if revision <= self.announced {
            return;
        }
        let is_crowd = self.numbers.len() >= found.crowd_min;
        let last = if is_crowd { found.newest } else { revision };
        if is_crowd {
            self.announced = last;
        }
        found.watchers.extend(self.numbers.iter().map(|number| (*number, last)));
    }
}

impl OfValue {
    fn is_empty(&self) -> bool {
        self.anywhere.is_empty() && self.namespaces.is_empty()
    }
}

impl Index {
    /// Files the watcher `number`. Changes up to the result were found for its interest, perhaps beyond what is walked.
    pub(super) fn file(&mut self, interest: &Interest, number: u64) -> Revision {
        match interest {
            Interest::Everything => self.everything.file(number),
            Interest::Object(path) => file(&mut self.objects, path, number),
            Interest::Name(name) => file(&mut self.names, name, number),
            Interest::Namespace(namespace) => file(&mut self.namespaces, namespace, number),
            Interest::Field { name, place, value, namespace, .. } => {
                let by_value = self.fields.entry((name.clone(), *place)).or_default();
                file_value(by_value, value, namespace.as_deref(), number)
            }
            Interest::Label { key, value, namespace } => {
                let by_value = self.labels.entry(key.clone()).or_default();
                file_value(by_value, value, namespace.as_deref(), number)
            }
        }
    }

    /// Takes away the watcher `number`, which was filed under `interest`.
    pub(super) fn unfile(&mut self, interest: &Interest, number: u64) {
        match interest {
            Interest::Everything => drop(self.everything.numbers.remove(&number)),
            Interest::Object(path) => take(&mut self.objects, path, number),
            Interest::Name(name) => take(&mut self.names, name, number),
            Interest::Namespace(namespace) => take(&mut self.namespaces, namespace, number),
            Interest::Field { name, place, value, namespace, .. } => {
                let field = (name.clone(), *place);
                take_value(&mut self.fields, &field, (value, namespace.as_deref()), number);
            }
            Interest::Label { key, value, namespace } => {
                take_value(&mut self.labels, key, (value, namespace.as_deref()), number);
            }
        }
    }

    /// Whether no watcher is filed.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.everything.is_empty() && !self.has_narrow()
    }

    /// Whether any watcher has a narrower interest than everything.
    pub(super) fn has_narrow(&self) -> bool {
        let by_text = [&self.objects, &self.names, &self.namespaces];
        by_text.into_iter().any(|by_text| !by_text.is_empty())
            || !self.fields.is_empty()
            || !self.labels.is_empty()
    }

    /// The watchers of everything, whom all changes up to `newest` concern; none where they were told so. `walked`: all
    /// changes up to this revision were found for everybody.
    pub(super) fn of_everything(&mut self, walked: Revision, newest: Revision) -> (Revision, &BTreeSet<u64>) {
        const NOBODY: &BTreeSet<u64> = &BTreeSet::new();
        let known = self.everything.announced.max(walked);
        if newest <= known {
            return (known, NOBODY);
        }
        self.everything.announced = newest;
        (known, &self.everything.numbers)
    }

    /// Adds the watchers that `change` concerns to `found`, without those of every change.
    pub(super) fn concerned(&mut self, change: &Change, found: &mut Found) {
        let (namespace, name) = ObjectPath::of(&change.path).parts();
        add(&mut self.objects, &change.path, change, found);
        add(&mut self.names, name, change, found);
        // Objects of cluster scope are in the empty namespace: a selection may demand that.
        add(&mut self.namespaces, namespace, change, found);
        let new = change.new.as_ref();
        // Most changes leave fields and labels alone.
        let is_alike = |old: &&SharedObject| {
            new.is_some_and(|new| {
                old.index.fields == new.index.fields && old.index.labels == new.index.labels
            })
        };
        let old = change.old.as_ref().filter(|old| !is_alike(old));
        #[cfg(any(test, feature = "simulation"))]
        let old = old.filter(|_| new.is_none() || !super::planted::has(super::HubBug::ForgetsOldVersion));
        for object in [old, new].into_iter().flatten() {
            self.concerned_by_content(object, (change, namespace), found);
        }
    }

    fn concerned_by_content(&mut self, object: &SharedObject, of: (&Change, &str), found: &mut Found) {
        for ((field, place), by_value) in &mut self.fields {
            #[cfg(any(test, feature = "simulation"))]
            let field = match super::planted::has(super::HubBug::TrustsPlaces) {
                true => object.index.fields.name_at(*place),
                false => field,
            };
            add_value(by_value, object.index.fields.value(field, *place), of, found);
        }
        // A client chooses how many labels an object has, and others how many labels are asked for: the fewer are walked.
        let labels = &object.index.labels;
        if self.labels.len() <= labels.len() {
            found.lookups += self.labels.len();
            for (key, by_value) in &mut self.labels {
                if let Some(value) = labels.find(key) {
                    add_value(by_value, value, of, found);
                }
            }
        } else {
            found.lookups += labels.len();
            for (key, value) in labels.iter() {
                if let Some(by_value) = self.labels.get_mut(key) {
                    add_value(by_value, value, of, found);
                }
            }
        }
    }
}

fn file(by_text: &mut ByText, text: &str, number: u64) -> Revision {
    match by_text.get_mut(text) {
        Some(members) => members.file(number),
        None => by_text.entry(text.into()).or_default().file(number),
    }
}

fn file_value(by_value: &mut ByValue, value: &str, namespace: Option<&str>, number: u64) -> Revision {
    let of_value = match by_value.contains_key(value) {
        true => by_value.get_mut(value),
        false => Some(by_value.entry(value.into()).or_default()),
    };
    of_value.map_or(Revision(0), |of_value| match namespace {
        None => of_value.anywhere.file(number),
        Some(namespace) => file(&mut of_value.namespaces, namespace, number),
    })
}

fn add(by_text: &mut ByText, text: &str, change: &Change, found: &mut Found) {
    found.lookups += 1;
    if let Some(members) = by_text.get_mut(text) {
        members.add_to(change.revision, found);
    }
}

fn add_value(by_value: &mut ByValue, value: &str, (change, namespace): (&Change, &str), found: &mut Found) {
    found.lookups += 1;
    if let Some(of_value) = by_value.get_mut(value) {
        of_value.anywhere.add_to(change.revision, found);
        add(&mut of_value.namespaces, namespace, change, found);
    }
}

fn take(by_text: &mut ByText, text: &str, number: u64) {
    if let Some(members) = by_text.get_mut(text) {
        members.numbers.remove(&number);
        if members.is_empty() {
            by_text.remove(text);
        }
    }
}

fn take_value<K: Ord>(
    by_key: &mut BTreeMap<K, ByValue>,
    key: &K,
    (value, namespace): (&str, Option<&str>),
    number: u64,
) {
    let Some(by_value) = by_key.get_mut(key) else { return };
    if let Some(of_value) = by_value.get_mut(value) {
        match namespace {
            None => drop(of_value.anywhere.numbers.remove(&number)),
            Some(namespace) => take(&mut of_value.namespaces, namespace, number),
        }
        if of_value.is_empty() {
            by_value.remove(value);
        }
    }
    if by_value.is_empty() {
        by_key.remove(key);
    }
}
