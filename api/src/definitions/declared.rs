//! The definitions as this node has applied them, and the kinds that they declare.
//!
//! Owns which of them are served, and what of a kind stays the same when its definition is written again: its tables as long as
//! the schema of a version is the same, and its watches as long as the form of its objects is.
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
use orch_raft::{Change, Revision, State, WrittenAs};
use orch_rules::kinds::defined::described::{Types, deprecation, resource_type};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_schema::{ResourceType, Schema};

use super::converter::{self, Servers};
use super::outline::Outline;
use super::record::{DefinitionRecord, record_key};
use super::tables::VersionTables;
use super::{DEFINITIONS, RECORDS};
use crate::follow::{Builder, Derived, Digest};
use crate::registry::{DeclaredKind, DeclaredVersion, End, Kind, Published, Record, Stage, storage_of};

/// The definitions of a cluster.
pub(super) struct Declared {
    base: Arc<Schema>,
    brand: &'static Brand,
    sources: [Arc<str>; 2],
    /// Where tables are made.
    builder: Builder,
    /// The servers of conversion webhooks; `None`: none is called.
    servers: Option<Servers>,
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

/// Group and kind.
type KindPlace = [String; 2];

/// The place of a definition among those of one kind, by order: the kind is not the one that it asked for, the revision at which it was
/// created, its name.
type Rank = (bool, Revision, Arc<str>);

/// One definition.
#[derive(Default)]
struct Entry {
    claim: Option<(KindPlace, Rank)>,
    object: Option<SharedObject>,
    record: Option<SharedObject>,
    served: Option<Served>,
    /// What is served was read from a wrong state: neither tables nor watches of it are kept, whatever their revisions say.
    is_wrong: bool,
}

/// What a definition says is to be served.
struct Declaration {
    served: Served,
    /// The kinds for a registry.
    kinds: Vec<Kind>,
    claim: Option<(KindPlace, Rank)>,
}

/// A definition whose objects are served.
struct Served {
    storage: Arc<str>,
    record: Revision,
    stage: Stage,
    versions: BTreeMap<String, Version>,
}

/// A version that is served, or stored.
struct Version {
    since: Revision,
    /// Digest of all that the form of its objects depends on beside the schema, and of what is told about it.
    form: Digest,
    tables: VersionTables,
    end: End,
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
    /// What is served then of each definition that was looked at.
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
        let (entries, claims, servers, is_distrusted) = (BTreeMap::new(), BTreeMap::new(), None, false);
        Declared { base, brand, sources, builder, servers, entries, changed, refused, claims, is_distrusted }
    }

    /// The same, where conversion webhooks are called by `servers`.
    pub(super) fn with_servers(self, servers: Option<Servers>) -> Self {
        Declared { servers, ..self }
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
            let declared = entry.declare(name, self);
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
                looked.insert(name.clone(), entry.declare(name, self));
            }
        }
        looked.into_iter().for_each(|(name, declared)| self.settle_one(&name, declared, &mut settled));
        if !settled.gone.is_empty() {
            // One of the places that are free now may be theirs.
            let waiting = self.refused.difference(&self.changed);
            for name in waiting {
                let declared = self.entries.get(name).and_then(|entry| entry.declare(name, self));
                self.settle_one(name, declared, &mut settled);
            }
        }
        settled
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

    /// What is served of the definition if it has no rival; `None`: nothing is.
    fn declare(&self, name: &Arc<str>, of: &Declared) -> Option<Declaration> {
        let (object, record) = (self.object.as_ref()?, self.record.as_ref()?);
        let outline = match Outline::of(&object.json) {
            Ok(outline) => outline,
            Err(error) => {
                tracing::error!(%error, definition = %name, "a stored definition cannot be read and is not served");
                return None;
            }
        };
        let stage = outline.stage()?;
        let key = record_key(name)?;
        let known = DefinitionRecord::of(record);
        let before = self.served.as_ref().filter(|_| !self.is_wrong);
        let maker = Maker { name, object, outline: &outline, record: &known, before, of };
        let (revision, created) = (record.revision, record.created);
        let (served, declared) = maker.make(stage, Record { key, revision, created })?;
        // Every version has the same kind.
        let claim = declared.versions.first().map(|version| {
            let kind = version.definition.kind.clone();
            let is_other = kind != outline.0.at("spec").at("names").text("kind");
            ([outline.group().to_owned(), kind], (is_other, created, name.clone()))
        });
        Some(Declaration { served, kinds: declared.kinds(), claim })
    }
}

