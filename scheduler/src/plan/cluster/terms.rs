//! Affinity terms of pods that are on nodes, each term once, with the nodes of the pods that have it.
//!
//! Owns the index that answers "which pods out there have something against, or for, a new pod?" without a look at the
//! pods: their terms are far fewer than they are.

use hashbrown::HashMap;

use crate::objects::affinity::PodTerm;
use crate::objects::pod::Pod;

use super::counts::NodeCounts;
use super::nodes::NodeId;

/// What a term means to a new pod that it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attitude {
    /// It must not come near.
    Forbids,
    /// A pod requires such pods near itself: they are welcome near it.
    Requires,
    /// It is wanted near, with this weight; negative: unwanted.
    Prefers(i64),
}

/// A term that pods on nodes have.
#[derive(Debug)]
pub struct HeldTerm {
    /// What it means.
    pub attitude: Attitude,
    /// The term.
    pub term: PodTerm,
    /// The nodes with pods that have it.
    pub nodes: NodeCounts,
}

/// The terms.
#[derive(Debug, Default)]
pub struct Terms {
    held: Vec<Option<HeldTerm>>,
    free: Vec<usize>,
    ids: HashMap<(Attitude, PodTerm), usize>,
}

impl Terms {
    /// A pod came to a node.
    pub(super) fn pod_came(&mut self, node: NodeId, pod: &Pod) {
        for (attitude, term) in terms_of(pod) {
            let index = match self.ids.get(&(attitude, term.clone())) {
                Some(index) => *index,
                None => self.hold(attitude, term),
            };
            self.held[index].as_mut().expect("the table names held terms").nodes.add(node);
        }
    }

    /// A pod left a node.
    pub(super) fn pod_left(&mut self, node: NodeId, pod: &Pod) {
        for (attitude, term) in terms_of(pod) {
            let key = (attitude, term.clone());
            let index = self.ids[&key];
            let held = self.held[index].as_mut().expect("the table names held terms");
            held.nodes.remove(node);
            if held.nodes.is_empty() {
                self.held[index] = None;
                self.ids.remove(&key);
                self.free.push(index);
            }
        }
    }

    fn hold(&mut self, attitude: Attitude, term: &PodTerm) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.ids.insert((attitude, term.clone()), index);
        self.held[index] = Some(HeldTerm { attitude, term: term.clone(), nodes: NodeCounts::default() });
        index
    }

    /// The terms that pods have.
    pub fn iter(&self) -> impl Iterator<Item = &HeldTerm> {
        self.held.iter().flatten()
    }

    /// Whether no pod on a node has a term.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// The terms of a pod with what they mean to others. Equal terms of one pod count each.
pub fn terms_of(pod: &Pod) -> impl Iterator<Item = (Attitude, &PodTerm)> {
    let terms = &pod.shape.terms;
    let forbids = terms.required_anti.iter().map(|term| (Attitude::Forbids, term));
    let requires = terms.required.iter().map(|term| (Attitude::Requires, term));
    let wants = terms.preferred.iter().map(|w| (Attitude::Prefers(w.weight), &w.term));
    let shuns = terms.preferred_anti.iter().map(|w| (Attitude::Prefers(-w.weight), &w.term));
    forbids.chain(requires).chain(wants).chain(shuns)
}
