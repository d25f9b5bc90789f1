//! Terms of affinity and anti-affinity between pods.
//!
//! Owns their compiled forms. A term is independent of the pod that has it once its namespaces are filled in, so that
//! equal terms of many pods are one.

use crate::api::core::v1;

use super::intern::{Interner, Symbol};
use super::labels::{Labels, Selector};

/// Which pods a term speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelection {
    /// Namespaces by name; sorted.
    pub namespaces: Vec<Symbol>,
    /// Namespaces by their labels, in addition.
    pub namespace_selector: Selector,
    /// The pods there.
    pub selector: Selector,
}

impl PodSelection {
    /// Whether a pod in `namespace` (with its labels) that has `labels` is one of them.
    pub fn matches(
        &self,
        namespace: Symbol,
        namespace_labels: &Labels,
        labels: &Labels,
        texts: &Interner,
    ) -> bool {
        (self.namespaces.binary_search(&namespace).is_ok()
            || self.namespace_selector.matches(namespace_labels, texts))
            && self.selector.matches(labels, texts)
    }
}

/// A term: pods, and what counts as near them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The pods.
    pub pods: PodSelection,
    /// Nodes with equal values of this label are near each other.
    pub topology_key: Symbol,
}

/// A preferred term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedTerm {
    /// 1 to 100.
    pub weight: i64,
    /// The term.
    pub term: PodTerm,
}

/// The terms of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerms {
    /// Affinity that has to hold.
    pub required: Vec<PodTerm>,
    /// Anti-affinity that has to hold.
    pub required_anti: Vec<PodTerm>,
    /// Affinity that is preferred.
    pub preferred: Vec<WeightedTerm>,
    /// Anti-affinity that is preferred.
    pub preferred_anti: Vec<WeightedTerm>,
}

impl PodTerms {
    /// Compiles the terms of a pod in `namespace`.
    pub fn compile(interner: &mut Interner, namespace: Symbol, affinity: Option<&v1::Affinity>) -> PodTerms {
        let Some(affinity) = affinity else { return PodTerms::default() };
        let mut required = |terms: &[v1::PodAffinityTerm]| -> Vec<PodTerm> {
            terms.iter().map(|term| compile_term(interner, namespace, term)).collect()
        };
        let mut terms = PodTerms::default();
        if let Some(near) = &affinity.pod_affinity {
            terms.required = required(&near.required_during_scheduling_ignored_during_execution);
        }
        if let Some(apart) = &affinity.pod_anti_affinity {
            terms.required_anti = required(&apart.required_during_scheduling_ignored_during_execution);
        }
        let mut weighted = |terms: &[v1::WeightedPodAffinityTerm]| -> Vec<WeightedTerm> {
            let with_term = terms
                .iter()
                .filter_map(|weighted| Some((weighted.weight, weighted.pod_affinity_term.as_ref()?)));
            with_term
                .map(|(weight, term)| WeightedTerm {
                    weight: i64::from(weight),
                    term: compile_term(interner, namespace, term),
                })
                .collect()
        };
        if let Some(near) = &affinity.pod_affinity {
            terms.preferred = weighted(&near.preferred_during_scheduling_ignored_during_execution);
        }
        if let Some(apart) = &affinity.pod_anti_affinity {
            terms.preferred_anti = weighted(&apart.preferred_during_scheduling_ignored_during_execution);
        }
        terms
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.required_anti.is_empty() && !self.has_preferences()
    }

    /// Whether there is a preferred term.
    pub fn has_preferences(&self) -> bool {
        !self.preferred.is_empty() || !self.preferred_anti.is_empty()
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` are not looked at: the API server wrote them into the selector.
fn compile_term(interner: &mut Interner, namespace: Symbol, term: &v1::PodAffinityTerm) -> PodTerm {
    let mut namespaces: Vec<Symbol> = term.namespaces.iter().map(|name| interner.intern(name)).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(namespace);
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    PodTerm {
        pods: PodSelection {
            namespaces,
            namespace_selector: Selector::compile(interner, term.namespace_selector.as_ref()),
            selector: Selector::compile(interner, term.label_selector.as_ref()),
        },
        topology_key: interner.intern(&term.topology_key),
    }
}
