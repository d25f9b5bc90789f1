//! Checks of watches and lists against the ledger.
//!
//! A watch promises every change after its start once, in revision order, or an end; resumed on another member it
//! continues without a gap. A list at a revision shows exactly the objects at that revision. Both are checked against
//! the [`Ledger`]. A filtered watch must show the events of the unfiltered one, filtered.

use std::sync::Arc;

use orch_api::index::Way;
use orch_raft::Revision;

use super::history::{Tag, Version};
use super::ledger::{Ledger, Noted, Replay};

/// The filter of a watch or list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All objects of the resource.
    All,
    /// Objects with the label `mark`, whatever its value.
    Marked,
    /// The same objects, by the value of the label.
    Labelled,
    /// The same objects, by the value of a selectable field.
    Numbered,
    /// The objects of a namespace.
    Namespace(Arc<str>),
    /// One object.
    Path(Arc<str>),
    /// Objects of a name, in every namespace.
    Name(Arc<str>),
}

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ADDED: the object came into view.
    Added,
    /// MODIFIED: it changed and stays in view.
    Modified,
    /// DELETED: it left the view.
    Deleted,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Revision of the change.
    pub revision: Revision,
    /// Path of the object.
    pub path: Arc<str>,
    /// Type of the event.
    pub kind: Kind,
    /// Tag of the write that made the object in the event; for [`Kind::Deleted`], of its last version.
    pub tag: Tag,
}

/// One watch, over all members that served it.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Number of the client.
    pub client: u64,
    /// The resource.
    pub resource: Arc<str>,
    /// Its filter.
    pub filter: Filter,
    /// Revision after which it started.
    pub start: Revision,
    /// Revision up to which it promised all changes.
    pub through: Revision,
    /// Number of times it was resumed on another member.
    pub resumed: u32,
    /// Its events.
    pub sightings: Vec<Sighting>,
}

/// The objects at a revision, as a list or an informer's copy showed them.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The resource.
    pub resource: Arc<str>,
    /// Its filter.
    pub filter: Filter,
    /// Its revision.
    pub revision: Revision,
    /// Revision that it must have reached: a client knew it before the request.
    pub not_before: Revision,
    /// Its items: paths and versions.
    pub items: Vec<(Arc<str>, Version)>,
    /// [`Way::Index`]: an index proposed items of a page of it. Of copies and initial events nothing is known.
    pub way: Way,
}

/// A watch or list that contradicts the ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistaken {
    /// An event of a watch is wrong.
    #[error(
        "watch of client {client} on {resource} ({filter:?}) from {start} through {through}, resumed {resumed} times: \
         event {position} is {shown}, should be {expected}"
    )]
    Watch {
        /// Number of the client.
        client: u64,
        /// The resource.
        resource: Arc<str>,
        /// Its filter.
        filter: Filter,
        /// Revision after which it started.
        start: Revision,
        /// Revision up to which it promised all changes.
        through: Revision,
        /// Number of times it was resumed.
        resumed: u32,
        /// Index of the first wrong event.
        position: usize,
        /// The event, printed.
        shown: String,
        /// The expected event, printed.
        expected: String,
    },
    /// A list shows an older revision than was known before the request.
    #[error("list of {resource} is as of revision {revision}, but {acknowledged} had been answered before")]
    Stale {
        /// The resource.
        resource: Arc<str>,
        /// Its revision.
        revision: Revision,
        /// The newest revision known before the request.
        acknowledged: Revision,
    },
    /// The items of a list are wrong.
    #[error("list of {resource} ({filter:?}) at revision {revision} showed {shown}, should be {expected}")]
    List {
        /// The resource.
        resource: Arc<str>,
        /// Its filter.
        filter: Filter,
        /// Its revision.
        revision: Revision,
        /// Its items, printed.
        shown: String,
        /// The expected items, printed.
        expected: String,
    },
}

impl Filter {
    fn admits(&self, path: &str, version: Option<Version>) -> Option<Version> {
        version.filter(|version| match self {
            Filter::All => true,
            Filter::Marked | Filter::Labelled | Filter::Numbered => version.marked,
            Filter::Namespace(wanted) => path.split_once('/').is_some_and(|(found, _)| found == &**wanted),
            Filter::Path(wanted) => &**wanted == path,
            Filter::Name(wanted) => path.split_once('/').is_some_and(|(_, found)| found == &**wanted),
        })
    }

    /// The event of a change in a watch with this filter, if there is one.
    pub fn expect(&self, revision: Revision, noted: &Noted) -> Option<Sighting> {
        let (old, new) = (self.admits(&noted.path, noted.old), self.admits(&noted.path, noted.new));
        let (kind, version) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (Kind::Added, new),
            (Some(_), Some(new)) => (Kind::Modified, new),
            (Some(old), None) => (Kind::Deleted, old),
        };
        Some(Sighting { revision, path: noted.path.clone(), kind, tag: version.tag })
    }
}

impl Watched {
    /// Checks the events against the ledger; `false` if it lacks a needed revision.
    ///
    /// # Errors
    /// The first event that is missing, repeated, out of order or wrong.
    pub fn check(&self, ledger: &Ledger) -> Result<bool, Mistaken> {
        let Some(changes) = ledger.changes(&self.resource, self.start, self.through) else {
            return Ok(false);
        };
        let expect = |(revision, noted): &(Revision, Noted)| self.filter.expect(*revision, noted);
        let expected: Vec<Sighting> = changes.iter().filter_map(expect).collect();
        if expected == self.sightings {
            return Ok(true);
        }
        let longest = expected.len().max(self.sightings.len());
        let wrong = (0..longest).find(|at| expected.get(*at) != self.sightings.get(*at)).unwrap_or(longest);
        let print =
            |list: &[Sighting]| list.get(wrong).map_or("nothing".to_owned(), |one| format!("{one:?}"));
        Err(Mistaken::Watch {
            client: self.client,
            resource: self.resource.clone(),
            filter: self.filter.clone(),
            start: self.start,
            through: self.through,
            resumed: self.resumed,
            position: wrong,
            shown: print(&self.sightings),
            expected: print(&expected),
        })
    }
}

impl Listed {
    /// Checks the list against the ledger; `false` if it lacks the revision.
    ///
    /// # Errors
    /// The items are wrong or not in order of paths, or the revision is too old.
    pub fn check(&self, replay: &mut Replay) -> Result<bool, Mistaken> {
        let Listed { resource, filter, revision, not_before, items, way: _ } = self;
        let resource = resource.clone();
        if revision < not_before {
            return Err(Mistaken::Stale { resource, revision: *revision, acknowledged: *not_before });
        }
        let Some(model) = replay.at(*revision) else { return Ok(false) };
        let from = (resource.clone(), Arc::from(""));
        let here = model.range(from..).take_while(|((found, _), _)| *found == resource);
        let here = here.filter(|((_, path), version)| filter.admits(path, Some(**version)).is_some());
        let expected: Vec<(Arc<str>, Version)> =
            here.map(|((_, path), version)| (path.clone(), *version)).collect();
        if expected == *items {
            return Ok(true);
        }
        let differs = |one: &[(Arc<str>, Version)], other: &[(Arc<str>, Version)]| {
            let only: Vec<_> = one.iter().filter(|item| !other.contains(item)).collect();
            format!("{} items, {only:?} beside the same", one.len())
        };
        Err(Mistaken::List {
            resource,
            filter: filter.clone(),
            revision: *revision,
            shown: differs(items, &expected),
            expected: differs(&expected, items),
        })
    }
}

#[cfg(test)]
mod tests;
