//! The served resources, the look-ups that lead to them, and the documents that describe them.
//!
//! Owns the set of served resources as one value, which is never changed but replaced (`handle`). A request takes the registry
//! when it begins and ends with it; a resource shares ownership of its definition, schema and strategy, so that a request keeps
//! working after both were replaced. Loops follow the handle. It knows no store and no HTTP.
//!
//!     Handle     what is served now, and who follows it
//!     Registry   one set of resources
//!     Group      its resources by group and version, with their documents (`discovery`, `crate::openapi`)
//!     Resource   one resource in one version
//!
//! Invariant: each way to a resource is a look-up by a keyed hash: clients choose the names. No request walks all resources.
//! Invariant: built-in resources and those that are added while a node runs come in by the same way, `Registry::with`.

mod declared;
pub mod discovery;
mod group;
mod handle;
mod keyed;
mod priority;
mod published;
mod record;
mod resource;

use std::collections::HashSet;
use std::sync::Arc;

use orch_proto::Brand;
use orch_schema::Schema;

use discovery::Roots;
use group::Groups;
use keyed::Keyed;

pub use crate::making::{Maker, Making};
pub use crate::tables::Tables;
pub use declared::{DeclaredKind, DeclaredVersion, MakeConstraints, storage_of};
pub use group::{Group, GroupVersion, Kept, OverAll, Section};
pub use handle::{Changes, Handle};
pub use priority::Priority;
pub use published::Published;
pub use record::{End, Record, Stage};
pub use resource::{Kind, Resource};

/// All served resources.
pub struct Registry {
    /// The built-in types, which the server's own documents have.
    pub schema: Arc<Schema>,
    /// The cluster's brand names.
    pub brand: &'static Brand,
    /// OpenAPI over all groups, beside the pages of a node that serves keys of tokens (1) or does not (0).
    pub openapi: [OverAll; 2],
    /// Those that are built in first, in the order of the schema.
    resources: Vec<Arc<Resource>>,
    groups: Groups,
    /// By group, version and plural name.
    paths: Keyed,
    /// By group, version and kind.
    kinds: Keyed,
    /// Resources in the version that is stored, by name in the store.
    stored: Keyed,
    roots: Roots,
}

/// A resource cannot be added: another has its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{api_version} {plural} has the path, the kind or the name in the store of another resource")]
pub struct Occupied {
    /// `apiVersion` of the resource that was to be added.
    pub api_version: String,
    /// Its plural name.
    pub plural: String,
}

impl Registry {
    /// The built-in resources under `brand`.
    pub fn builtin(brand: &'static Brand) -> Arc<Self> {
        let schema = Arc::new(Schema::builtin(brand));
        let kinds =
            schema.resources().iter().filter_map(|definition| Kind::built_in(&schema, brand, definition));
        let resources = resource::assembled::assemble(kinds.collect());
        Arc::new(Registry::of(schema, brand, resources, &Groups::default()))
    }

    fn of(
        schema: Arc<Schema>,
        brand: &'static Brand,
        resources: Vec<Arc<Resource>>,
        before: &Groups,
    ) -> Self {
        let (count, at) = (resources.len(), |at: usize| &*resources[at]);
        let paths = Keyed::of(count, |position| Some(at(position).path()));
        let kinds = Keyed::of(count, |position| Some(at(position).kind_path()));
        let stored = Keyed::of(count, |position| {
            let resource = at(position);
            resource.stands_for_stored().then_some(&*resource.storage)
        });
        let groups = Groups::of(&resources, brand, before);
        let openapi = Default::default();
        Registry { schema, brand, openapi, resources, groups, paths, kinds, stored, roots: Roots::default() }
    }

    /// The same with `kinds`, among which are all versions of their objects.
    ///
    /// # Errors
    /// `Occupied`: a path, a kind or a name in the store is that of another resource.
    pub fn with(&self, kinds: Vec<Kind>) -> Result<Arc<Registry>, Occupied> {
        let added = resource::assembled::assemble(kinds);
        let resources = self.resources.iter().chain(&added).cloned().collect();
        let next = Registry::of(self.schema.clone(), self.brand, resources, &self.groups);
        let is_placed = |added: &Arc<Resource>| {
            let path = next.find(&added.group, &added.version, &added.plural);
            let kind = next.find_kind(&added.group, &added.version, &added.kind);
            let is = |found: &Arc<Resource>| Arc::ptr_eq(found, added);
            path.is_some_and(is) && kind.is_some_and(is) && self.stored(&added.storage).is_none()
        };
        if let Some(refused) = added.iter().find(|added| !is_placed(added)) {
            let (api_version, plural) = (refused.api_version(), refused.plural.clone());
            return Err(Occupied { api_version, plural });
        }
        Ok(Arc::new(next))
    }

