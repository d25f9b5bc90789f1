//! The view of stored objects that plugins decide by.

use std::sync::Arc;

use orch_raft::State;
use orch_raft::state::NAMESPACES;

use crate::schema::value::Value;

/// Stored objects at one revision, named by the resource they are stored under: `priorityclasses.scheduling`. The
/// namespace is empty for objects that have none.
pub trait View: Send + Sync {
    /// An object, in its stored form.
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value>;

    /// All objects in the namespace, or everywhere where it is empty, in order of their paths.
    fn list(&self, resource: &str, namespace: &str) -> Vec<Value>;

    /// Whether the namespace is being terminated. `None`: there is no such namespace.
    fn is_terminating(&self, namespace: &str) -> Option<bool>;
}

/// A state of this node as admission sees it.
pub(crate) struct StateView(pub(crate) Arc<State>);

impl View for StateView {
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let collection = self.0.collection(resource);
        let path = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        collection.get(&path).and_then(|object| serde_json::from_slice(&object.json).ok())
    }

    fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let collection = self.0.collection(resource);
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let within = collection.range_from(&prefix).take_while(|(path, _)| path.starts_with(&prefix));
        within.filter_map(|(_, object)| serde_json::from_slice(&object.json).ok()).collect()
    }

    fn is_terminating(&self, namespace: &str) -> Option<bool> {
        let namespaces = self.0.collection(NAMESPACES);
        namespaces.get(namespace).map(|found| found.index.terminating)
    }
}
