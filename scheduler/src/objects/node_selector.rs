//! Node selectors: alternatives of requirements on labels and on the node's name.
//!
//! Owns the compiled form. A term without requirements selects no node; a selector without terms selects none.

use std::collections::BTreeMap;

use crate::api::core::v1;

use super::intern::{Interner, Symbol};
use super::labels::{Labels, Operator, Requirement, Selector};

/// A node selector term; the terms of a selector are alternatives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    expressions: Vec<Requirement>,
    /// Requirements on fields; the only field there is, is the name.
    names: Vec<Requirement>,
}

impl NodeTerm {
    /// Compiles a term.
    pub fn compile(interner: &mut Interner, term: &v1::NodeSelectorTerm) -> NodeTerm {
        let mut compile = |requirements: &[v1::NodeSelectorRequirement]| -> Vec<Requirement> {
            requirements
                .iter()
                .map(|r| Requirement::compile(interner, &r.key, &r.operator, &r.values))
                .collect()
        };
        NodeTerm { expressions: compile(&term.match_expressions), names: compile(&term.match_fields) }
    }

    /// Whether the term selects a node.
    pub fn matches(&self, name: Symbol, labels: &Labels, texts: &Interner) -> bool {
        !(self.expressions.is_empty() && self.names.is_empty())
            && self.expressions.iter().all(|requirement| requirement.matches(labels, texts))
            && self.names.iter().all(|requirement| {
                &**texts.text(requirement.key) == "metadata.name"
                    && requirement.matches_value(Some(name), texts)
            })
    }

    /// Whether the term selects a node by its labels alone.
    fn matches_labels(&self, labels: &Labels, texts: &Interner) -> bool {
        !self.is_empty() && self.expressions.iter().all(|requirement| requirement.matches(labels, texts))
    }

    /// Whether it has no requirement.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.names.is_empty()
    }

    /// The names that its requirements on the name leave; `None` if it has none.
    fn named(&self) -> Option<Vec<Symbol>> {
        let mut names: Option<Vec<Symbol>> = None;
        for requirement in &self.names {
            let Operator::In(values) = &requirement.operator else { continue };
            match &mut names {
                None => names = Some(values.to_vec()),
                Some(names) => names.retain(|name| values.contains(name)),
            }
        }
        names
    }
}

/// Alternatives of which one has to hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelector {
    terms: Vec<NodeTerm>,
}

impl NodeSelector {
    /// Compiles a node selector.
    pub fn compile(interner: &mut Interner, selector: &v1::NodeSelector) -> NodeSelector {
        NodeSelector {
            terms: selector
                .node_selector_terms
                .iter()
                .map(|term| NodeTerm::compile(interner, term))
                .collect(),
        }
    }

    /// Whether it selects a node.
    pub fn matches(&self, name: Symbol, labels: &Labels, texts: &Interner) -> bool {
        self.terms.iter().any(|term| term.matches(name, labels, texts))
    }

    /// Whether it selects a node of which only the labels count. Requirements on its name count as met: so the reference
    /// matches the nodes of volumes.
    pub fn matches_labels(&self, labels: &Labels, texts: &Interner) -> bool {
        self.terms.iter().any(|term| term.matches_labels(labels, texts))
    }

    /// The only nodes that can match, if every term names its nodes; sorted.
    pub fn named(&self) -> Option<Vec<Symbol>> {
        let mut all = Vec::new();
        for term in &self.terms {
            all.extend(term.named()?);
        }
        all.sort_unstable();
        all.dedup();
        (!self.terms.is_empty()).then_some(all)
    }
}

/// A preferred term and its weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredTerm {
    /// 1 to 100.
    pub weight: i64,
    /// The preferred term.
    pub term: NodeTerm,
}

/// Compiles preferred terms. Those without requirements or without weight prefer nothing and are left out.
pub fn compile_preferred(
    interner: &mut Interner,
    terms: &[v1::PreferredSchedulingTerm],
) -> Vec<PreferredTerm> {
    terms
        .iter()
        .filter_map(|preferred| {
            let term = NodeTerm::compile(interner, preferred.preference.as_ref()?);
            (preferred.weight != 0 && !term.is_empty())
                .then(|| PreferredTerm { weight: i64::from(preferred.weight), term })
        })
        .collect()
}

/// The nodes that a pod requires: its `nodeSelector` and its required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodes {
    selector: Selector,
    affinity: Option<NodeSelector>,
}

impl RequiredNodes {
    /// Compiles both.
    pub fn compile(
        interner: &mut Interner,
        selector: &BTreeMap<String, String>,
        affinity: Option<&v1::NodeSelector>,
    ) -> RequiredNodes {
        RequiredNodes {
            selector: Selector::of_map(interner, selector),
            affinity: affinity.map(|affinity| NodeSelector::compile(interner, affinity)),
        }
    }

    /// Whether a node is one of them.
    pub fn matches(&self, name: Symbol, labels: &Labels, texts: &Interner) -> bool {
        self.selector.matches(labels, texts)
            && self.affinity.as_ref().is_none_or(|affinity| affinity.matches(name, labels, texts))
    }

    /// The only nodes that can match, if every term of the affinity names its nodes; sorted.
    pub fn named(&self) -> Option<Vec<Symbol>> {
        self.affinity.as_ref()?.named()
    }

    /// Whether every node matches.
    pub fn is_everything(&self) -> bool {
        self.selector.is_everything() && self.affinity.is_none()
    }
}
