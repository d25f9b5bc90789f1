//! Discovery: the documents that tell clients which groups, versions and resources are served.
//!
//! Owns the documents at `/apis` and the groups' paths, plain and aggregated. Those of a group are made when they are first asked
//! for and kept with it; those of all groups are put together from them, for each registry once. `crate::http` chooses the
//! document and its representation.

mod aggregated;
mod item;
pub(super) mod order;

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_schema::json;
use orch_schema::value::Value;
use order::parts;
use sha2::{Digest, Sha256};

use super::{Group, GroupVersion, Making, Registry, Resource, Stage};
use crate::request::Verb;

pub(crate) use aggregated::COMPRESS_FROM_BYTES;
pub use aggregated::{Aggregated, GROUP_STEM, LIST_KIND, LIST_MESSAGE, VERSIONS};
pub(crate) use item::Item;

/// Path of the list of named groups, without its slash; the groups' own paths lie below.
const NAMED: &str = "/apis";

/// The entry of a group in the lists of all groups.
pub(super) struct Summary {
    /// The document at the group's own path.
    document: Plain,
    /// The group without the head of a document, for the list of groups.
    listed: Value,
    /// The item of aggregated discovery.
    aggregated: Arc<Item>,
}

/// The documents over all groups of one registry.
#[derive(Default)]
pub(super) struct Roots {
    named: OnceLock<Plain>,
    aggregated: aggregated::Lists,
    making: Making,
}

