//! The watchers of one resource by their interests.
//!
//! Owns the filing and the search: a change costs a look-up for each kind of interest that somebody has, whatever the number
//! of watchers. It knows watchers as numbers only, and of a change the path and both versions' indexes; objects' bytes are
//! never read.
//!
//! Invariant: no empty entry is kept, so that the index is as large as the interests of the watchers there are.

use std::collections::{BTreeMap, BTreeSet};

use super::Interest;
use crate::key::ObjectPath;
use crate::object::SharedObject;
use crate::state::Change;

/// Numbers of watchers.
type Members = BTreeSet<u64>;

/// Watchers by one text of their interests.
type ByText = BTreeMap<Box<str>, Members>;

/// Watchers by interest.
#[derive(Debug, Default)]
pub(super) struct Index {
    everything: Members,
    objects: ByText,
    names: ByText,
    namespaces: ByText,
    /// By name and position of the field, then by value. As many as the kind has selectable fields, at most.
    fields: BTreeMap<(Box<str>, usize), ByText>,
    /// By key, then by value.
    labels: BTreeMap<Box<str>, ByText>,
}

impl Index {
    /// Files the watcher `number`.
    pub(super) fn file(&mut self, interest: &Interest, number: u64) {
        let (by_text, text) = match interest {
            Interest::Everything => {
                self.everything.insert(number);
                return;
            }
            Interest::Object(path) => (&mut self.objects, path),
            Interest::Name(name) => (&mut self.names, name),
            Interest::Namespace(namespace) => (&mut self.namespaces, namespace),
            Interest::Field { name, place, value } => {
                (self.fields.entry((name.clone(), *place)).or_default(), value)
            }
            Interest::Label { key, value } => (self.labels.entry(key.clone()).or_default(), value),
        };
        match by_text.get_mut(text) {
            Some(members) => drop(members.insert(number)),
            None => drop(by_text.insert(text.clone(), Members::from([number]))),
        }
    }

    /// Takes away the watcher `number`, which was filed under `interest`.
    pub(super) fn unfile(&mut self, interest: &Interest, number: u64) {
        match interest {
            Interest::Everything => drop(self.everything.remove(&number)),
            Interest::Object(path) => take(&mut self.objects, path, number),
            Interest::Name(name) => take(&mut self.names, name, number),
            Interest::Namespace(namespace) => take(&mut self.namespaces, namespace, number),
            Interest::Field { name, place, value } => {
                take_below(&mut self.fields, &(name.clone(), *place), value, number);
            }
            Interest::Label { key, value } => take_below(&mut self.labels, key, value, number),
        }
    }

    /// The watchers that every change concerns.
    pub(super) fn of_everything(&self) -> &Members {
        &self.everything
    }

    /// Whether any watcher has a narrower interest than everything.
    pub(super) fn has_narrow(&self) -> bool {
        let by_text = [&self.objects, &self.names, &self.namespaces];
        by_text.into_iter().any(|by_text| !by_text.is_empty())
            || !self.fields.is_empty()
            || !self.labels.is_empty()
    }

    /// Adds the watchers that `change` concerns to `found`, without those of every change. One may come more than once.
    pub(super) fn concerned(&self, change: &Change, found: &mut Vec<u64>) {
        let (namespace, name) = ObjectPath::of(&change.path).parts();
        add(&self.objects, &change.path, found);
        add(&self.names, name, found);
        // Objects of cluster scope are in the empty namespace: a selection may demand that.
        add(&self.namespaces, namespace, found);
        #[cfg(any(test, feature = "simulation"))]
        if super::planted::has(super::HubBug::ForgetsOldVersion)
            && let Some(new) = &change.new
        {
            return self.concerned_by_content(new, found);
        }
        for object in [&change.old, &change.new].into_iter().flatten() {
            self.concerned_by_content(object, found);
        }
    }

    fn concerned_by_content(&self, object: &SharedObject, found: &mut Vec<u64>) {
        for ((field, place), by_value) in &self.fields {
            add(by_value, object.index.fields.value(field, *place), found);
        }
        // A client chooses how many labels an object has, and others how many labels are asked for: the fewer are walked.
        let labels = &object.index.labels;
        if self.labels.len() <= labels.len() {
            for (key, by_value) in &self.labels {
                if let Some(value) = labels.find(key) {
                    add(by_value, value, found);
                }
            }
        } else {
            for (key, value) in labels.iter() {
                if let Some(by_value) = self.labels.get(key) {
                    add(by_value, value, found);
                }
            }
        }
    }
}

fn add(by_text: &ByText, text: &str, found: &mut Vec<u64>) {
    if let Some(members) = by_text.get(text) {
        found.extend(members);
    }
}

fn take(by_text: &mut ByText, text: &str, number: u64) {
    if let Some(members) = by_text.get_mut(text) {
        members.remove(&number);
        if members.is_empty() {
            by_text.remove(text);
        }
    }
}

fn take_below<K: Ord>(by_key: &mut BTreeMap<K, ByText>, key: &K, value: &str, number: u64) {
    if let Some(by_value) = by_key.get_mut(key) {
        take(by_value, value, number);
        if by_value.is_empty() {
            by_key.remove(key);
        }
    }
}