impl Served {
    /// Whether `next` is served in the very same way.
    fn is_same(&self, next: &Served) -> bool {
        let is_same = |(one, other): ((&String, &Version), (&String, &Version))| {
            one.0 == other.0 && one.1.since == other.1.since && one.1.form == other.1.form
        };
        (self.record, self.stage) == (next.record, next.stage)
            && self.versions.len() == next.versions.len()
            && self.versions.iter().zip(&next.versions).all(is_same)
    }
}

/// Makes what is served of one definition.
struct Maker<'a> {
    name: &'a str,
    object: &'a SharedObject,
    outline: &'a Outline,
    record: &'a DefinitionRecord,
    /// The same definition as it was served before.
    before: Option<&'a Served>,
    of: &'a Declared,
}

impl Maker<'_> {
    fn make(&self, stage: Stage, record: Record) -> Option<(Served, DeclaredKind)> {
        let outline = self.outline;
        let (name, storage) = (outline.stored()?.text("name"), storage_of(outline.plural(), outline.group()));
        let stored = WrittenAs { version: name.into(), definition: self.record.since(name) };
        let stored = Arc::new(stored);
        let mut versions = BTreeMap::new();
        let named = outline.served().chain(outline.stored());
        for version in named {
            versions.entry(version.text("name").to_owned()).or_insert_with(|| self.version(version, &stored));
        }
        let revision = record.revision;
        let declared = DeclaredKind {
            versions: outline.served().map(|version| self.declared(version, &versions)).collect(),
            stored: stored.clone(),
            stored_type: VersionTables::root(&self.of.base),
            stored_schema: versions.get(name)?.tables.tables(),
            converter: converter::of(self.name, &outline.0, self.of.brand, self.of.servers.as_ref()),
            record: Some(record),
            stage,
        };
        Some((Served { storage, record: revision, stage, versions }, declared))
    }

    /// The version with its tables and its end, which are those of before where it is served in the same form.
    fn version(&self, version: &Value, stored: &Arc<WrittenAs>) -> Version {
        let name = version.text("name");
        let since = self.record.since(name);
        let (spec, status) = (self.outline.0.at("spec"), self.outline.0.at("status"));
        let [names, accepted] = [spec.at("names"), status.at("acceptedNames")].map(Value::to_string);
        let [scope, conversion, own] =
            [spec.at("scope"), spec.at("conversion"), version].map(Value::to_string);
        let written = (stored.version.to_string(), stored.definition.0);
        let form = Digest::of((names, accepted, scope, conversion, own, written));
        let before = self.before.and_then(|before| before.versions.get(name)).filter(|of| of.since == since);
        let tables = match before {
            Some(same) => {
                same.tables.renew(self.object);
                same.tables.clone()
            }
            None => {
                VersionTables::new(self.object, name, self.of.base.clone(), self.of.brand, self.of.builder)
            }
        };
        let end = before.filter(|before| before.form == form).map(|same| same.end.clone());
        Version { since, form, tables, end: end.unwrap_or_default() }
    }

    fn declared(&self, version: &Value, versions: &BTreeMap<String, Version>) -> DeclaredVersion {
        let made = &versions[version.text("name")];
        let scale = self.of.base.find_type("autoscaling.v1.Scale").expect("it is a built-in type");
        let types = Types { object: VersionTables::root(&self.of.base), scale };
        // Its name in paths and in the store is the definition's, whatever somebody wrote into the status.
        let plural = self.outline.plural().to_owned();
        DeclaredVersion {
            definition: ResourceType { plural, ..resource_type(&self.outline.0, version, types) },
            schema: made.tables.tables(),
            since: made.since,
            deprecation: deprecation(&self.outline.0, version),
            end: made.end.clone(),
            published: Some(Published::new(self.object.json.clone(), version.text("name"))),
            constraints: Some(made.tables.constraints()),
        }
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.keys()).finish()
    }
}
