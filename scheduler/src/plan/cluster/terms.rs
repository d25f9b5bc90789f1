//! Affinity terms of pods that are on nodes, each term once, with the nodes of the pods that have it.
//!
//! Owns the index that answers "which pods on nodes have affinity or anti-affinity to a new pod?" without a look at the
//! pods: their terms are far fewer than they are.

use hashbrown::HashMap;

use crate::objects::affinity::PodTerm;
use crate::objects::pod::Pod;

use super::counts::NodeCounts;
use super::nodes::NodeId;

/// The kind of a term, which says what it means to a new pod that the term selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TermKind {
    /// Required anti-affinity: the new pod must not come near.
    RequiredAntiAffinity,
    /// Required affinity: such pods are welcome near the one that has it.
    RequiredAffinity,
    /// Preferred affinity, with its weight; negative for anti-affinity.
    Preferred(i64),
}

/// A term that pods on nodes have.
#[derive(Debug)]
pub struct HeldTerm {
    /// Its kind.
    pub kind: TermKind,
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
    ids: HashMap<(TermKind, PodTerm), usize>,
}

impl Terms {
    /// A pod came to a node.
    pub(super) fn pod_came(&mut self, node: NodeId, pod: &Pod) {
        for (kind, term) in terms_of(pod) {
            let index = match self.ids.get(&(kind, term.clone())) {
                Some(index) => *index,
                None => self.hold(kind, term),
            };
            self.held[index].as_mut().expect("the table names held terms").nodes.add(node);
        }
    }

    /// A pod left a node.
    pub(super) fn pod_left(&mut self, node: NodeId, pod: &Pod) {
        for (kind, term) in terms_of(pod) {
            let key = (kind, term.clone());
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

    fn hold(&mut self, kind: TermKind, term: &PodTerm) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.ids.insert((kind, term.clone()), index);
        self.held[index] = Some(HeldTerm { kind, term: term.clone(), nodes: NodeCounts::default() });
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
pub fn terms_of(pod: &Pod) -> impl Iterator<Item = (TermKind, &PodTerm)> {
    let terms = &pod.shape.terms;
    let anti = terms.required_anti.iter().map(|term| (TermKind::RequiredAntiAffinity, term));
    let required = terms.required.iter().map(|term| (TermKind::RequiredAffinity, term));
    let preferred = terms.preferred.iter().map(|w| (TermKind::Preferred(w.weight), &w.term));
    let preferred_anti = terms.preferred_anti.iter().map(|w| (TermKind::Preferred(-w.weight), &w.term));
    anti.chain(required).chain(preferred).chain(preferred_anti)
}
