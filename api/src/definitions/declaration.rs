//! The declaration of one definition: kinds for a registry, made of its object and its record.
//!
//! Owns what of a kind stays the same when its definition is written again: its tables as long as the schema of a version is the same,
//! and its watches as long as the form of its objects is. It knows no other definition; `declared` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Revision, WrittenAs};
use orch_rules::kinds::defined::described::{Types, deprecation, resource_type};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_schema::{ResourceType, Schema};

use super::converter::{self, Servers};
use super::outline::Outline;
use super::record::{DefinitionRecord, record_key};
use super::tables::VersionTables;
use crate::follow::{Builder, Digest};
use crate::registry::{DeclaredKind, DeclaredVersion, End, Kind, Published, Record, Stage, storage_of};

/// The parts of all kinds beside their definitions.
pub(super) struct Basis {
    /// The built-in types.
    pub(super) schema: Arc<Schema>,
    pub(super) brand: &'static Brand,
    /// Where tables are made.
    pub(super) builder: Builder,
    /// The servers of conversion webhooks; `None`: none is called.
    pub(super) servers: Option<Servers>,
}

/// Group and kind.
pub(super) type KindPlace = [String; 2];

/// The place of a definition among those of one kind, by order: the kind is not the one that it asked for, the revision at which it was
/// created, its name.
pub(super) type Rank = (bool, Revision, Arc<str>);

/// The kind that a definition declares, ready to be served.
pub(super) struct Declaration {
    pub(super) served: Served,
    /// The kinds for a registry.
    pub(super) kinds: Vec<Kind>,
    pub(super) claim: Option<(KindPlace, Rank)>,
}

/// A definition whose objects are served.
pub(super) struct Served {
    pub(super) storage: Arc<str>,
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

/// The declaration of the definition called `name`, as if it had no rival; `None`: it declares no kind. `object`, `record`: as they are stored.
/// `before`: the kind that was served of it.
pub(super) fn declare(
    name: &Arc<str>,
    (object, record): (&SharedObject, &SharedObject),
    before: Option<&Served>,
    basis: &Basis,
) -> Option<Declaration> {
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
    let maker = Maker { name, object, outline: &outline, record: &known, before, basis };
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

impl Served {
    /// Whether `next` is served in the very same way.
    pub(super) fn is_same(&self, next: &Served) -> bool {
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
    basis: &'a Basis,
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
            stored_type: VersionTables::root(&self.basis.schema),
            stored_schema: versions.get(name)?.tables.tables(),
            converter: converter::of(self.name, &outline.0, self.basis.brand, self.basis.servers.as_ref()),
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
            None => VersionTables::new(
                self.object,
                name,
                self.basis.schema.clone(),
                self.basis.brand,
                self.basis.builder,
            ),
        };
        let end = before.filter(|before| before.form == form).map(|same| same.end.clone());
        Version { since, form, tables, end: end.unwrap_or_default() }
    }

    fn declared(&self, version: &Value, versions: &BTreeMap<String, Version>) -> DeclaredVersion {
        let made = &versions[version.text("name")];
        let scale = self.basis.schema.find_type("autoscaling.v1.Scale").expect("it is a built-in type");
        let types = Types { object: VersionTables::root(&self.basis.schema), scale };
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
