//! Discovery: which groups, versions and resources are served, as clients ask before they ask for anything else.
//!
//! Owns the documents behind `/api`, `/apis` and the groups' paths, made once from the registry.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Document;
use crate::registry::{Registry, Resource};

/// The documents by path, without a slash at the end.
pub(super) struct Documents(BTreeMap<String, Document>);

impl Documents {
    /// The documents of all resources in `registry`.
    pub(super) fn of(registry: &Registry) -> Self {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut resources: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for resource in registry.resources() {
            let (group, version) = (resource.group.as_str(), resource.version.as_str());
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, versions)) if versions.contains(&version) => {}
                Some((_, versions)) => versions.push(version),
                None => groups.push((group, vec![version])),
            }
            resources.entry(resource.api_version()).or_default().extend(entries(resource));
        }
        let mut documents = BTreeMap::new();
        for (api_version, resources) in resources {
            let root = if api_version.contains('/') { "/apis" } else { "/api" };
            let list = json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources,
            });
            documents.insert(format!("{root}/{api_version}"), document(&list));
        }
        let mut named = Vec::new();
        for (group, versions) in groups.iter().filter(|(group, _)| !group.is_empty()) {
            let group_document = api_group(group, versions);
            let mut alone = json!({"kind": "APIGroup", "apiVersion": "v1"});
            extend(&mut alone, &group_document);
            documents.insert(format!("/apis/{group}"), document(&alone));
            named.push(group_document);
        }
        let all = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": named});
        documents.insert("/apis".to_owned(), document(&all));
        let core = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
        documents.insert("/api".to_owned(), document(&core));
        Documents(documents)
    }

    /// The document behind `path`.
    pub(super) fn find(&self, path: &str) -> Option<Document> {
        self.0.get(path.trim_end_matches('/')).cloned()
    }
}

fn document(value: &Value) -> Document {
    value.to_string().into()
}

/// A group and its versions; the first is the preferred one.
fn api_group(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(version).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": group, "versions": all, "preferredVersion": preferred})
}

/// A resource and its sub-resources.
fn entries(resource: &Resource) -> Vec<Value> {
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
    let mut entries = vec![whole];
    for subresource in &resource.subresources {
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
        let documents = Documents::of(&Registry::builtin(&ORCH));
        documents.find(path).map_or(Value::Null, |document| serde_json::from_slice(&document).unwrap())
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
}
