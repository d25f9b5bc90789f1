//! The resources that are served: what the schema says of each, the strategy of its kind, and constants of its answers.
//!
//! Owns the look-up from a path to a resource. Built once; custom resources will add to a copy and swap it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use orch_proto::Brand;

use crate::endpoint::Action;
use crate::fields::OtherVersion;
use crate::kinds::{Strategy, strategy_for};
use crate::request::Verb;
use crate::schema::value::Value;
use crate::schema::{Column, ResourceType, Schema, Subresource, TypeId};

/// One served resource in one version.
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Verbs, as discovery lists them.
    pub verbs: Vec<String>,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Sub-resources that are served.
    pub subresources: Vec<Subresource>,
    /// Columns of its table; empty for the default two.
    pub columns: Vec<Column>,
    /// Its message in the schema.
    pub type_id: TypeId,
    /// The rules of its kind.
    pub strategy: &'static dyn Strategy,
    /// Where its objects are stored. Two versions, or two groups, may share one place.
    pub storage: Arc<str>,
    /// The other served versions of the same objects.
    pub others: Vec<OtherVersion>,
    /// Turns the stored form into this version's form and back; `None` when they are the same.
    pub conversion: Option<Conversion>,
    /// `{"kind":"Role","apiVersion":"...",`: what stands before an object's stored bytes.
    pub head: Bytes,
}

/// A version that is not the stored one.
#[derive(Clone, Copy)]
pub struct Conversion {
    /// From the stored form.
    pub from_stored: fn(&Value) -> Value,
    /// To the stored form.
    pub to_stored: fn(&Value) -> Value,
    /// The stored name of a selectable field.
    pub stored_field: fn(&str) -> Option<&'static str>,
    /// The message of the stored form.
    pub stored_type: TypeId,
}

/// All served resources.
#[derive(Clone)]
pub struct Registry {
    /// The tables that every codec walks.
    pub schema: Arc<Schema>,
    /// The names of the cluster.
    pub brand: &'static Brand,
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), usize>,
}

impl Registry {
    /// The built-in resources under `brand`.
    pub fn builtin(brand: &'static Brand) -> Self {
        let schema = Arc::new(Schema::builtin(brand));
        let served = schema.resources().iter().filter_map(|definition| resource(&schema, brand, definition));
        let mut resources: Vec<Resource> = served.collect();
        for at in 0..resources.len() {
            resources[at].others = others(&resources, at);
        }
        let resources: Vec<Arc<Resource>> = resources.into_iter().map(Arc::new).collect();
        let by_path = resources.iter().enumerate().map(|(at, resource)| {
            ((resource.group.clone(), resource.version.clone(), resource.plural.clone()), at)
        });
        let by_path = by_path.collect();
        Registry { schema, brand, resources, by_path }
    }

    /// The resource behind a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.by_path.get(&key).map(|&at| &self.resources[at])
    }

    /// Every resource, in the schema's order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }
}

impl Resource {
    /// `v1`, or `GROUP/VERSION`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether discovery lists the verb for the resource itself.
    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb.as_str())
    }

    /// The served sub-resource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// What a request does through the served sub-resource of this name; empty for the object itself.
    pub fn action(&self, subresource: &str) -> Option<Action> {
        let is_served = subresource.is_empty() || self.subresource(subresource).is_some();
        Action::of(subresource).filter(|_| is_served)
    }

    /// `stored` in the form of this version.
    pub fn in_version(&self, stored: Value) -> Value {
        match self.conversion {
            Some(conversion) => (conversion.from_stored)(&stored),
            None => stored,
        }
    }

    /// `value`, in the form of this version, in the stored form. Every rule of the kind is about that form.
    pub fn in_store(&self, value: Value) -> Value {
        match self.conversion {
            Some(conversion) => (conversion.to_stored)(&value),
            None => value,
        }
    }

    /// The message of the bytes in the store.
    pub fn stored_type(&self) -> TypeId {
        self.conversion.map_or(self.type_id, |conversion| conversion.stored_type)
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({}/{})", self.api_version(), self.plural)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.resources).finish()
    }
}

/// The versions that share their objects with the one at `at`.
fn others(resources: &[Resource], at: usize) -> Vec<OtherVersion> {
    let own = &resources[at];
    let twins = resources.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
    let twins = twins.filter(|other| other.storage == own.storage);
    let between = |from: &Resource, to: &Resource| {
        let out = from.conversion.map(|conversion| conversion.to_stored);
        out.into_iter().chain(to.conversion.map(|conversion| conversion.from_stored)).collect()
    };
    let version = |other: &Resource| OtherVersion {
        api_version: other.api_version(),
        type_id: other.type_id,
        forth: between(own, other),
        back: between(other, own),
    };
    twins.map(version).collect()
}

fn resource(schema: &Schema, brand: &'static Brand, definition: &ResourceType) -> Option<Resource> {
    let domain = format!(".{}", brand.group_domain);
    let stem = definition.group.strip_suffix(&domain).unwrap_or(&definition.group);
    let own =
        if stem.is_empty() { definition.plural.clone() } else { format!("{}.{stem}", definition.plural) };
    let twin = own == "events.events";
    let storage = if twin { "events".to_owned() } else { own };
    let strategy = strategy_for(&storage)?;
    let conversion = twin.then(|| Conversion {
        from_stored: crate::kinds::event::to_events_v1,
        to_stored: crate::kinds::event::from_events_v1,
        stored_field: crate::kinds::event::stored_field_label,
        stored_type: schema.named("core.v1.Event").expect("the core kinds are in the schema"),
    });
    let served = definition.subresources.iter();
    let subresources = served.filter(|sub| Action::of(&sub.name).is_some()).cloned();
    let api_version = match definition.group.as_str() {
        "" => definition.version.clone(),
        group => format!("{group}/{}", definition.version),
    };
    Some(Resource {
        group: definition.group.clone(),
        version: definition.version.clone(),
        plural: definition.plural.clone(),
        singular: definition.singular.clone(),
        kind: definition.kind.clone(),
        namespaced: definition.namespaced,
        verbs: definition.verbs.clone(),
        short_names: definition.short_names.clone(),
        categories: definition.categories.clone(),
        subresources: subresources.collect(),
        columns: definition.columns.clone(),
        type_id: definition.type_id,
        strategy,
        storage: storage.into(),
        others: Vec::new(),
        conversion,
        head: format!("{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",", definition.kind).into(),
    })
}
