//! Nominated pods: their preemption's victims have not yet left the node.
//!
//! Owns them by node.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::objects::intern::Symbol;
use crate::objects::pod::Pod;

/// Nominated pods.
#[derive(Debug, Default)]
pub struct Nominations {
    by_node: HashMap<Symbol, Vec<Arc<Pod>>>,
    node_of: HashMap<Arc<str>, Symbol>,
}

impl Nominations {
    /// Nominates a pod to a node. It must not be nominated to one already.
    pub(super) fn nominate(&mut self, pod: Arc<Pod>, node: Symbol) {
        self.node_of.insert(Arc::clone(&pod.uid), node);
        self.by_node.entry(node).or_default().push(pod);
    }

    /// Forgets a pod. Returns the node that it was nominated to.
    pub(super) fn withdraw(&mut self, uid: &str) -> Option<Symbol> {
        let node = self.node_of.remove(uid)?;
        let pods = self.by_node.get_mut(&node).expect("both tables name the same nominations");
        pods.retain(|pod| &*pod.uid != uid);
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
        Some(node)
    }

    /// The pods nominated to a node.
    pub fn on(&self, node: Symbol) -> &[Arc<Pod>] {
        self.by_node.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The node that a pod is nominated to.
    pub fn node_of(&self, uid: &str) -> Option<Symbol> {
        self.node_of.get(uid).copied()
    }

    /// Nodes with nominated pods.
    pub fn nodes(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.by_node.keys().copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }
}
