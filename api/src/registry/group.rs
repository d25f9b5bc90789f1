//! The groups of what is served, with the documents that describe each.
//!
//! Owns which resources a group has in which version, and room for the documents that are made of them alone. The documents are
//! made when they are first asked for, each once; a group that a change does not concern is shared between the registries
//! before and after it, with its documents. `discovery` and `crate::openapi` make them.
//!
//! Invariant: whoever waits for a document waits for that one document; no other request does.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use orch_proto::Brand;
use parking_lot::Mutex;

use super::Stage;
use super::discovery::{Plain, Summary, order};
use super::keyed::Keyed;
use super::resource::Resource;
use crate::document::Document;
use crate::making::Making;

/// A group.
pub struct Group {
    /// Its name; empty for core.
    pub name: String,
    /// Its versions, the preferred one first.
    pub versions: Vec<Arc<GroupVersion>>,
    /// OpenAPI of the group's own path.
    pub openapi: Section,
    pub(super) summary: OnceLock<Summary>,
    pub(super) making: Making,
}

/// The resources of one group in one version.
pub struct GroupVersion {
    /// The version.
    pub version: String,
    /// `apiVersion` of its objects.
    pub api_version: String,
    /// By plural name.
    pub resources: Vec<Arc<Resource>>,
    /// OpenAPI of its paths.
    pub openapi: Section,
    pub(super) list: OnceLock<Plain>,
    pub(super) making: Making,
}

/// Room for an OpenAPI document in its forms.
#[derive(Default)]
pub struct Section {
    /// The hash by which clients know the document.
    pub hash: Kept<String>,
    /// As JSON.
    pub json: Kept<Document>,
    /// As Protobuf.
    pub binary: Kept<Document>,
}

/// Room for the OpenAPI documents over all groups.
#[derive(Default)]
pub struct OverAll {
    /// The document of version 2.
    pub version2: Section,
    /// The index of version 3.
    pub index: Kept<Document>,
}

/// Room for something that is made when it is first asked for.
pub struct Kept<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// The kept value, made by `make` where there is none. Of several callers at the same time one makes it, and the others wait.
    ///
    /// # Errors
    /// That of `make`; nothing is kept then.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut kept = self.0.lock();
        if let Some(known) = &*kept {
            return Ok(known.clone());
        }
        let made = Arc::new(make()?);
        *kept = Some(made.clone());
        Ok(made)
    }

    /// The kept value, if it was made.
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }
}

impl Group {
    /// Whether all of its resources are declared by definitions, whose documents cover resources alone.
    pub fn is_declared(&self) -> bool {
        self.versions.iter().all(|version| version.is_declared())
    }

    /// The version called `name`.
    pub fn version(&self, name: &str) -> Option<&Arc<GroupVersion>> {
        // few: the versions of one group.
        self.versions.iter().find(|version| version.version == name)
    }
}

impl GroupVersion {
    /// Whether all of its resources are declared by definitions that are published.
    pub fn is_declared(&self) -> bool {
        self.resources.iter().all(|resource| resource.published.is_some())
    }
}

/// The groups in the order of discovery, with an index of their names.
#[derive(Default)]
pub(super) struct Groups {
    all: Vec<Arc<Group>>,
    names: Keyed,
}

impl Groups {
    /// The groups of `resources`. Those in which `before` has the same resources are the same.
    pub(super) fn of(resources: &[Arc<Resource>], brand: &Brand, before: &Groups) -> Self {
        let mut by_name: BTreeMap<&str, BTreeMap<&str, Vec<&Arc<Resource>>>> = BTreeMap::new();
        // Of a definition that is not in force yet, discovery tells nothing.
        for resource in resources.iter().filter(|resource| resource.stage != Stage::Accepted) {
            let versions = by_name.entry(&resource.group).or_default();
            versions.entry(&resource.version).or_default().push(resource);
        }
        let mut all: Vec<Arc<Group>> =
            by_name.into_iter().map(|(name, versions)| group(name, versions, before.find(name))).collect();
        order::groups(&mut all, brand);
        let names = Keyed::of(all.len(), |at| Some(all[at].name.as_str()));
        Groups { all, names }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<Group>> {
        self.names.find(name, |at| self.all[at].name.as_str()).map(|at| &self.all[at])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.all.iter()
    }
}

/// The group of these resources by version; `before` where it has the same.
fn group(
    name: &str,
    by_version: BTreeMap<&str, Vec<&Arc<Resource>>>,
    before: Option<&Arc<Group>>,
) -> Arc<Group> {
    let mut versions: Vec<Arc<GroupVersion>> = by_version
        .into_iter()
        .map(|(version, resources)| {
            group_version(version, resources, before.and_then(|before| before.version(version)))
        })
        .collect();
    order::versions(&mut versions);
    let is_same = |before: &&Arc<Group>| {
        before.versions.len() == versions.len()
            && before.versions.iter().zip(&versions).all(|(one, other)| Arc::ptr_eq(one, other))
    };
    if let Some(same) = before.filter(is_same) {
        return same.clone();
    }
    let (openapi, summary, making) = (Section::default(), OnceLock::new(), Making::default());
    Arc::new(Group { name: name.to_owned(), versions, openapi, summary, making })
}

fn group_version(
    version: &str,
    mut resources: Vec<&Arc<Resource>>,
    before: Option<&Arc<GroupVersion>>,
) -> Arc<GroupVersion> {
    resources.sort_by(|one, other| one.plural.cmp(&other.plural));
    let is_same = |before: &&Arc<GroupVersion>| {
        before.resources.len() == resources.len()
            && before.resources.iter().zip(&resources).all(|(one, other)| Arc::ptr_eq(one, other))
    };
    if let Some(same) = before.filter(is_same) {
        return same.clone();
    }
    let api_version = resources.first().map(|resource| resource.api_version()).unwrap_or_default();
    Arc::new(GroupVersion {
        version: version.to_owned(),
        api_version,
        resources: resources.into_iter().cloned().collect(),
        openapi: Section::default(),
        list: OnceLock::new(),
        making: Making::default(),
    })
}
