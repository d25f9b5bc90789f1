//! Stored objects as admission plugins and callers of webhooks see them.

use orch_raft::object::SharedObject;
use orch_raft::state::NAMESPACES;
use orch_raft::{Key, Store};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use crate::follow::Applied;

/// Stored objects at one revision, addressed by storage resource (`priorityclasses.scheduling`). The namespace is empty
/// for cluster scope.
#[derive(Clone, Debug)]
pub struct View(Applied);

impl View {
    /// The state that this node has applied.
    pub fn of<S: Store>(store: &S) -> Self {
        View(Applied::of(store))
    }

    /// The state behind this view.
    pub(crate) fn applied(&self) -> &Applied {
        &self.0
    }

    /// Whether nothing was applied between this view and `other`.
    pub(crate) fn is_same(&self, other: &View) -> bool {
        self.0.is_same(&other.0)
    }

    /// Whether the object under `key` still has this version, or is still absent.
    pub(crate) fn has(&self, key: &Key, version: Option<&SharedObject>) -> bool {
        self.0.state.object(key).map(|object| object.revision) == version.map(|object| object.revision)
    }

    /// The object of this name. `None`: there is none.
    pub fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(&resource.into(), namespace, name).ok()?;
        serde_json::from_slice(&self.0.state.object(&key)?.json).ok()
    }

    /// Whether there is an object of this name.
    pub(crate) fn has_object(&self, resource: &str, namespace: &str, name: &str) -> bool {
        Key::new(&resource.into(), namespace, name).is_ok_and(|key| self.0.state.object(&key).is_some())
    }

    /// All objects in the namespace, or in all namespaces where it is empty, in the order of their paths.
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let collection = self.0.state.collection(resource);
        collection
            .within(namespace, "")
            .filter_map(|(_, object)| serde_json::from_slice(&object.json).ok())
            .collect()
    }

    /// Whether the namespace is being terminated. `None`: there is no such namespace.
    pub fn is_terminating(&self, namespace: &str) -> Option<bool> {
        let namespaces = self.0.state.collection(NAMESPACES);
        namespaces.get(namespace).map(|found| found.index.terminating)
    }

    /// The labels of a namespace. `None`: there is no such namespace.
    pub fn labels_of(&self, namespace: &str) -> Option<Labels> {
        let namespaces = self.0.state.collection(NAMESPACES);
        namespaces.get(namespace).map(|found| Labels(found.clone()))
    }

    /// The annotation `name` of a namespace; `None` where it has none.
    pub fn annotation_of(&self, namespace: &str, name: &str) -> Option<String> {
        let namespace = self.find(NAMESPACES, "", namespace)?;
        namespace.at("metadata").at("annotations").at(name).as_str().map(str::to_owned)
    }

    #[cfg(test)]
    pub(crate) fn certain(state: orch_raft::State) -> Self {
        View(Applied::certain(state.into()))
    }
}

/// The labels of a stored object.
#[derive(Clone, Debug)]
pub struct Labels(SharedObject);

impl Labels {
    /// The value of the label `key`; `None` where there is none.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.index.labels.find(key)
    }
}