    /// The same without the resources whose objects are stored as `storage`.
    pub fn without(&self, storage: &str) -> Arc<Registry> {
        let left = self.resources.iter().filter(|resource| *resource.storage != *storage);
        let left = left.cloned().collect();
        Arc::new(Registry::of(self.schema.clone(), self.brand, left, &self.groups))
    }

    /// The same without the resources whose objects are stored as one of `gone`, and with `kinds`, each with all versions of its
    /// objects: a batch of changes is one step. A kind that would take a place of another one is left out; those are returned, each
    /// with its place in `kinds`.
    pub fn replaced(
        &self,
        gone: &HashSet<Arc<str>>,
        kinds: Vec<Vec<Kind>>,
    ) -> (Arc<Registry>, Vec<(usize, Occupied)>) {
        let kept = self.resources.iter().filter(|resource| !gone.contains(&resource.storage));
        let mut resources: Vec<Arc<Resource>> = kept.cloned().collect();
        let mut places = Places::default();
        let fits = resources.iter().all(|resource| places.take(resource));
        debug_assert!(fits, "what is served has places of its own");
        let mut refused = Vec::new();
        for (at, added) in kinds.into_iter().map(resource::assembled::assemble).enumerate() {
            match added.iter().find(|added| !places.has_room(added)) {
                Some(found) => {
                    let (api_version, plural) = (found.api_version(), found.plural.clone());
                    refused.push((at, Occupied { api_version, plural }));
                }
                None => {
                    added.iter().for_each(|added| {
                        places.take(added);
                    });
                    resources.extend(added);
                }
            }
        }
        (Arc::new(Registry::of(self.schema.clone(), self.brand, resources, &self.groups)), refused)
    }

    /// Tells those who hold a resource that `next` does not serve in the same form that it has ended. Built-in ones tell nobody.
    fn end_all_but(&self, next: &Registry) {
        for resource in &self.resources {
            let Some(end) = &resource.end else { continue };
            let same = next.find(&resource.group, &resource.version, &resource.plural);
            if same.and_then(|same| same.end.as_ref()).is_none_or(|same| !same.is(end)) {
                end.come();
            }
        }
    }

    /// The resource of this group, version and plural name.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let found = self.paths.find((group, version, plural), |at| self.resources[at].path());
        found.map(|at| &self.resources[at])
    }

    /// The resource of this group, version and kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let found = self.kinds.find((group, version, kind), |at| self.resources[at].kind_path());
        found.map(|at| &self.resources[at])
    }

    /// The resource of the kind that an `apiVersion` (`v1`, `apps/v1`) and a name name.
    pub fn find_named(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = split(api_version);
        self.find_kind(group, version, kind)
    }

    /// The resource of this group and kind that stands for its stored objects.
    pub fn find_stored_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        let versions = self.group(group)?.versions.iter();
        // few: the versions of one group.
        versions.filter_map(|of| self.find_kind(group, &of.version, kind)).find(|of| of.stands_for_stored())
    }

    /// The resource whose objects are stored as `storage`, in the version that is stored.
    pub fn stored(&self, storage: &str) -> Option<&Arc<Resource>> {
        self.stored.find(storage, |at| &*self.resources[at].storage).map(|at| &self.resources[at])
    }

    /// The group called `name`; empty for core.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.find(name)
    }

    /// Whether any resource is served under this `apiVersion` (`v1`, `apps/v1`).
    pub fn serves(&self, api_version: &str) -> bool {
        let (group, version) = split(api_version);
        self.group(group).is_some_and(|group| group.version(version).is_some())
    }

    /// Whether this group has this version with resources that no definition declares: it is never another server's.
    pub fn is_built_in(&self, group: &str, version: &str) -> bool {
        let version = self.group(group).and_then(|group| group.version(version));
        version.is_some_and(|version| !version.is_declared())
    }

    /// The groups, in the order of discovery.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.iter()
    }

    /// Every resource, in the order in which they were added. For what is made of all of them; a request looks up.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// The resources whose objects are stored, each in the version that is stored.
    pub fn stored_resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources().filter(|resource| resource.stands_for_stored() && resource.review.is_none())
    }
}

