//! Resources made of kinds: what each has of its definition, and what those of the same objects have of each other.
//!
//! Owns the resources of sub-resources' own documents, the other versions of a resource, and which resource stands for stored objects.

use std::sync::Arc;

use bytes::Bytes;
use orch_rules::Action;
use orch_rules::kinds::scale::Scale;
use orch_rules::kinds::{Strategy, strategy_for};
use orch_schema::{ResourceType, Subresource};

use super::super::record::{Record, Stage};
use super::{Kind, Resource};
use crate::conversion::{Conversion, Staged};
use crate::fields::{OtherVersion, Way};
use crate::tables::Tables;

/// The resources of `kinds`, among which are all versions of their objects.
pub(in crate::registry) fn assemble(kinds: Vec<Kind>) -> Vec<Arc<Resource>> {
    let mut resources: Vec<Resource> = kinds.into_iter().map(resource).collect();
    for at in 0..resources.len() {
        resources[at].others = others(&resources, at);
        resources[at].stands_for_stored = stands_for_stored(&resources, at);
    }
    resources.into_iter().map(Arc::new).collect()
}

/// See [`Resource::stands_for_stored`], for the resource at `at`.
fn stands_for_stored(resources: &[Resource], at: usize) -> bool {
    let own = &resources[at];
    if own.direct().is_some() {
        return false;
    }
    let of_kind = |other: &&Resource| other.storage == own.storage && other.direct().is_none();
    // Without a conversion a version has the stored form.
    let is_stored = |of: &Resource| of.staged().is_none_or(Staged::is_stored);
    let mut before = resources[..at].iter().filter(of_kind);
    if is_stored(own) {
        return !before.any(is_stored);
    }
    before.next().is_none() && !resources.iter().filter(of_kind).any(is_stored)
}

/// The other versions of the objects of the resource at `at`.
fn others(resources: &[Resource], at: usize) -> Vec<OtherVersion> {
    let own = &resources[at];
    let twins = resources.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
    let twins = twins.filter(|other| other.storage == own.storage);
    let between = |from: &Resource, to: &Resource| {
        let out = from.direct().map(|direct| direct.to_stored.clone());
        out.into_iter().chain(to.direct().map(|direct| direct.from_stored.clone())).collect()
    };
    let way = |other: &Resource| match (own.staged(), other.staged()) {
        (Some(here), Some(there)) => Way::Staged {
            converter: here.converter.clone(),
            here: here.shown.clone(),
            there: there.shown.clone(),
        },
        _ => Way::Direct { forth: between(own, other), back: between(other, own) },
    };
    let version = |other: &Resource| OtherVersion {
        api_version: other.api_version(),
        type_id: other.type_id,
        way: way(other),
    };
    twins.map(version).collect()
}

fn resource(kind: Kind) -> Resource {
    let Kind { mut definition, schema, storage, strategy, conversion, review, record, end, stage, published } =
        kind;
    // Sub-resources without an action are not served.
    definition.subresources.retain(|subresource| Action::of(&subresource.name).is_some());
    let is_of_declared = matches!(conversion, Some(Conversion::Staged(_)));
    let parent = Parent { schema: &schema, definition: &definition, record: record.as_ref(), is_of_declared };
    let documents = definition.subresources.iter().filter_map(|part| document(parent, part)).collect();
    let has_status = definition.subresource(Action::Status.subresource()).is_some();
    let other_resets = definition.subresources.iter().filter(|part| !part.resets.is_empty());
    let other_resets = other_resets.filter_map(|part| Some((Action::of(&part.name)?, part.resets.clone())));
    let other_resets = other_resets.collect();
    let resets = |path: &str| has_status.then(|| path.to_owned()).into_iter();
    Resource {
        object_resets: resets("status").chain(definition.rules.object_resets.iter().cloned()).collect(),
        other_resets,
        status_resets: resets("spec").chain(definition.rules.status_resets.iter().cloned()).collect(),
        head: head_of(&definition),
        path_group: definition.group.clone(),
        definition: Arc::new(definition),
        schema,
        strategy,
        documents,
        review,
        storage,
        others: Vec::new(),
        stands_for_stored: false,
        conversion,
        end,
        stage,
        record,
        published,
        is_of_declared,
    }
}

/// The parts of a resource that the documents of its sub-resources take over.
#[derive(Clone, Copy)]
struct Parent<'a> {
    schema: &'a Tables,
    definition: &'a ResourceType,
    record: Option<&'a Record>,
    is_of_declared: bool,
}

/// The resource of the documents of `part`, where they are of a kind of their own that has a strategy.
fn document(of: Parent<'_>, part: &Subresource) -> Option<(Action, Arc<Resource>)> {
    let parent = of.definition;
    let action = Action::of(&part.name)?;
    let name = format!("{}/{}", parent.plural, part.name);
    let strategy = match action {
        Action::Scale if of.is_of_declared => Some(Arc::new(Scale::Declared) as Arc<dyn Strategy>),
        _ => strategy_for(&name),
    };
    let strategy = strategy.filter(|_| part.type_id != parent.type_id)?;
    let (group, version, kind) = (part.group.clone(), part.version.clone(), part.kind.clone());
    let (columns, type_id) = (strategy.columns(), part.type_id);
    let list_kind = format!("{kind}List");
    let definition = ResourceType { group, version, kind, list_kind, columns, type_id, ..parent.clone() };
    let resource = Resource {
        head: head_of(&definition),
        path_group: parent.group.clone(),
        definition: Arc::new(definition),
        schema: of.schema.clone(),
        strategy,
        storage: name.into(),
        others: Vec::new(),
        stands_for_stored: false,
        conversion: None,
        review: None,
        record: of.record.cloned(),
        published: None,
        end: None,
        stage: Stage::Established,
        is_of_declared: of.is_of_declared,
        documents: Vec::new(),
        object_resets: Vec::new(),
        status_resets: Vec::new(),
        other_resets: Vec::new(),
    };
    Some((action, Arc::new(resource)))
}

fn head_of(definition: &ResourceType) -> Bytes {
    format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", definition.kind, definition.api_version()).into()
}
