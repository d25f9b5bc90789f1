//! What admission may read of the store: a view of this node's state.

use std::sync::Arc;

use orch_raft::State;
use serde_json::Value;

use crate::kinds::Objects;

/// The state as admission sees it.
pub(super) struct StateObjects(pub(super) Arc<State>);

impl Objects for StateObjects {
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
}
