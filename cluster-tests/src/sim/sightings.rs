//! What watches and lists showed, and whether that is what happened.
//!
//! A watch promises every change after its start once, in revision order, or an end; resumed on another member it goes
//! on as if nothing had been. A list at a revision shows exactly what was there then. Both are held against the
//! [`Ledger`]. A filtered watch must show what the unfiltered one shows, filtered.

use std::sync::Arc;

use orch_raft::Revision;

use super::history::{Tag, Version};
use super::ledger::{Ledger, Noted, Replay};

/// What a watch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Everything.
    All,
    /// Objects that bear the mark.
    Marked,
    /// The objects of a namespace.
    Namespace(Arc<str>),
    /// One object.
    Path(Arc<str>),
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object came into view.
    Added,
    /// It changed and stays in view.
    Modified,
    /// It left the view.
    Deleted,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Of the change.
    pub revision: Revision,
    /// Which object.
    pub path: Arc<str>,
    /// What happened to the view.
    pub kind: Kind,
    /// The write that made the object shown: as it is, or as it last was for [`Kind::Deleted`].
    pub tag: Tag,
}

/// One watch, over all members that served it.
#[derive(Clone, Debug)]
pub struct Watched {
    /// By which client.
    pub client: u64,
    /// Of which resource.
    pub resource: Arc<str>,
    /// What it asked for.
    pub filter: Filter,
    /// It asked for what came after this.
    pub start: Revision,
    /// It was promised everything up to here.
    pub through: Revision,
    /// How often it went on with another member.
    pub resumed: u32,
    /// What it saw.
    pub sightings: Vec<Sighting>,
}

/// What there was at a revision, as a list or a cache fed by a watch showed it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Of which resource.
    pub resource: Arc<str>,
    /// What was asked for.
    pub filter: Filter,
    /// As of which revision.
    pub revision: Revision,
    /// It must show no older revision.
    pub not_before: Revision,
    /// What it showed.
    pub items: Vec<(Arc<str>, Version)>,
}

/// A watch or list that showed something else than what happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistaken {
    /// A watch.
    #[error(
        "watch of client {client} on {resource} ({filter:?}) from {start} through {through}, resumed {resumed} times: \
         event {position} is {shown}, should be {expected}"
    )]
    Watch {
        /// By which client.
        client: u64,
        /// Of which resource.
        resource: Arc<str>,
        /// What it asked for.
        filter: Filter,
        /// Its start.
        start: Revision,
        /// What it was promised.
        through: Revision,
        /// How often it was resumed.
        resumed: u32,
        /// Number of the first event that is wrong.
        position: usize,
        /// What it saw there, printed.
        shown: String,
        /// What it should have seen, printed.
        expected: String,
    },
    /// A list that shows an older state than was known when it was asked for.
    #[error("list of {resource} is as of revision {revision}, but {acknowledged} had been answered before")]
    Stale {
        /// Of which resource.
        resource: Arc<str>,
        /// As of which revision.
        revision: Revision,
        /// What was known.
        acknowledged: Revision,
    },
    /// A list.
    #[error("list of {resource} ({filter:?}) at revision {revision} showed {shown}, should be {expected}")]
    List {
        /// Of which resource.
        resource: Arc<str>,
        /// What was asked for.
        filter: Filter,
        /// As of which revision.
        revision: Revision,
        /// What it showed, printed.
        shown: String,
        /// What was there, printed.
        expected: String,
    },
}

impl Filter {
    fn admits(&self, path: &str, version: Option<Version>) -> Option<Version> {
        version.filter(|version| match self {
            Filter::All => true,
            Filter::Marked => version.marked,
            Filter::Namespace(wanted) => path.split_once('/').is_some_and(|(found, _)| found == &**wanted),
            Filter::Path(wanted) => &**wanted == path,
        })
    }

    /// The event that a change is to this watch, if it is one.
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
    /// Holds what was seen against what happened; `false` when the ledger does not know all of that.
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
    /// Holds the list against what was there; `false` when the ledger does not know that.
    ///
    /// # Errors
    /// It showed something else, or in another order than that of paths, or what was long past.
    pub fn check(&self, replay: &mut Replay) -> Result<bool, Mistaken> {
        let Listed { resource, filter, revision, not_before, items } = self;
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
