//! Hints for bound pods that come, change and go.

use super::{Hint, NamespaceLabels};
use crate::plugin::Plugin;
use crate::queue::pod::{AffinityTerm, PodFacts, PodShape, Spreading};

pub(super) fn hint(
    plugin: Plugin,
    shape: &PodShape,
    old: Option<&PodFacts>,
    new: Option<&PodFacts>,
    namespaces: &NamespaceLabels,
) -> Hint {
    let (before, after) = (old.map(|pod| &*pod.shape), new.map(|pod| &*pod.shape));
    match (plugin, before, after) {
        (Plugin::PodTopologySpread, _, _) => spread(shape, before, after),
        (Plugin::InterPodAffinity, _, _) => affinity(shape, before, after, namespaces),
        (Plugin::NodeResourcesFit, Some(before), Some(after)) => scaled_down(shape, before, after),
        (Plugin::NodePorts, Some(gone), None) => {
            let taken = |port| gone.host_ports.iter().any(|other| other.conflicts(port));
            Hint::when(shape.host_ports.iter().any(taken))
        }
        (Plugin::VolumeRestrictions, Some(gone), None) => Hint::when(shares_volume(shape, gone)),
        (Plugin::NodeVolumeLimits, Some(gone), None) => {
            Hint::when(!gone.volume_claims.is_empty() || gone.has_attachable)
        }
        _ => Hint::Queue,
    }
}

/// Less of a resource that the pod asks for.
fn scaled_down(shape: &PodShape, before: &PodShape, after: &PodShape) -> Hint {
    let mut asked = shape.requests.iter().filter(|(_, amount)| !amount.is_zero());
    Hint::when(asked.any(|(name, _)| after.requests.get(name) < before.requests.get(name)))
}

fn shares_volume(shape: &PodShape, gone: &PodShape) -> bool {
    let shares_claim = shape.namespace == gone.namespace
        && shape.volume_claims.iter().any(|claim| gone.volume_claims.contains(claim));
    shares_claim || shape.disks.iter().any(|disk| gone.disks.contains(disk))
}

fn spread(shape: &PodShape, before: Option<&PodShape>, after: Option<&PodShape>) -> Hint {
    let Spreading::Own(constraints) = &shape.spreading else { return Hint::Queue };
    let counted = |pod: Option<&PodShape>, at: usize| {
        pod.is_some_and(|pod| {
            pod.namespace == shape.namespace && constraints[at].selector.matches(&pod.labels)
        })
    };
    Hint::when((0..constraints.len()).any(|at| counted(before, at) != counted(after, at)))
}

/// A pod that now matches all terms of affinity, or no longer matches one of anti-affinity, helps; so does one that goes
/// and kept this pod away by terms of its own.
fn affinity(
    shape: &PodShape,
    before: Option<&PodShape>,
    after: Option<&PodShape>,
    namespaces: &NamespaceLabels,
) -> Hint {
    let attracts = |pod: Option<&PodShape>| {
        let matches = |pod: &PodShape| shape.affinity.iter().all(|term| term_matches(term, pod, namespaces));
        !shape.affinity.is_empty() && pod.is_some_and(matches)
    };
    let repels = |pod: Option<&PodShape>| {
        pod.is_some_and(|pod| {
            shape.anti_affinity.iter().any(|term| term_matches(term, pod, namespaces))
                || pod.anti_affinity.iter().any(|term| term_matches(term, shape, namespaces))
        })
    };
    Hint::when((attracts(after) && !attracts(before)) || (repels(before) && !repels(after)))
}

/// Whether `term` is about pods of `shape`.
fn term_matches(term: &AffinityTerm, shape: &PodShape, namespaces: &NamespaceLabels) -> bool {
    let none = crate::selector::Labels::new();
    let labels = namespaces.get(&shape.namespace).unwrap_or(&none);
    let by_namespace = term.namespaces.contains(&shape.namespace)
        || term.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels));
    by_namespace && term.selector.as_ref().is_some_and(|selector| selector.matches(&shape.labels))
}
