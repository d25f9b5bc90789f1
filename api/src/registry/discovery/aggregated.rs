//! Aggregated discovery: all groups, versions and resources in one document.
//!
//! Owns the documents at `/api` and `/apis` for clients that ask for them by parameters of `Accept`, their versions, and
//! their hashes. They are put together from the items of the groups (`item`) when they are first asked for.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use orch_proto::Brand;
use orch_schema::Subresource;
use orch_schema::json;
use orch_schema::value::Value;
use sha2::{Digest, Sha512};

use super::item::{Item, gathered, gzipped};
use super::order::parts;
use crate::registry::{Group, GroupVersion, Registry, Resource};

/// Value of the parameter `as` in `Accept`.
pub const LIST_KIND: &str = "APIGroupDiscoveryList";

/// Stem of the documents' own group.
pub const GROUP_STEM: &str = "apidiscovery";

/// Versions of the documents, best first. Their contents are the same.
pub const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// Length from which on a document is compressed: the reference's threshold for all answers.
pub(crate) const COMPRESS_FROM_BYTES: usize = 128 * 1024;

/// End of a document, behind its items.
const TAIL: &str = "]}\n";

/// A document with its headers.
pub struct Aggregated {
    /// The parameters of the media type in the `Content-Type` header: `;g=GROUP;v=VERSION;as=KIND`.
    pub parameters: String,
    /// Quoted, as in the header; the same for every encoding, as in the reference. It is a hash of those of the groups' items.
    pub etag: String,
    /// Compact JSON, in pieces that are mostly the groups' own bytes.
    frames: Vec<Bytes>,
    /// The same compressed, for large ones.
    compressed: Option<Vec<Bytes>>,
}

/// The type of the documents; both versions have the same fields.
pub const LIST_MESSAGE: &str = "apidiscovery.v2.APIGroupDiscoveryList";

/// The documents of both roots, in each version.
#[derive(Default)]
pub(super) struct Lists {
    /// For `/api`: the core group.
    core: [OnceLock<Aggregated>; VERSIONS.len()],
    /// For `/apis`: all named groups.
    named: [OnceLock<Aggregated>; VERSIONS.len()],
}

impl Lists {
    /// The document of the core group, or of all named groups, in number `version` of [`VERSIONS`].
    pub(super) fn get(&self, registry: &Registry, core: bool, version: usize) -> Option<&Aggregated> {
        let lists = if core { &self.core } else { &self.named };
        let list_of = || {
            let groups = registry.groups().filter(|group| group.name.is_empty() == core);
            let items: Vec<Arc<Item>> =
                groups.map(|group| registry.summary(group).aggregated.clone()).collect();
            Aggregated::of(registry.brand, VERSIONS[version], &items)
        };
        lists.get(version).map(|kept| kept.get_or_init(list_of))
    }
}

impl Aggregated {
    /// The document of these items of groups in `version`. It is compressed here, which takes a time: no request does that.
    pub(crate) fn of(brand: &Brand, version: &str, items: &[Arc<Item>]) -> Aggregated {
        let group = brand.group(GROUP_STEM);
        let head =
            format!(r#"{{"kind":"{LIST_KIND}","apiVersion":"{group}/{version}","metadata":{{}},"items":["#);
        let mut hash = Sha512::new_with_prefix(&head);
        items.iter().for_each(|item| hash.update(item.digest()));
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect();
        let head = Bytes::from(head);
        let frames = gathered(&head, items.iter().enumerate().map(|(at, item)| item.json(at)), TAIL);
        let length: usize = frames.iter().map(Bytes::len).sum();
        Aggregated {
            parameters: format!(";g={group};v={version};as={LIST_KIND}"),
            etag: format!("\"{hash}\""),
            compressed: (length >= COMPRESS_FROM_BYTES).then(|| gzipped(&head, items, TAIL)),
            frames,
        }
    }

    /// The document as compact JSON, in pieces.
    pub fn frames(&self) -> &[Bytes] {
        &self.frames
    }

    /// The same, compressed with gzip; `None`: it is sent as it is.
    pub fn compressed(&self) -> Option<&[Bytes]> {
        self.compressed.as_deref()
    }

    /// The document as a tree, for the other forms, which no client of the field asks for by itself: it is read from its text.
    pub fn value(&self) -> Value {
        let text = self.frames.concat();
        serde_json::from_slice(&text).expect("this server has written it")
    }
}

/// The item of a group.
pub(super) fn group(group: &Group) -> Item {
    let version = |of: &Arc<GroupVersion>| {
        let resources: Vec<Value> = of.resources.iter().map(|resource| entry(resource)).collect();
        json!({"version": of.version, "resources": resources, "freshness": "Current"})
    };
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    // The core group has no name.
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    Item::of(&json!({"metadata": metadata, "versions": versions}))
}

fn entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(own_api(resource), &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": super::verbs(resource),
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
    let api = if own { own_api(resource) } else { (&*part.group, &*part.version) };
    json!({"subresource": part.name, "responseKind": kind(api, &part.kind), "verbs": part.verbs})
}

/// Group and version of a resource's own kind: as in the reference, those of built-in ones are not told.
fn own_api(resource: &Resource) -> (&str, &str) {
    if resource.is_declared() { (&*resource.group, &*resource.version) } else { ("", "") }
}

/// A kind of a group and version.
fn kind((group, version): (&str, &str), kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
