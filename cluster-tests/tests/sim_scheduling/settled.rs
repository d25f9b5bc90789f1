//! The state that a run must have reached some time after the last fault.
//!
//! Owns the promise of progress: whoever fits has a node, whoever has none is told why.

use super::timeline::{Pod, Room, Timeline};
use super::users::ELSEWHERE;

/// The first thing that is missing; `None` for nothing.
pub(crate) fn missing(timeline: &Timeline) -> Option<String> {
    timeline.pods.iter().find_map(|(name, pod)| {
        if !pod.node.is_empty() || pod.is_ending {
            return None;
        }
        if !pod.is_gated
            && let Some(node) = place(timeline, pod)
        {
            return Some(format!("pod {name} has no node in the end, and {node} has room"));
        }
        let expected = if pod.is_gated { "SchedulingGated" } else { "Unschedulable" };
        let told = &pod.unscheduled;
        (told != expected).then(|| format!("pod {name} has no node in the end, and says only `{told}`"))
    })
}

/// A node on which the pod fits, at least once all pods of lower priority are evicted.
fn place<'a>(timeline: &'a Timeline, pod: &Pod) -> Option<&'a str> {
    let fits = |name: &str, offer: Room| {
        let mut load = pod.room;
        let others = timeline.pods.values();
        let others =
            others.filter(|other| other.node == name && !other.is_finished && other.priority >= pod.priority);
        others.for_each(|other| load.add(other.room));
        load.fits(offer)
    };
    let selected = |zone: &str| pod.zone.is_empty() || pod.zone == zone;
    let mut nodes = timeline.nodes.iter();
    let found = nodes.find(|(name, node)| {
        *name != ELSEWHERE && !node.is_closed && selected(&node.zone) && fits(name, node.room)
    });
    found.map(|(name, _)| name.as_str())
}