/// The place of documents.
enum Place<'a> {
    /// Over all groups.
    Roots,
    Group(&'a Group),
    Version(&'a GroupVersion),
}

/// A plain discovery document.
pub struct Plain {
    /// Its type in the package `meta.v1`.
    pub kind: &'static str,
    /// The document.
    pub value: Value,
}

impl Plain {
    /// A document of this kind with these members.
    pub(crate) fn new(kind: &'static str, fields: &Value) -> Plain {
        let mut value = json!({"kind": kind, "apiVersion": "v1"});
        extend(&mut value, fields);
        Plain { kind, value }
    }

    /// A document of the core API, which is older than `apiVersion` in documents of discovery, and has none.
    pub fn of_core(kind: &'static str, fields: &Value) -> Plain {
        let mut value = json!({"kind": kind});
        extend(&mut value, fields);
        Plain { kind, value }
    }
}

impl Registry {
    /// The plain document at `path`, which has no trailing slash. The core API's own path, `/api`, has none here: its document
    /// names the address of the server.
    pub fn discovery(&self, path: &str) -> Option<&Plain> {
        match self.place(path)? {
            Place::Version(version) => Some(self.list(version)),
            Place::Group(group) => Some(&self.summary(group).document),
            Place::Roots if path == NAMED => Some(self.roots.named.get_or_init(|| self.named_groups())),
            Place::Roots => None,
        }
    }

    /// By which requests wait until the documents at `path` are made; `None`: they are, or there are none.
    pub fn discovery_to_make(&self, path: &str) -> Option<&Making> {
        let (is_made, making) = match self.place(path)? {
            Place::Version(version) => (version.list.get().is_some(), &version.making),
            Place::Group(group) => (group.summary.get().is_some(), &group.making),
            Place::Roots => (self.roots.named.get().is_some(), &self.roots.making),
        };
        (!is_made).then_some(making)
    }

    /// Makes the documents at `path`.
    pub fn make_discovery(&self, path: &str) {
        match self.place(path) {
            Some(Place::Version(version)) => {
                self.list(version);
            }
            Some(Place::Group(group)) => {
                self.summary(group);
            }
            Some(Place::Roots) => self.make_roots(),
            None => {}
        }
    }

    /// The place of the documents at `path`.
    fn place(&self, path: &str) -> Option<Place<'_>> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let found = match (segments.next()?, segments.next(), segments.next()) {
            ("api" | "apis", None, None) => Place::Roots,
            ("api", Some(version), None) => Place::Version(self.group("")?.version(version)?),
            ("apis", Some(group), version) if !group.is_empty() => match (self.group(group)?, version) {
                (group, Some(version)) => Place::Version(group.version(version)?),
                (group, None) => Place::Group(group),
            },
            _ => return None,
        };
        segments.next().is_none().then_some(found)
    }

    /// The paths of all plain documents, `/api` included. That of the groups has a form with a slash at its end, which clients
    /// of old look for.
    pub fn discovery_paths(&self) -> Vec<String> {
        let mut paths = vec!["/api".to_owned(), NAMED.to_owned(), format!("{NAMED}/")];
        for group in self.groups() {
            let root = if group.name.is_empty() { "/api" } else { NAMED };
            if !group.name.is_empty() {
                paths.push(format!("{NAMED}/{}", group.name));
            }
            paths.extend(group.versions.iter().map(|version| format!("{root}/{}", version.api_version)));
        }
        paths
    }

    /// Whether `path` is the core API's or a built-in group's, or below: what is not found there is told by a Status.
    pub fn covers(&self, path: &str) -> bool {
        let mut segments = path.strip_prefix('/').unwrap_or(path).split('/');
        match (segments.next(), segments.next()) {
            (Some("api"), _) => true,
            (Some("apis"), Some(group)) => {
                !group.is_empty() && self.group(group).is_some_and(|group| !group.is_declared())
            }
            _ => false,
        }
    }

    /// The aggregated document of the core group, or of all named groups, in number `version` of [`VERSIONS`].
    pub fn aggregated_discovery(&self, core: bool, version: usize) -> Option<&Aggregated> {
        self.roots.aggregated.get(self, core, version)
    }

    /// The item of `group` in the aggregated document.
    pub(crate) fn aggregated_item<'a>(&self, group: &'a Group) -> &'a Arc<Item> {
        &self.summary(group).aggregated
    }

    fn make_roots(&self) {
        // Named groups last: they tell that all are there.
        for (core, version) in
            [true, false].into_iter().flat_map(|core| (0..VERSIONS.len()).map(move |of| (core, of)))
        {
            self.roots.aggregated.get(self, core, version);
        }
        self.roots.named.get_or_init(|| self.named_groups());
    }

    fn list<'a>(&self, of: &'a GroupVersion) -> &'a Plain {
        of.list.get_or_init(|| {
            let entries: Vec<Value> =
                of.resources.iter().flat_map(|resource| self.entries(resource)).collect();
            let list = json!({"groupVersion": of.api_version, "resources": entries});
            // The core group has no name, and its version is all of `apiVersion`.
            let new = if of.api_version == of.version { Plain::of_core } else { Plain::new };
            new("APIResourceList", &list)
        })
    }

    fn summary<'a>(&self, group: &'a Group) -> &'a Summary {
        group.summary.get_or_init(|| {
            let listed = api_group(group);
            let document = Plain::new("APIGroup", &listed);
            Summary { document, listed, aggregated: Arc::new(aggregated::group(group)) }
        })
    }

    fn named_groups(&self) -> Plain {
        let named = self.groups().filter(|group| !group.name.is_empty());
        let groups: Vec<Value> = named.map(|group| self.summary(group).listed.clone()).collect();
        Plain::new("APIGroupList", &json!({"groups": groups}))
    }

    /// The storage version hash, as the reference computes it. It changes with the version in which `resource` is stored. `None`:
    /// that version of a declared kind is not served.
    fn storage_hash(&self, resource: &Resource) -> Option<String> {
        let stored = self.stored(&resource.storage).map_or(resource, |stored| stored);
        let is_served = stored.stored_version().is_none_or(|version| *version == stored.version);
        let name = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
        is_served.then(|| STANDARD.encode(&Sha256::digest(name)[..8]))
    }

    /// The entries of a resource and its sub-resources.
    fn entries(&self, resource: &Resource) -> Vec<Value> {
        let mut whole = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": verbs(resource),
        });
        if !resource.short_names.is_empty() {
            whole["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            whole["categories"] = json!(resource.categories);
        }
        if let Some(hash) = self.storage_hash(resource).filter(|_| is_stored(resource)) {
            whole["storageVersionHash"] = json!(hash);
        }
        let mut entries = vec![whole];
        for subresource in parts(resource) {
            let mut part = json!({
                "name": format!("{}/{}", resource.plural, subresource.name),
                "singularName": "",
                "namespaced": resource.namespaced,
            });
            if (&subresource.group, &subresource.version) != (&resource.group, &resource.version) {
                part["group"] = json!(subresource.group);
                part["version"] = json!(subresource.version);
            }
            part["kind"] = json!(subresource.kind);
            part["verbs"] = json!(subresource.verbs);
            entries.push(part);
        }
        entries
    }
}

/// The verbs that discovery tells of. Objects of a definition that is being deleted are still changed, so that finalizers can be
/// removed, but clients are not told so.
fn verbs(resource: &Resource) -> Vec<&str> {
    let verbs = resource.verbs.iter().map(String::as_str);
    let is_told = |verb: &&str| match resource.stage {
        Stage::Terminating => !matches!(*verb, "create" | "update" | "patch"),
        Stage::Accepted | Stage::Established => true,
    };
    verbs.filter(is_told).collect()
}

/// A group and its versions; the first is the preferred one.
fn api_group(group: &Group) -> Value {
    let version = |of: &Arc<GroupVersion>| json!({"groupVersion": of.api_version, "version": of.version});
    let all: Vec<Value> = group.versions.iter().map(version).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": all, "preferredVersion": preferred})
}

