//! Discovery: the served groups, versions and resources.
//!
//! Owns the documents at `/api`, `/apis` and the groups' paths, built once from the registry: plain ones, and aggregated
//! ones for clients that ask for them. The representation of a plain document is chosen for each request.

mod aggregated;
mod answer;
mod order;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::Value;
use order::{groups, parts};
use sha2::{Digest, Sha256};

use crate::negotiate::Encoding;
use crate::registry::{Registry, Resource};
use crate::request::Verb;

pub(super) use aggregated::{Aggregated, LIST_MESSAGE};
pub(super) use answer::{answer_aggregated, answer_plain};

/// The discovery documents of one registry.
pub(super) struct Documents {
    brand: &'static Brand,
    /// By path, without a trailing slash.
    plain: BTreeMap<String, Plain>,
    aggregated: aggregated::Lists,
}

/// A plain discovery document.
pub(super) struct Plain {
    /// Its type in the package `meta.v1`.
    pub(super) kind: &'static str,
    pub(super) value: Value,
}

impl Plain {
    fn new(kind: &'static str, fields: &Value) -> Plain {
        let mut value = json!({"kind": kind, "apiVersion": "v1"});
        extend(&mut value, fields);
        Plain { kind, value }
    }

    /// A document of the core API, which is older than `apiVersion` in documents of discovery, and has none.
    fn of_core(kind: &'static str, fields: &Value) -> Plain {
        let mut value = json!({"kind": kind});
        extend(&mut value, fields);
        Plain { kind, value }
    }
}

impl Documents {
    /// The documents of all resources in `registry`, served at `address` (`HOST:PORT`), if known.
    pub(super) fn of(registry: &Registry, address: Option<&str>) -> Self {
        let mut plain = BTreeMap::new();
        let mut named = Vec::new();
        for (group, versions) in groups(registry) {
            let root = if group.is_empty() { "/api" } else { "/apis" };
            for (_, resources) in &versions {
                let entries: Vec<Value> =
                    resources.iter().flat_map(|resource| entries(registry, resource)).collect();
                let Some(api_version) = resources.first().map(|resource| resource.api_version()) else {
                    continue;
                };
                let list = json!({"groupVersion": api_version, "resources": entries});
                let new = if group.is_empty() { Plain::of_core } else { Plain::new };
                plain.insert(format!("{root}/{api_version}"), new("APIResourceList", &list));
            }
            if group.is_empty() {
                continue;
            }
            let versions: Vec<&str> = versions.iter().map(|(version, _)| *version).collect();
            let group_document = api_group(group, &versions);
            plain.insert(format!("/apis/{group}"), Plain::new("APIGroup", &group_document));
            named.push(group_document);
        }
        plain.insert("/apis".to_owned(), Plain::new("APIGroupList", &json!({"groups": named})));
        let addresses = address.map(|address| json!({"clientCIDR": "0.0.0.0/0", "serverAddress": address}));
        let addresses: Vec<Value> = addresses.into_iter().collect();
        let core = json!({"versions": ["v1"], "serverAddressByClientCIDRs": addresses});
        plain.insert("/api".to_owned(), Plain::of_core("APIVersions", &core));
        Documents { brand: registry.brand, plain, aggregated: aggregated::Lists::of(registry) }
    }

    /// The plain document at `path`, which has no trailing slash.
    pub(super) fn find(&self, path: &str) -> Option<&Plain> {
        self.plain.get(path)
    }

    /// The paths of all documents. That of the groups has a form with a slash at its end, which clients of old look for.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.plain.keys().map(String::as_str).chain(std::iter::once("/apis/"))
    }

    /// Whether `path` is the core API's or a served group's, or below.
    pub(super) fn covers(&self, path: &str) -> bool {
        let mut segments = path.strip_prefix('/').unwrap_or(path).split('/');
        match (segments.next(), segments.next()) {
            (Some("api"), _) => true,
            (Some("apis"), Some(group)) => self.plain.contains_key(&format!("/apis/{group}")),
            _ => false,
        }
    }

    /// The aggregated document at `path`, which has no trailing slash, and its encoding, if `accept` asks for it.
    pub(super) fn find_aggregated(&self, path: &str, accept: &str) -> Option<(&Aggregated, Encoding)> {
        self.aggregated.find(path, accept, self.brand)
    }
}

/// A group and its versions; the first is the preferred one.
fn api_group(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(version).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": group, "versions": all, "preferredVersion": preferred})
}

/// Whether objects of the resource are kept: reviews and bindings are answered once, component statuses are made when they
/// are read.
fn is_stored(resource: &Resource) -> bool {
    resource.allows(Verb::Get) && resource.allows(Verb::Create)
}

/// The storage version hash, as the reference computes it. It changes with the version in which `resource` is stored.
fn storage_hash(registry: &Registry, resource: &Resource) -> String {
    let mut alike = registry.resources().map(Arc::as_ref).filter(|other| other.storage == resource.storage);
    let stored = alike.find(|other| other.is_storage_version()).unwrap_or(resource);
    let name = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
    STANDARD.encode(&Sha256::digest(name)[..8])
}

/// The entries of a resource and its sub-resources.
fn entries(registry: &Registry, resource: &Resource) -> Vec<Value> {
    let mut whole = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        whole["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        whole["categories"] = json!(resource.categories);
    }
    if is_stored(resource) {
        whole["storageVersionHash"] = json!(storage_hash(registry, resource));
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
        let documents = Documents::of(&Registry::builtin(&ORCH), Some("10.0.0.1:6443"));
        let path = path.strip_suffix('/').unwrap_or(path);
        documents.find(path).map(|plain| plain.value.clone()).unwrap_or_default()
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
        assert_eq!(found("/api")["versions"], json!(["v1"]));
        let versions = ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"]
            .map(|path| found(path)["apiVersion"].clone());
        assert_eq!(versions, [json!(null), json!(null), json!("v1"), json!("v1"), json!("v1")]);
        assert_eq!(found("/apis/nope"), Value::Null);
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
    fn the_root_tells_where_the_server_is() {
        let expected = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}]);
        assert_eq!(found("/api")["serverAddressByClientCIDRs"], expected);
    }
}
