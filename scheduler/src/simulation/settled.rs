//! The conditions that hold some time after a run's last fault.
//!
//! Owns the promise of progress: whoever fits has a node, whoever has none is told why, and one process leads.

use super::api::{is_ending, is_finished, name_of, node_of};
use super::check::Room;
use super::devices::has_device;
use super::extenders::allows;
use super::network::World;
use super::users::ELSEWHERE;
use super::volumes::has_volume;
use crate::api::core::v1::{Pod, PodCondition};

/// Checks the end of a run. All nodes are whole, and nothing has changed for long.
pub(super) fn check(world: &World) -> Result<(), String> {
    for (name, pod) in &world.store.pods {
        if !node_of(pod).is_empty() || is_ending(pod) {
            continue;
        }
        let is_gated = pod.spec.as_ref().is_some_and(|spec| !spec.scheduling_gates.is_empty());
        if !is_gated && let Some(node) = place(world, pod) {
            let told = condition(pod).map(|told| told.message);
            return Err(format!(
                "pod {name} has no node in the end, and {node} has room; it was told {told:?}"
            ));
        }
        explained(name, pod, is_gated)?;
    }
    Ok(())
}

/// A node on which the pod fits, at least once all pods of lower priority are evicted.
fn place<'a>(world: &'a World, pod: &Pod) -> Option<&'a str> {
    let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    let selector = pod.spec.as_ref().map(|spec| spec.node_selector.clone()).unwrap_or_default();
    for node in world.store.nodes.values() {
        let metadata = node.metadata.as_ref().expect("nodes have names");
        let is_selected = selector.iter().all(|(key, value)| metadata.labels.get(key) == Some(value));
        if metadata.name == ELSEWHERE
            || !is_selected
            || !has_device(world, pod, &metadata.name)
            || !has_volume(world, pod, &metadata.name)
            || !allows(world, pod, &metadata.name)
        {
            continue;
        }
        let mut load = Room::of_pod(pod);
        let others = world.store.pods.values().filter(|other| {
            node_of(other) == metadata.name && !is_finished(other) && priority(other) >= priority(pod)
        });
        others.for_each(|other| load.add(Room::of_pod(other)));
        if load.fits(Room::of_node(node)) {
            return Some(name_of(node.metadata.as_ref()));
        }
    }
    None
}

/// The pod's condition `PodScheduled`.
fn condition(pod: &Pod) -> Option<PodCondition> {
    let mut conditions = pod.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.r#type == "PodScheduled").cloned()
}

/// A pod without a node says why.
fn explained(name: &str, pod: &Pod, is_gated: bool) -> Result<(), String> {
    let expected = if is_gated { "SchedulingGated" } else { "Unschedulable" };
    match condition(pod) {
        Some(told) if told.status == "False" && told.reason == expected && !told.message.is_empty() => Ok(()),
        other => Err(format!("pod {name} has no node in the end, and says only {other:?}")),
    }
}