/// Whether objects of the resource are kept: reviews and bindings are answered once, component statuses are made when they
/// are read.
fn is_stored(resource: &Resource) -> bool {
    resource.allows(Verb::Get) && resource.allows(Verb::Create)
}

fn extend(document: &mut Value, more: &Value) {
    if let (Value::Object(fields), Value::Object(more)) = (document, more) {
        fields.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    fn found(path: &str) -> Value {
        let path = path.strip_suffix('/').unwrap_or(path);
        let registry = Registry::builtin(&ORCH);
        registry.discovery(path).map(|plain| plain.value.clone()).unwrap_or_default()
    }

    #[test]
    fn every_group_leads_to_its_resources() {
        let groups = found("/apis");
        assert!(groups["groups"].as_array().is_some_and(|groups| groups.len() > 5));
        for group in groups["groups"].as_array().unwrap() {
            let path = format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str().unwrap());
            assert_eq!(found(&path)["kind"], "APIResourceList", "{path}");
            assert_eq!(found(&format!("/apis/{}/", group["name"].as_str().unwrap()))["kind"], "APIGroup");
        }
        let versions =
            ["/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"].map(|path| found(path)["apiVersion"].clone());
        assert_eq!(versions, [json!(null), json!("v1"), json!("v1"), json!("v1")]);
        for path in ["/apis/nope", "/apis//v1", "/apis/apps/v1/x", "/api/v1/x", "/api/v2", "apis", ""] {
            assert_eq!(found(path), Value::Null, "{path}");
        }
    }

    #[test]
    fn a_resource_tells_its_names_scope_and_verbs() {
        let core = found("/api/v1");
        let named =
            |name: &str| core["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned();
        let pods = named("pods").unwrap();
        assert_eq!((&pods["shortNames"], &pods["namespaced"]), (&json!(["po"]), &json!(true)));
        assert_eq!(named("pods/status").unwrap()["verbs"], json!(["get", "patch", "update"]));
        assert_eq!(named("namespaces").unwrap()["namespaced"], json!(false));
    }

    #[test]
    fn resources_are_told_by_name_with_the_hash_of_their_stored_version() {
        let core = found("/api/v1");
        let names: Vec<&str> =
            core["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert!(names.is_sorted() && names.contains(&"pods/status"), "{names:?}");
        let hash = |path: &str, name: &str| {
            let list = found(path);
            list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned().unwrap()
                ["storageVersionHash"]
                .clone()
        };
        // As recorded from the reference, whose core group has the same name.
        assert_eq!(hash("/api/v1", "pods"), "xPOwRZ+Yhw8=");
        assert_eq!(hash("/api/v1", "events"), "r2yiGXH7wu8=");
        assert_eq!(hash("/apis/events.orch.io/v1", "events"), "r2yiGXH7wu8=", "stored in the core group");
        assert_eq!(hash("/api/v1", "pods/status"), Value::Null);
        for (path, name) in [
            ("/api/v1", "bindings"),
            ("/api/v1", "componentstatuses"),
            ("/apis/authentication.orch.io/v1", "tokenreviews"),
            ("/apis/authorization.orch.io/v1", "subjectaccessreviews"),
        ] {
            assert_eq!(hash(path, name), Value::Null, "{path}/{name} is not stored");
        }
    }

    #[test]
    fn every_path_leads_to_a_document() {
        let registry = Registry::builtin(&ORCH);
        let paths = registry.discovery_paths();
        assert!(paths.len() > 30);
        for path in paths.iter().filter(|path| *path != "/api") {
            let path = path.strip_suffix('/').unwrap_or(path);
            assert!(registry.discovery(path).is_some(), "{path}");
            assert!(path == NAMED || registry.covers(&format!("{path}/x")), "{path}");
        }
        assert!(!registry.covers("/apis/nope") && !registry.covers("/apis") && !registry.covers("/x"));
    }

    #[test]
    fn a_change_leaves_the_documents_of_other_groups_where_they_are() {
        let before = Registry::builtin(&ORCH);
        let at = |registry: &Registry, path: &str| std::ptr::from_ref(registry.discovery(path).unwrap());
        let paths = ["/api/v1", "/apis/apps/v1", "/apis/apps", "/apis/batch/v1"];
        let was = paths.map(|path| at(&before, path));
        let after = before.without("deployments.apps");
        let is = paths.map(|path| at(&after, path));
        let same: Vec<bool> = was.into_iter().zip(is).map(|(one, other)| one == other).collect();
        assert_eq!(same, [true, false, false, true]);
        let names = after.discovery("/apis/apps/v1").unwrap().value["resources"].to_string();
        assert!(!names.contains("deployments") && names.contains("replicasets"), "{names}");
    }
}
