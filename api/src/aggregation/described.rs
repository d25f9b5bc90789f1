//! Documents of aggregated servers: the resources that they say they serve.
//!
//! Owns the documents of this node, one for each group and version, as items of aggregated discovery, and reading them from the
//! two forms in which servers tell them. A server that does not answer, or tells what clients could not decode, is remembered as stale,
//! without resources. The loop
//! `controllers::api_services::described` asks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::checked::{Fault, checked};
use crate::openapi::VERSION_3;

/// Resources of one group and version that are remembered: ten times those of the largest public server.
const RESOURCES_MAX: usize = 2_000;

/// Bytes of the resources of one group and version: each client reads those of all servers when it starts. The largest public server
/// has a tenth.
const DESCRIPTION_BYTES_MAX: usize = 1 << 20;

/// Bytes of the hash of an OpenAPI document: those of SHA-512 in hexadecimal.
const HASH_BYTES_MAX: usize = 128;

/// The documents, by the name of the APIService. Their number is that of these objects.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    known: Mutex<Inner>,
    /// Counts changes.
    generation: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<Arc<str>, Description>,
    /// Paths of OpenAPI documents, with their hashes, by the name of the APIService.
    openapi: HashMap<Arc<str>, String>,
}

/// What a server says of one group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    /// The items of its resources in aggregated discovery.
    Current(Arc<[Value]>),
    /// It does not answer.
    Stale,
}

/// The reason why a document describes no group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undescribed {
    /// It is not about them.
    Absent,
    /// Clients could not decode it.
    Garbled(Fault),
}

impl Descriptions {
    /// Remembers what the server of the APIService `name` says. The result says whether that is something else than before.
    pub(crate) fn set(&self, name: &Arc<str>, description: Description) -> bool {
        let mut inner = self.known.lock();
        let is_changed = inner.known.get(name) != Some(&description);
        if is_changed {
            inner.known.insert(name.clone(), description);
            self.note_change();
        }
        is_changed
    }

    /// Forgets the server of the APIService `name`.
    pub(crate) fn remove(&self, name: &str) {
        let mut inner = self.known.lock();
        inner.openapi.remove(name);
        if inner.known.remove(name).is_some() {
            self.note_change();
        }
    }

    fn note_change(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// The changes from now on.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// What is known of the APIService `name`; `None`: its server was not asked yet.
    pub(crate) fn find(&self, name: &str) -> Option<Description> {
        self.known.lock().known.get(name).cloned()
    }

    /// Remembers where the server of the APIService `name` has the OpenAPI document of its group and version; `None`: nowhere.
    pub(crate) fn set_openapi(&self, name: &Arc<str>, url: Option<String>) {
        let mut inner = self.known.lock();
        match url {
            Some(url) => drop(inner.openapi.insert(name.clone(), url)),
            None => drop(inner.openapi.remove(name)),
        }
    }

    /// Where the server of the APIService `name` has its OpenAPI document.
    pub(crate) fn openapi(&self, name: &str) -> Option<String> {
        self.known.lock().openapi.get(name).cloned()
    }

    /// The number of changes so far.
    pub(crate) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }
}

/// Where the OpenAPI document of `path` (`/apis/GROUP/VERSION`) is, by the index of its server; `None`: it has none, or says that it
/// is elsewhere.
pub(crate) fn openapi_of_index(index: &Value, path: &str) -> Option<String> {
    let url = index.at("paths").at(path.strip_prefix('/')?).text("serverRelativeURL");
    let rest = url.strip_prefix(VERSION_3)?.strip_prefix(path)?;
    let is_hash = rest.strip_prefix("?hash=").is_some_and(|hash| {
        hash.len() <= HASH_BYTES_MAX && hash.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    (rest.is_empty() || is_hash).then(|| url.to_owned())
}

/// The resources of `group` and `version` in a document of aggregated discovery.
///
/// # Errors
/// It has none of them, or its server has them as stale; a resource cannot be used.
pub(crate) fn of_aggregated(
    document: &Value,
    group: &str,
    version: &str,
) -> Result<Arc<[Value]>, Undescribed> {
    // once: one group is looked for, in a document of bounded size.
    let group = document.items("items").iter().find(|item| item.at("metadata").text("name") == group);
    let group = group.ok_or(Undescribed::Absent)?;
    // few: the versions of one group.
    let version = group.items("versions").iter().find(|item| item.text("version") == version);
    let version = version.ok_or(Undescribed::Absent)?;
    if version.text("freshness") == "Stale" {
        return Err(Undescribed::Absent);
    }
    bounded(version.items("resources").iter())
}

/// The first of `items`, checked.
fn bounded<'a>(items: impl Iterator<Item = &'a Value>) -> Result<Arc<[Value]>, Undescribed> {
    let items: Result<Vec<Value>, Fault> = items.take(RESOURCES_MAX).map(checked).collect();
    let items = items.map_err(Undescribed::Garbled)?;
    let mut names: HashSet<&str> = HashSet::with_capacity(items.len());
    if !items.iter().all(|item| names.insert(item.text("resource"))) {
        return Err(Undescribed::Garbled("a resource is told of twice"));
    }
    let bytes: usize = items.iter().map(|item| item.to_string().len()).sum();
    if bytes > DESCRIPTION_BYTES_MAX {
        return Err(Undescribed::Garbled("its resources are too large"));
    }
    Ok(items.into())
}

/// The resources of a plain document of a group and version (`APIResourceList`).
///
/// # Errors
/// It is another one; a resource cannot be used.
pub(crate) fn of_list(document: &Value, api_version: &str) -> Result<Arc<[Value]>, Undescribed> {
    if document.text("kind") != "APIResourceList" || document.text("groupVersion") != api_version {
        return Err(Undescribed::Absent);
    }
    let mut items: Vec<Value> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for resource in document.items("resources").iter().take(RESOURCES_MAX) {
        let (name, part) = match resource.text("name").split_once('/') {
            Some((name, part)) => (name, Some(part)),
            None => (resource.text("name"), None),
        };
        let at = *places.entry(name).or_insert_with(|| {
            let scope = if resource.flag("namespaced") { "Namespaced" } else { "Cluster" };
            items.push(json!({"resource": name, "scope": scope}));
            items.len() - 1
        });
        match part {
            Some(part) => {
                let entry = json!({
                    "subresource": part, "responseKind": kind(resource), "verbs": resource.at("verbs").clone(),
                });
                match items[at].get_mut("subresources").and_then(Value::as_array_mut) {
                    Some(parts) => parts.push(entry),
                    None => items[at]["subresources"] = json!([entry]),
                }
            }
            None => fill(&mut items[at], resource),
        }
    }
    bounded(items.iter())
}

/// Fills in the members of a resource that is told of by itself.
fn fill(item: &mut Value, resource: &Value) {
    item["responseKind"] = kind(resource);
    item["singularResource"] = json!(resource.text("singularName"));
    item["verbs"] = resource.at("verbs").clone();
    for field in ["shortNames", "categories"] {
        if !resource.items(field).is_empty() {
            item[field] = resource.at(field).clone();
        }
    }
}

fn kind(resource: &Value) -> Value {
    json!({
        "group": resource.text("group"), "version": resource.text("version"), "kind": resource.text("kind"),
    })
}
