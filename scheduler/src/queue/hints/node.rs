//! Hints for nodes that come, change and go.

use super::Hint;
use crate::plugin::Plugin;
use crate::queue::event::{EventKind, EventKinds};
use crate::queue::node::NodeFacts;
use crate::queue::pod::{PodShape, SpreadConstraint, Spreading};
use crate::queue::requests::Amounts;

/// The taint that stands for `spec.unschedulable`, without its domain, which is the brand's.
const UNSCHEDULABLE_TAINT: &str = "/unschedulable";

pub(super) fn hint(
    plugin: Plugin,
    shape: &PodShape,
    old: Option<&NodeFacts>,
    new: Option<&NodeFacts>,
    kinds: EventKinds,
) -> Hint {
    if plugin == Plugin::PodTopologySpread {
        return spread(shape, old, new);
    }
    // Among the plugins with hints here only that one cares for nodes that go.
    let Some(new) = new else { return Hint::Queue };
    match plugin {
        Plugin::NodeUnschedulable => Hint::when(!new.is_unschedulable || tolerates_unschedulable(shape)),
        Plugin::TaintToleration => {
            let was_repelled = old.is_none_or(|old| old.repels(&shape.tolerations));
            Hint::when(was_repelled && !new.repels(&shape.tolerations))
        }
        Plugin::NodeAffinity => Hint::when(affine(shape, new) && !old.is_some_and(|old| affine(shape, old))),
        Plugin::NodeResourcesFit => fit(&shape.requests, old, new),
        Plugin::InterPodAffinity => {
            let mut terms = shape.affinity.iter().chain(&shape.anti_affinity);
            // Without terms of its own the pod was kept away by those of others: any new domain may be free of them.
            let has_none = shape.affinity.is_empty() && shape.anti_affinity.is_empty();
            Hint::when(has_none || terms.any(|term| new.labels.contains_key(&term.topology_key)))
        }
        Plugin::NodeDeclaredFeatures => {
            let is_richer = old.is_none_or(|old| !new.features.is_subset(&old.features));
            Hint::when(is_richer || !kinds.contains(EventKind::NodeDeclaredFeature))
        }
        _ => Hint::Queue,
    }
}

fn tolerates_unschedulable(shape: &PodShape) -> bool {
    shape.tolerations.iter().any(|one| {
        let about_it = one.key.is_empty() || one.key.ends_with(UNSCHEDULABLE_TAINT);
        about_it && matches!(one.effect.as_str(), "" | "NoSchedule")
    })
}

/// Whether node selector and required node affinity match.
fn affine(shape: &PodShape, node: &NodeFacts) -> bool {
    let selected = shape.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    selected && shape.node_affinity.as_ref().is_none_or(|one| one.matches(&node.name, &node.labels))
}

/// A node helps if the empty node has room, and has more of something that is asked for than before. Devices may have room
/// for a resource that it does not offer.
fn fit(requests: &Amounts, old: Option<&NodeFacts>, new: &NodeFacts) -> Hint {
    let mut asked = requests.iter().filter(|(_, amount)| !amount.is_zero());
    let may_be_devices =
        |name: &str| name.contains('/') && new.allocatable.get(name).is_none_or(|one| one.is_zero());
    let has_room = asked.clone().all(|(name, amount)| {
        new.allocatable.get(name).is_some_and(|one| one >= amount) || may_be_devices(name)
    });
    let has_more = old.is_none_or(|old| {
        let grew = |name: &str| new.allocatable.get(name) > old.allocatable.get(name);
        grew("pods") || asked.any(|(name, _)| grew(name) || may_be_devices(name))
    });
    Hint::when(has_room && has_more)
}

/// Domains are made and unmade by nodes that have all the labels that constraints name.
fn spread(shape: &PodShape, old: Option<&NodeFacts>, new: Option<&NodeFacts>) -> Hint {
    let Spreading::Own(constraints) = &shape.spreading else { return Hint::Queue };
    let counts = |node: &NodeFacts, constraints: &[SpreadConstraint]| {
        constraints.iter().all(|one| node.labels.contains_key(&one.topology_key))
    };
    let (Some(old), Some(new)) = (old, new) else {
        return Hint::when(old.or(new).is_some_and(|node| counts(node, constraints)));
    };
    let (counted, is_counted) = (counts(old, constraints), counts(new, constraints));
    let domain = |node: &NodeFacts, one: &SpreadConstraint| node.labels.get(&one.topology_key).cloned();
    let moved = constraints.iter().any(|one| domain(old, one) != domain(new, one));
    Hint::when(counted != is_counted || (is_counted && (moved || old.taints != new.taints)))
}
