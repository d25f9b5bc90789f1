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

/// A server's description of one group and version.
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

    /// The description of the APIService `name`; `None`: its server was not asked yet.
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
    let told = || document.items("resources").iter().take(RESOURCES_MAX);
    let mut items: Vec<Value> = told().filter(|of| !of.text("name").contains('/')).map(item).collect();
    let places = items.iter().enumerate().map(|(at, item)| (item.text("resource").to_owned(), at));
    let mut places: HashMap<String, usize> = places.collect();
    for part in told() {
        let Some((name, own)) = part.text("name").split_once('/') else { continue };
        let at = *places.entry(name.to_owned()).or_insert_with(|| {
            items.push(json!({"resource": name, "scope": scope(part)}));
            items.len() - 1
        });
        if items[at].text("scope") != scope(part) {
            return Err(Undescribed::Garbled("a sub-resource is of another scope than its resource"));
        }
        let entry =
            json!({"subresource": own, "responseKind": kind(part), "verbs": part.at("verbs").clone()});
        match items[at].get_mut("subresources").and_then(Value::as_array_mut) {
            Some(parts) => parts.push(entry),
            None => items[at]["subresources"] = json!([entry]),
        }
    }
    bounded(items.iter())
}

/// The item of a resource in such a document, which is no sub-resource.
fn item(resource: &Value) -> Value {
    let mut item = json!({
        "resource": resource.text("name"), "responseKind": kind(resource), "scope": scope(resource),
        "singularResource": resource.text("singularName"), "verbs": resource.at("verbs").clone(),
    });
    for field in ["shortNames", "categories"] {
        if !resource.items(field).is_empty() {
            item[field] = resource.at(field).clone();
        }
    }
    item
}

fn scope(resource: &Value) -> &'static str {
    if resource.flag("namespaced") { "Namespaced" } else { "Cluster" }
}

/// The kind of a resource; without a kind of its own a sub-resource has no group and version of one either.
fn kind(resource: &Value) -> Value {
    let is_named = !resource.text("kind").is_empty() || !resource.text("name").contains('/');
    let text = |field: &str| if is_named { resource.text(field) } else { "" };
    json!({"group": text("group"), "version": text("version"), "kind": text("kind")})
}
