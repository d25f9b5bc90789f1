//! Topologies: which nodes share the value of a label.
//!
//! Owns, per key that a plan asked for and some node has, a column with the domain of each node. Users choose the keys of
//! their pods: those that no node has take nothing.

use hashbrown::HashMap;

use crate::objects::intern::Symbol;

use super::nodes::{NodeId, Nodes};

/// No domain: the node lacks the label.
pub const NO_DOMAIN: u32 = u32::MAX;

/// The domains of one key.
#[derive(Debug, Default)]
pub struct Topology {
    domain_of: Vec<u32>,
    domains: HashMap<Symbol, u32>,
    structure: u64,
    position: u64,
}

impl Topology {
    /// The domain of a node; [`NO_DOMAIN`] if it lacks the label.
    pub fn domain(&self, node: NodeId) -> u32 {
        // The topology of a key that no node has is empty.
        self.domain_of.get(node.index()).copied().unwrap_or(NO_DOMAIN)
    }

    /// The domain of a node as an index; `None` if it lacks the label.
    pub fn index(&self, node: NodeId) -> Option<usize> {
        let domain = self.domain(node);
        (domain != NO_DOMAIN).then_some(domain as usize)
    }

    /// The length of columns that are indexed by domains.
    pub fn len(&self) -> usize {
        self.domains.len()
    }

    /// Whether there is no domain.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    fn update(&mut self, key: Symbol, nodes: &Nodes) {
        if self.structure == nodes.structure() && !self.domain_of.is_empty() {
            return;
        }
        self.domain_of.resize(nodes.columns(), NO_DOMAIN);
        match nodes.journal().since(self.position).filter(|_| self.structure != 0) {
            Some(changed) => changed.for_each(|node| self.set(key, node, nodes)),
            None => (0..nodes.columns()).for_each(|index| self.set(key, NodeId::of(index), nodes)),
        }
        self.structure = nodes.structure();
        self.position = nodes.journal().position();
        // Values that no node has any more keep their number until there are far too many of them.
        if self.domains.len() > 2 * nodes.len() + 64 {
            *self = Topology::default();
            self.update(key, nodes);
        }
    }

    fn set(&mut self, key: Symbol, node: NodeId, nodes: &Nodes) {
        let value = nodes.slot(node).and_then(|slot| slot.node.labels.value(key));
        let next = u32::try_from(self.domains.len()).expect("there are no more domains than nodes, twice");
        self.domain_of[node.index()] =
            value.map_or(NO_DOMAIN, |value| *self.domains.entry(value).or_insert(next));
    }
}

/// The topology of all keys that no node has: it never has a domain.
const NOWHERE: TopologyId = TopologyId(0);

/// Number of a topology in [`Topologies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopologyId(usize);

/// The topologies that plans asked for. Few: keys of labels of nodes, such as `zone`.
#[derive(Debug)]
pub struct Topologies {
    ids: HashMap<Symbol, TopologyId>,
    topologies: Vec<Topology>,
}

impl Default for Topologies {
    fn default() -> Self {
        Self { ids: HashMap::new(), topologies: vec![Topology::default()] }
    }
}

impl Topologies {
    /// The topology of a key, up to date with `nodes`.
    pub fn prepare(&mut self, key: Symbol, nodes: &Nodes) -> TopologyId {
        if !nodes.have_label(key) {
            return NOWHERE;
        }
        let next = TopologyId(self.topologies.len());
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.topologies.push(Topology::default());
        }
        self.topologies[id.0].update(key, nodes);
        id
    }

    /// How many topologies are kept.
    #[cfg(test)]
    pub(in crate::plan) fn kept(&self) -> usize {
        self.ids.len()
    }

    /// A topology that was prepared in this plan.
    pub fn topology(&self, id: TopologyId) -> &Topology {
        &self.topologies[id.0]
    }
}
