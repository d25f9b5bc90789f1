//! Aggregated discovery: all groups, versions and resources in one document.
//!
//! Owns the documents at `/api` and `/apis` for clients that ask for them by parameters of `Accept`, their versions, and
//! their hashes. They are built once from the registry, and encoded for each request.

use orch_proto::Brand;
use orch_schema::Subresource;
use orch_schema::json;
use orch_schema::value::Value;
use sha2::{Digest, Sha512};

use super::order::{Versions, groups, parts};
use crate::negotiate::{Encoding, clauses, encoding_of};
use crate::registry::{Registry, Resource};

/// Value of the parameter `as` in `Accept`.
const LIST_KIND: &str = "APIGroupDiscoveryList";

/// Stem of the documents' own group.
const GROUP_STEM: &str = "apidiscovery";

/// Versions of the documents, best first. Their contents are the same.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// A document with its headers.
pub(in crate::http) struct Aggregated {
    /// The parameters of the media type in the `Content-Type` header: `;g=GROUP;v=VERSION;as=KIND`.
    pub(in crate::http) parameters: String,
    /// Quoted, as in the header; the same for every encoding, as in the reference.
    pub(in crate::http) etag: String,
    pub(in crate::http) value: Value,
}

/// The type of the documents; both versions have the same fields.
pub(in crate::http) const LIST_MESSAGE: &str = "apidiscovery.v2.APIGroupDiscoveryList";

/// The documents of both roots, in each version.
pub(super) struct Lists {
    /// For `/api`: the core group.
    core: Vec<Aggregated>,
    /// For `/apis`: all named groups.
    named: Vec<Aggregated>,
}

impl Lists {
    pub(super) fn of(registry: &Registry) -> Self {
        let (core, named): (Vec<_>, Vec<_>) =
            groups(registry).into_iter().partition(|(name, _)| name.is_empty());
        let written = |groups: &[(&str, Versions<'_>)]| {
            let items: Vec<Value> = groups.iter().map(|(name, versions)| group(name, versions)).collect();
            VERSIONS.iter().map(|version| list(registry.brand, version, &items)).collect()
        };
        Lists { core: written(&core), named: written(&named) }
    }

    /// The document at `path` in the best version and encoding that `accept` asks for. `None`: `accept` prefers the
    /// plain document, or `path` is neither root.
    pub(super) fn find(&self, path: &str, accept: &str, brand: &Brand) -> Option<(&Aggregated, Encoding)> {
        let lists = match path {
            "/api" => &self.core,
            "/apis" => &self.named,
            _ => return None,
        };
        for clause in clauses(accept) {
            let Some(encoding) = encoding_of(clause.media_type, brand) else { continue };
            let is_group = clause.parameter("g") == brand.group(GROUP_STEM);
            let version = VERSIONS.iter().position(|version| clause.parameter("v") == *version);
            match (clause.parameter("as"), version) {
                ("", _) => return None,
                (LIST_KIND, Some(at)) if is_group => return lists.get(at).map(|list| (list, encoding)),
                _ => {}
            }
        }
        None
    }
}

fn list(brand: &Brand, version: &str, groups: &[Value]) -> Aggregated {
    let group = brand.group(GROUP_STEM);
    let list = json!({
        "kind": LIST_KIND, "apiVersion": format!("{group}/{version}"), "metadata": {}, "items": groups,
    });
    let text = list.to_string();
    let hash: String = Sha512::digest(&text).iter().map(|byte| format!("{byte:02X}")).collect();
    Aggregated {
        parameters: format!(";g={group};v={version};as={LIST_KIND}"),
        etag: format!("\"{hash}\""),
        value: list,
    }
}

fn group(name: &str, versions: &Versions<'_>) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources.iter().map(|resource| entry(resource)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    // The core group has no name.
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(("", ""), &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let parts: Vec<Value> = parts(resource).into_iter().map(|part| subresource(resource, part)).collect();
    if !parts.is_empty() {
        entry["subresources"] = Value::Array(parts);
    }
    entry
}

fn subresource(resource: &Resource, part: &Subresource) -> Value {
    let own = (&part.group, &part.version) == (&resource.group, &resource.version);
    let api = if own { ("", "") } else { (&*part.group, &*part.version) };
    json!({"subresource": part.name, "responseKind": kind(api, &part.kind), "verbs": part.verbs})
}

/// A kind. Group and version are empty if they are the resource's own, as in the reference.
fn kind((group, version): (&str, &str), kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
