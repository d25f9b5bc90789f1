//! Nodes, their pods and their loads.
//!
//! Owns the slots of nodes, the sum of what the pods of each take, and the journal of slots that changed. A slot keeps
//! its number for the life of its node and is used again afterwards; columns elsewhere are indexed by it.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::objects::intern::Symbol;
use crate::objects::labels::Labels;
use crate::objects::node::Node;
use crate::objects::pod::Pod;

pub use super::load::Load;

/// Number of a node's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// As an index of columns.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(in crate::plan) fn of(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("fewer than 2^32 nodes fit in memory"))
    }
}

/// A node and its pods.
#[derive(Debug)]
pub struct Slot {
    /// The node's compact form.
    pub node: Node,
    /// The sum of its pods' requests.
    pub load: Load,
    /// Its pods, in no order.
    pub pods: Vec<Arc<Pod>>,
}

/// All nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    slots: Vec<Option<Slot>>,
    by_name: HashMap<Symbol, NodeId>,
    free: Vec<NodeId>,
    /// Keys of labels, and how many nodes have each.
    label_keys: HashMap<Symbol, usize>,
    journal: Journal,
    structure: u64,
}

impl Nodes {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The length of columns that are indexed by slots.
    pub fn columns(&self) -> usize {
        self.slots.len()
    }

    /// The node in a slot; `None` if the slot is free.
    pub fn slot(&self, id: NodeId) -> Option<&Slot> {
        self.slots[id.index()].as_ref()
    }

    /// The slot of a node by its name.
    pub fn find(&self, name: Symbol) -> Option<NodeId> {
        self.by_name.get(&name).copied()
    }

    /// All nodes in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Slot)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((NodeId::of(index), slot.as_ref()?)))
    }

    /// Changes with each node that comes, goes or changes its object; not with pods.
    pub fn structure(&self) -> u64 {
        self.structure
    }

    /// Whether any node has a label of this key.
    pub fn have_label(&self, key: Symbol) -> bool {
        self.label_keys.contains_key(&key)
    }

    fn count_keys(&mut self, labels: &Labels, by: isize) {
        for (key, _) in labels.pairs() {
            let count = self.label_keys.entry(*key).or_default();
            *count = count.saturating_add_signed(by);
            if *count == 0 {
                self.label_keys.remove(key);
            }
        }
    }

    /// Slots that changed.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Puts a node into its slot, or a new one. Returns the slot, and whether it is new.
    pub(super) fn upsert(&mut self, node: Node) -> (NodeId, bool) {
        self.structure += 1;
        let found = self.find(node.name);
        let id = found.unwrap_or_else(|| {
            let id = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                NodeId::of(self.slots.len() - 1)
            });
            self.by_name.insert(node.name, id);
            id
        });
        self.count_keys(&node.labels, 1);
        match &mut self.slots[id.index()] {
            Some(slot) => {
                let old = std::mem::replace(&mut slot.node, node);
                self.count_keys(&old.labels, -1);
            }
            free @ None => *free = Some(Slot { node, load: Load::default(), pods: Vec::new() }),
        }
        self.touch(id);
        (id, found.is_none())
    }

    /// Takes a node out. Its pods have to be detached before.
    pub(super) fn remove(&mut self, id: NodeId) {
        self.structure += 1;
        let slot = self.slots[id.index()].take().expect("the caller found the node");
        debug_assert!(slot.pods.is_empty(), "pods are detached before their node goes");
        self.by_name.remove(&slot.node.name);
        self.count_keys(&slot.node.labels, -1);
        self.free.push(id);
        self.touch(id);
    }

    /// Adds a pod to a node.
    pub(super) fn attach(&mut self, id: NodeId, pod: Arc<Pod>) {
        let slot = self.slots[id.index()].as_mut().expect("pods are attached to nodes that exist");
        slot.load.add(&pod);
        slot.pods.push(pod);
        self.touch(id);
    }

    /// Takes a pod off its node.
    pub(super) fn detach(&mut self, id: NodeId, uid: &str) -> Option<Arc<Pod>> {
        let slot = self.slots[id.index()].as_mut()?;
        let at = slot.pods.iter().position(|pod| &*pod.uid == uid)?;
        let pod = slot.pods.swap_remove(at);
        slot.load.remove(&pod);
        self.touch(id);
        Some(pod)
    }

    /// Notes in the journal that pods nominated to a node changed, if there is such a node.
    pub(super) fn touch_named(&mut self, name: Symbol) {
        if let Some(id) = self.find(name) {
            self.touch(id);
        }
    }

    fn touch(&mut self, id: NodeId) {
        let keep = self.slots.len() * JOURNAL_PER_NODE + JOURNAL_MIN;
        self.journal.push(id, keep);
    }
}

/// Entries of the journal per node: a reader that is further behind than four changes of each node is as quick when it
/// starts anew.
const JOURNAL_PER_NODE: usize = 4;
/// Entries that are kept in a small cluster.
const JOURNAL_MIN: usize = 1024;

/// The slots that changed, in order. Old entries are forgotten; who is too far behind starts anew.
#[derive(Debug, Default)]
pub struct Journal {
    entries: std::collections::VecDeque<NodeId>,
    /// Position of the first entry. Invariant: positions count all changes ever.
    first: u64,
}

impl Journal {
    /// The position after the newest entry.
    pub fn position(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The entries since a position; `None` if they are forgotten.
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = NodeId> + '_> {
        let skipped = usize::try_from(position.checked_sub(self.first)?).ok()?;
        (skipped <= self.entries.len()).then(|| self.entries.range(skipped..).copied())
    }

    fn push(&mut self, id: NodeId, keep: usize) {
        self.entries.push_back(id);
        while self.entries.len() > keep {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}
