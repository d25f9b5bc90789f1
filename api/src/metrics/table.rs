//! The table of the series of requests, by what the requests ask for.
//!
//! Owns its keys, and their labels. A key is two pointers: a few hundred combinations of the program's own words, and the names of the resources,
//! are held once for all series that have them, since thousands of custom resources have some series each. A copy of the table, which is
//! made when a series is added, copies no text.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashSet};

use super::series::{LabelText, Series};
use crate::registry::Registry;

/// The program's own words about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Words {
    pub(super) subresource: &'static str,
    pub(super) verb: &'static str,
    pub(super) scope: &'static str,
    pub(super) dry_run: &'static str,
    pub(super) component: &'static str,
}

/// The names of a resource; empty for requests that ask for none.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) group: Box<str>,
    pub(super) version: Box<str>,
    pub(super) resource: Box<str>,
}

/// The key of a series.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
    pub(super) words: Words,
}

/// A series with its key.
#[derive(Debug)]
pub(super) struct Entry {
    place: Arc<Place>,
    words: Arc<Words>,
    pub(super) series: Series,
}

/// All series.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(HashSet<Keyed>);

/// An entry, which is found by its key.
#[derive(Clone, Debug)]
struct Keyed(Arc<Entry>);

impl Entry {
    fn key(&self) -> Key<'_> {
        let Place { group, version, resource } = &*self.place;
        Key { group, version, resource, words: *self.words }
    }

    /// The names of the resource.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The sub-resource.
    pub(super) fn subresource(&self) -> &'static str {
        self.words.subresource
    }

    /// The labels. Groups and plural names of resources need no escapes.
    pub(super) fn labels(&self) -> LabelText {
        let Place { group, version, resource } = &*self.place;
        let Words { subresource, verb, scope, dry_run, component } = *self.words;
        let sent = format!(
            "verb=\"{verb}\",group=\"{group}\",version=\"{version}\",resource=\"{resource}\",\
             subresource=\"{subresource}\",scope=\"{scope}\",component=\"{component}\""
        );
        LabelText::new(sent, dry_run)
    }

    /// Whether `registry` serves the resource of the series, if it is that of one: others have no version.
    fn is_served(&self, registry: &Registry) -> bool {
        let Place { group, version, resource } = &*self.place;
        version.is_empty() || registry.find(group, version, resource).is_some()
    }
}

impl PartialEq for Keyed {
    fn eq(&self, other: &Keyed) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Keyed {}

impl Hash for Keyed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl Equivalent<Keyed> for Key<'_> {
    fn equivalent(&self, keyed: &Keyed) -> bool {
        *self == keyed.0.key()
    }
}

impl Table {
    pub(super) fn find(&self, key: &Key<'_>) -> Option<&Arc<Entry>> {
        self.0.get(key).map(|keyed| &keyed.0)
    }

    /// The entry of `key`, which is made if it is not there.
    pub(super) fn insert(&mut self, key: &Key<'_>) -> Arc<Entry> {
        if let Some(entry) = self.find(key) {
            return entry.clone();
        }
        // once: a series is added once.
        let place = self.iter().find(|entry| {
            let Place { group, version, resource } = &*entry.place;
            (&**group, &**version, &**resource) == (key.group, key.version, key.resource)
        });
        let place = place.map_or_else(
            || {
                let [group, version, resource] = [key.group, key.version, key.resource].map(Box::from);
                Arc::new(Place { group, version, resource })
            },
            |entry| entry.place.clone(),
        );
        // once: as above.
        let words = self.iter().find(|entry| *entry.words == key.words);
        let words = words.map_or_else(|| Arc::new(key.words), |entry| entry.words.clone());
        let entry = Arc::new(Entry { place, words, series: Series::new() });
        self.0.insert(Keyed(entry.clone()));
        entry
    }

    /// Takes the series of resources away that `registry` does not serve.
    pub(super) fn retain_served(&mut self, registry: &Registry) {
        self.0.retain(|keyed| keyed.0.is_served(registry));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.iter().map(|keyed| &keyed.0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
