//! Hints for changes of the rejected pod itself.

use super::Hint;
use crate::plugin::Plugin;
use crate::queue::event::{EventKind, EventKinds};
use crate::queue::pod::{PodShape, Spreading};

pub(super) fn hint(plugin: Plugin, old: &PodShape, new: &PodShape, kinds: EventKinds) -> Hint {
    match plugin {
        Plugin::PodTopologySpread => spread(old, new, kinds),
        // The plugin has no finer hint than the events it registered for.
        _ => Hint::Queue,
    }
}

/// New labels help if another set of constraints counts the pod; new tolerations if taints leave nodes out.
fn spread(old: &PodShape, new: &PodShape, kinds: EventKinds) -> Hint {
    let Spreading::Own(constraints) = &new.spreading else { return Hint::Queue };
    let tolerates_more =
        kinds.contains(EventKind::PodToleration) && constraints.iter().any(|one| one.honors_taints);
    let counts_otherwise = old.spreading != new.spreading
        || constraints
            .iter()
            .any(|one| one.selector.matches(&old.labels) != one.selector.matches(&new.labels));
    Hint::when(tolerates_more || counts_otherwise)
}