/// The places that resources have taken: keyed hashes, since clients choose the names.
#[derive(Default)]
struct Places {
    paths: HashSet<[String; 3]>,
    kinds: HashSet<[String; 3]>,
    storages: HashSet<Arc<str>>,
}

impl Places {
    fn of(resource: &Resource) -> [[String; 3]; 2] {
        let own = |(group, version, name): (&str, &str, &str)| [group, version, name].map(str::to_owned);
        [own(resource.path()), own(resource.kind_path())]
    }

    fn has_room(&self, resource: &Resource) -> bool {
        let [path, kind] = Places::of(resource);
        // set: all three are.
        !self.paths.contains(&path)
            && !self.kinds.contains(&kind)
            && !self.storages.contains(&resource.storage)
    }

    /// Takes the places of `resource`; `false`: its path is taken. Kinds and names in the store are shared by versions.
    fn take(&mut self, resource: &Resource) -> bool {
        let [path, kind] = Places::of(resource);
        self.kinds.insert(kind);
        self.storages.insert(resource.storage.clone());
        self.paths.insert(path)
    }
}

/// Group and version of an `apiVersion`.
fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.resources).finish()
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    #[test]
    fn every_look_up_finds_what_a_scan_finds() {
        let registry = Registry::builtin(&ORCH);
        for resource in registry.resources() {
            let Resource { definition, storage, .. } = &**resource;
            let found = registry.find(&definition.group, &definition.version, &definition.plural);
            assert!(Arc::ptr_eq(found.unwrap(), resource), "{resource:?}");
            let is_named = |other: &&Arc<Resource>| {
                other.kind == definition.kind && other.api_version() == definition.api_version()
            };
            let scanned = registry.resources().find(is_named).unwrap();
            let found = registry.find_named(&definition.api_version(), &definition.kind).unwrap();
            assert!(Arc::ptr_eq(found, scanned), "{resource:?}");
            let is_stored = |other: &&Arc<Resource>| other.storage == *storage && other.stands_for_stored();
            let scanned = registry.resources().find(is_stored).unwrap();
            assert!(Arc::ptr_eq(registry.stored(storage).unwrap(), scanned), "{resource:?}");
            assert!(registry.serves(&definition.api_version()));
        }
        assert!(registry.find("", "v1", "nopes").is_none() && registry.find_named("v2", "Pod").is_none());
        assert!(registry.stored("nopes").is_none() && registry.stored("events.events").is_none());
        assert!(!registry.serves("apps") && !registry.serves("apps/v9") && registry.serves("v1"));
    }

    #[test]
    fn of_versions_without_a_conversion_the_first_stands_for_the_stored_objects() {
        let registry = Registry::builtin(&ORCH);
        let maps = registry.find("", "v1", "configmaps").unwrap().definition.clone();
        let version = |version: &str| {
            let definition = orch_schema::ResourceType { version: version.to_owned(), ..(*maps).clone() };
            Kind::built_in(&registry.schema, registry.brand, &definition).unwrap()
        };
        let next = registry.without("configmaps").with(vec![version("v1"), version("v2")]).unwrap();
        let standing = next.stored_resources().filter(|of| *of.storage == *"configmaps");
        assert_eq!(standing.map(|of| of.version.as_str()).collect::<Vec<_>>(), ["v1"]);
        assert_eq!(next.stored("configmaps").unwrap().version, "v1");
    }

    #[test]
    fn removed_kinds_can_be_added_again_and_nothing_takes_a_place_of_another() {
        let registry = Registry::builtin(&ORCH);
        let kinds = || {
            let definition = registry.find("", "v1", "configmaps").unwrap().definition.clone();
            vec![Kind::built_in(&registry.schema, registry.brand, &definition).unwrap()]
        };
        let twice = kinds().into_iter().chain(kinds()).collect();
        assert!(registry.without("configmaps").with(twice).is_err());
        let refused = registry.with(kinds()).unwrap_err();
        assert_eq!((&*refused.api_version, &*refused.plural), ("v1", "configmaps"));
        let without = registry.without("configmaps");
        assert!(without.find("", "v1", "configmaps").is_none() && without.stored("configmaps").is_none());
        assert_eq!(without.resources().count() + 1, registry.resources().count());
        let again = without.with(kinds()).unwrap();
        assert!(again.find_named("v1", "ConfigMap").is_some());
        assert!(again.find("apps", "v1", "deployments").is_some(), "others stay");
    }
}
