//! The definitions as this node has applied them, and the kinds that they declare.
//!
//! Owns which of them are served; what one declares is `declaration`'s.
//!
//! Of definitions whose statuses say the same kind of a group one is served: that which asked for the kind, and of these the oldest.
//!
//! Invariant: what is served is a function of the objects and records, whatever order they came in; of a definition that has no rival it
//! is one of its own object and record, and of whether a built-in kind has its place.
//! Invariant: no change is lost: those that were not made are told again, also after a panic of whoever was to make them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_schema::Schema;

use super::converter::Servers;
use super::declaration::{Basis, Declaration, KindPlace, Rank, Served, declare};
use super::{DEFINITIONS, RECORDS};
use crate::follow::{Builder, Derived};
use crate::registry::Kind;

/// The definitions of a cluster.
pub(super) struct Declared {
    basis: Basis,
    sources: [Arc<str>; 2],
    entries: BTreeMap<Arc<str>, Entry>,
    /// Names of the definitions that changed since what is served was noted.
    changed: BTreeSet<Arc<str>>,
    /// Names of those that are not served, because a built-in kind has their place.
    refused: BTreeSet<Arc<str>>,
    /// The definitions that say they have a kind, by that: one is served, the first.
    claims: BTreeMap<KindPlace, BTreeSet<Rank>>,
    /// The state that was read was found wrong: the next one is read with distrust.
    is_distrusted: bool,
}

/// One definition.
#[derive(Default)]
struct Entry {
    claim: Option<(KindPlace, Rank)>,
    object: Option<SharedObject>,
    record: Option<SharedObject>,
    served: Option<Served>,
    /// The served kinds were read from a wrong state: neither tables nor watches of them are kept, whatever their revisions say.
    is_wrong: bool,
}

/// The change from what was served to what is served now.
#[derive(Default)]
pub(super) struct Settled {
    /// Names in the store of the objects whose kinds are served no longer, or in another way.
    pub(super) gone: HashSet<Arc<str>>,
    /// Kinds that are served now, each in all its versions.
    pub(super) kinds: Vec<Vec<Kind>>,
    /// Names of the definitions of `kinds`.
    names: Vec<Arc<str>>,
    /// Of each definition that was looked at: its name, and the kind to be served; `None` for no kind.
    next: Vec<(Arc<str>, Option<Served>)>,
}

impl Settled {
    /// Whether the same is served as before.
    pub(super) fn is_nothing(&self) -> bool {
        self.gone.is_empty() && self.kinds.is_empty()
    }
}

impl Declared {
    /// No definition yet; kinds stand on the types of `base`.
    pub(super) fn new(base: Arc<Schema>, brand: &'static Brand, builder: Builder) -> Self {
        let (sources, changed, refused) = (super::sources(), BTreeSet::new(), BTreeSet::new());
        let (entries, claims, is_distrusted) = (BTreeMap::new(), BTreeMap::new(), false);
        let basis = Basis { schema: base, brand, builder, servers: None };
        Declared { basis, sources, entries, changed, refused, claims, is_distrusted }
    }

    /// The same, where conversion webhooks are called by `servers`.
    pub(super) fn with_servers(self, servers: Option<Servers>) -> Self {
        Declared { basis: Basis { servers, ..self.basis }, ..self }
    }

    /// Keeps nothing of what is served of the definitions that are others in the state that is read next: that of the last one
    /// was found wrong, and its revisions tell of other definitions.
    pub(super) fn distrust(&mut self) {
        self.is_distrusted = true;
    }

