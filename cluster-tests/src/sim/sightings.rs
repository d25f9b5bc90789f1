//! What watches and lists showed, and whether that is what happened.
//!
//! A watch promises every change after its start once, in revision order, or an end; resumed on another member it goes
//! on as if nothing had been. A list at a revision shows exactly what was there then. Both are held against the
//! [`Ledger`]. A filtered watch must show what the unfiltered one shows, filtered.

use std::sync::Arc;

use orch_raft::{Change, Revision};

use super::history::Version;
use super::ledger::{Ledger, Noted};

/// What a watch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Everything.
    All,
    /// Objects that bear the mark.
    Marked,
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
    /// The object: as it is, or as it last was for [`Kind::Deleted`].
    pub version: Version,
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

/// One list at a revision.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Of which resource.
    pub resource: Arc<str>,
    /// As of which revision.
    pub revision: Revision,
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
    /// A list.
    #[error("list of {resource} at revision {revision} showed {shown}, should be {expected}")]
    List {
        /// Of which resource.
        resource: Arc<str>,
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
            Filter::Path(wanted) => &**wanted == path,
        })
    }

    /// The event that a change is to this watch, if it is one: what a server does.
    pub fn sight(&self, change: &Change) -> Option<Sighting> {
        let version = |object: &Option<Arc<orch_raft::Object>>| object.as_deref().and_then(Version::of);
        let noted = Noted { path: change.path.clone(), old: version(&change.old), new: version(&change.new) };
        self.expect(change.revision, &noted)
    }

    fn expect(&self, revision: Revision, noted: &Noted) -> Option<Sighting> {
        let (old, new) = (self.admits(&noted.path, noted.old), self.admits(&noted.path, noted.new));
        let (kind, version) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (Kind::Added, new),
            (Some(_), Some(new)) => (Kind::Modified, new),
            (Some(old), None) => (Kind::Deleted, old),
        };
        Some(Sighting { revision, path: noted.path.clone(), kind, version })
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
    /// It showed something else, or in another order than that of paths.
    pub fn check(&self, ledger: &Ledger) -> Result<bool, Mistaken> {
        let Some(model) = ledger.model_at(self.revision) else { return Ok(false) };
        let here = model.into_iter().filter(|((resource, _), _)| *resource == self.resource);
        let expected: Vec<(Arc<str>, Version)> = here.map(|((_, path), version)| (path, version)).collect();
        if expected == self.items {
            return Ok(true);
        }
        Err(Mistaken::List {
            resource: self.resource.clone(),
            revision: self.revision,
            shown: format!("{:?}", self.items),
            expected: format!("{expected:?}"),
        })
    }
}

#[cfg(test)]
mod tests;
