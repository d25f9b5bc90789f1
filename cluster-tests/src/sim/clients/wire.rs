//! The parts of the API's JSON that simulated clients read: name, version and watch events.
//!
//! Owns these few fields. Unreadable JSON is an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_raft::Revision;
use serde::Deserialize;

use crate::sim::history::{MARK, TAG, Tag, Version};

/// One event of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The object, or the Status of an error.
    pub object: Document,
}

/// An object or a Status.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    /// `metadata` of an object.
    #[serde(default)]
    pub metadata: Metadata,
    /// HTTP status code of a Status.
    #[serde(default)]
    pub code: u16,
    /// Message of a Status.
    #[serde(default)]
    pub message: String,
}

/// Name, version and labels of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// `namespace/name`.
    pub(super) fn path(&self) -> Arc<str> {
        let Metadata { name, namespace, .. } = self;
        if namespace.is_empty() { Arc::from(&**name) } else { Arc::from(format!("{namespace}/{name}")) }
    }

    /// The object's `resourceVersion`; `None` if it is no number.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.resource_version.parse().ok().map(Revision)
    }

    /// The object's version.
    pub(super) fn version(&self) -> Option<Version> {
        let tag = Tag::read(self.labels.get(TAG).map(String::as_str), &self.uid);
        Some(Version { revision: self.revision()?, tag, marked: self.labels.contains_key(MARK) })
    }

    /// It is the bookmark that ends the initial events of a streaming list.
    pub(super) fn ends_initial_events(&self) -> bool {
        self.annotations.keys().any(|key| key.ends_with("/initial-events-end"))
    }
}

/// Path and version of a stored object, as a client of the API reads them.
pub(super) fn item(json: &[u8]) -> Option<(Arc<str>, Version)> {
    let document: Document = serde_json::from_slice(json).ok()?;
    Some((document.metadata.path(), document.metadata.version()?))
}