    /// The change to what is served now: the same until [`Declared::note_served`] is told that it was made.
    pub(super) fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        let mut looked: BTreeMap<Arc<str>, Option<Declaration>> = BTreeMap::new();
        let mut disputed = BTreeSet::new();
        for name in &self.changed {
            let Some(entry) = self.entries.get(name) else { continue };
            let declared = self.declare(name, entry);
            let claim = declared.as_ref().and_then(|declared| declared.claim.clone());
            let before = self
                .entries
                .get_mut(name)
                .and_then(|entry| std::mem::replace(&mut entry.claim, claim.clone()));
            if let Some((place, rank)) = before {
                remove_claim(&mut self.claims, &place, &rank);
                disputed.insert(place);
            }
            if let Some((place, rank)) = claim {
                self.claims.entry(place.clone()).or_default().insert(rank);
                disputed.insert(place);
            }
            looked.insert(name.clone(), declared);
        }
        let rivals = disputed.iter().filter_map(|place| self.claims.get(place)).flatten();
        for (_, _, name) in rivals {
            if !looked.contains_key(name)
                && let Some(entry) = self.entries.get(name)
            {
                looked.insert(name.clone(), self.declare(name, entry));
            }
        }
        looked.into_iter().for_each(|(name, declared)| self.settle_one(&name, declared, &mut settled));
        if !settled.gone.is_empty() {
            // One of the places that are free now may be theirs.
            let waiting = self.refused.difference(&self.changed);
            for name in waiting {
                let declared = self.entries.get(name).and_then(|entry| self.declare(name, entry));
                self.settle_one(name, declared, &mut settled);
            }
        }
        settled
    }

    /// The declaration of the definition called `name`, as if it had no rival.
    fn declare(&self, name: &Arc<str>, entry: &Entry) -> Option<Declaration> {
        let stored = (entry.object.as_ref()?, entry.record.as_ref()?);
        let before = entry.served.as_ref().filter(|_| !entry.is_wrong);
        declare(name, stored, before, &self.basis)
    }

    /// Whether no other definition comes before that of `claim`.
    fn is_first(&self, claim: Option<&(KindPlace, Rank)>) -> bool {
        claim.is_none_or(|(place, rank)| self.claims.get(place).and_then(BTreeSet::first) == Some(rank))
    }

    fn settle_one(&self, name: &Arc<str>, declared: Option<Declaration>, settled: &mut Settled) {
        let Some(entry) = self.entries.get(name) else { return };
        let declared = declared.filter(|declared| self.is_first(declared.claim.as_ref()));
        let (next, kinds) = match declared {
            Some(Declaration { served, kinds, .. }) => (Some(served), Some(kinds)),
            None => (None, None),
        };
        let is_same = match (&entry.served, &next) {
            (Some(before), Some(next)) => !entry.is_wrong && before.is_same(next),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            settled.gone.extend(entry.served.iter().map(|before| before.storage.clone()));
            if let Some(kinds) = kinds {
                settled.kinds.push(kinds);
                settled.names.push(name.clone());
            }
        }
        settled.next.push((name.clone(), next));
    }

    /// Notes that `settled` is served from now on, but for the kinds at the places `refused`, which other kinds have taken: these
    /// are tried again with each change that frees a place.
    pub(super) fn note_served(&mut self, settled: Settled, refused: Vec<usize>) {
        for (name, next) in settled.next {
            self.refused.remove(&name);
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            (entry.served, entry.is_wrong) = (next, false);
            if entry.object.is_none() && entry.record.is_none() {
                self.entries.remove(&name);
            }
        }
        for name in refused.into_iter().filter_map(|at| settled.names.get(at)) {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.served = None;
                self.refused.insert(name.clone());
            }
        }
        self.changed.clear();
    }

    fn note(&mut self, source: &Arc<str>, path: &Arc<str>, object: Option<&SharedObject>) {
        let entry = self.entries.entry(path.clone()).or_default();
        let place = if **source == *DEFINITIONS { &mut entry.object } else { &mut entry.record };
        *place = object.cloned();
        self.changed.insert(path.clone());
    }
}

impl Derived for Declared {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        self.note(source, &change.path, change.new.as_ref());
    }

    /// Definitions that are the same keep their tables and their watches, also where another state has taken the place of the one
    /// that they were read from.
    fn rebuild(&mut self, state: &State) {
        for source in self.sources.clone() {
            let collection = state.collection(&source);
            let known = self.entries.iter().filter(|(_, entry)| entry.of(&source).is_some());
            let gone: Vec<Arc<str>> = known
                .filter(|(name, _)| collection.get(name).is_none())
                .map(|(name, _)| name.clone())
                .collect();
            gone.iter().for_each(|name| self.note(&source, name, None));
            for (name, object) in collection.range_from("") {
                let before = self.entries.get(name).and_then(|entry| entry.of(&source));
                if before.is_none_or(|before| !is_same_object(before, object)) {
                    self.note(&source, name, Some(object));
                    let entry = self.entries.entry(name.clone()).or_default();
                    entry.is_wrong |= self.is_distrusted;
                }
            }
        }
        self.is_distrusted = false;
    }
}

fn remove_claim(claims: &mut BTreeMap<KindPlace, BTreeSet<Rank>>, place: &KindPlace, rank: &Rank) {
    let Some(ranks) = claims.get_mut(place) else { return };
    ranks.remove(rank);
    if ranks.is_empty() {
        claims.remove(place);
    }
}

fn is_same_object(one: &SharedObject, other: &SharedObject) -> bool {
    Arc::ptr_eq(one, other) || one.revision == other.revision && one.json == other.json
}

impl Entry {
    fn of(&self, source: &str) -> Option<&SharedObject> {
        if source == RECORDS { self.record.as_ref() } else { self.object.as_ref() }
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.keys()).finish()
    }
}
