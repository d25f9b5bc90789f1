//! What a pod asks for in all, as the reference counts it.
//!
//! Owns the sum: containers add up, sidecars (init containers that restart always) add up with them, other init
//! containers count where they need more than what runs beside them; requests of the whole pod replace those of its
//! containers for the resources they name; overhead comes on top. Of a container that is being resized, the largest of
//! what is asked for, granted and in use counts, unless the resize can never be granted.

use std::collections::BTreeMap;

use crate::api::core::v1;
use crate::api::resource::Quantity;

use super::intern::Interner;
use super::resources::Resources;

/// CPU of a container without a request, in scores: 100 milli-units.
const DEFAULT_CPU_MILLI: i64 = 100;
/// Memory of a container without a request, in scores: 200 MiB.
const DEFAULT_MEMORY: i64 = 200 << 20;

/// Requests of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// What has to fit.
    pub total: Resources,
    /// CPU that scores count: containers without a request count as 100 milli-units.
    pub scored_cpu_milli: i64,
    /// Memory that scores count: containers without a request count as 200 MiB.
    pub scored_memory: i64,
}

impl Requests {
    /// Adds up the requests of a pod.
    pub fn compile(interner: &mut Interner, pod: &v1::Pod) -> Requests {
        let total = sum(interner, pod, Missing::Zero);
        let scored = sum(interner, pod, Missing::Default);
        Requests { total, scored_cpu_milli: scored.cpu_milli, scored_memory: scored.memory }
    }
}

/// What a container without a request counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Zero,
    Default,
}

fn sum(interner: &mut Interner, pod: &v1::Pod, missing: Missing) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let infeasible = resize_is_infeasible(pod);
    let mut total = Resources::default();
    for container in &spec.containers {
        let statuses = pod.status.as_ref().map_or(&[][..], |status| &status.container_statuses);
        total.add(&container_requests(interner, container, statuses, infeasible, missing));
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for container in &spec.init_containers {
        let statuses = pod.status.as_ref().map_or(&[][..], |status| &status.init_container_statuses);
        let mut requests = container_requests(interner, container, statuses, infeasible, missing);
        if container.restart_policy.as_deref() == Some("Always") {
            total.add(&requests);
            sidecars.add(&requests);
            requests = sidecars.clone();
        } else {
            requests.add(&sidecars);
        }
        peak.maximize(&requests);
    }
    total.maximize(&peak);
    override_with_pod_level(interner, pod, infeasible, &mut total);
    total.add(&Resources::compile(interner, &spec.overhead));
    total
}

/// Resources that requests of a whole pod may name.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn override_with_pod_level(interner: &mut Interner, pod: &v1::Pod, infeasible: bool, total: &mut Resources) {
    let Some(resources) = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()) else { return };
    let of_pod = |list: &BTreeMap<String, Quantity>| -> BTreeMap<String, Quantity> {
        list.iter()
            .filter(|(name, _)| is_pod_level(name))
            .map(|(name, amount)| (name.clone(), amount.clone()))
            .collect()
    };
    let names = of_pod(&resources.requests);
    let mut requests = Resources::compile(interner, &names);
    if let Some(status) = &pod.status {
        let granted = Resources::compile(interner, &of_pod(&status.allocated_resources));
        let used = status.resources.as_ref().map(|used| of_pod(&used.requests)).unwrap_or_default();
        let used = Resources::compile(interner, &used);
        if infeasible && !status.allocated_resources.is_empty() {
            requests = granted;
        } else {
            requests.maximize(&granted);
        }
        requests.maximize(&used);
    }
    if names.contains_key("cpu") {
        total.cpu_milli = requests.cpu_milli;
    }
    if names.contains_key("memory") {
        total.memory = requests.memory;
    }
    for (name, amount) in requests.scalars {
        *total.scalar_mut(name) = amount;
    }
}

fn container_requests(
    interner: &mut Interner,
    container: &v1::Container,
    statuses: &[v1::ContainerStatus],
    infeasible: bool,
    missing: Missing,
) -> Resources {
    let empty = BTreeMap::new();
    let asked = container.resources.as_ref().map_or(&empty, |resources| &resources.requests);
    let mut requests = Resources::compile(interner, asked);
    if let Some(status) = statuses.iter().find(|status| status.name == container.name) {
        let used = status.resources.as_ref().map_or(&empty, |resources| &resources.requests);
        let in_status = !status.allocated_resources.is_empty() || status.resources.is_some();
        if infeasible && in_status {
            requests = Resources::compile(interner, used);
        } else {
            requests.maximize(&Resources::compile(interner, used));
        }
        requests.maximize(&Resources::compile(interner, &status.allocated_resources));
    }
    if missing == Missing::Default {
        if !asked.contains_key("cpu") {
            requests.cpu_milli = requests.cpu_milli.max(DEFAULT_CPU_MILLI);
        }
        if !asked.contains_key("memory") {
            requests.memory = requests.memory.max(DEFAULT_MEMORY);
        }
    }
    requests
}

/// Whether the node said that it can never grant the resize that is asked for.
fn resize_is_infeasible(pod: &v1::Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| {
        status.conditions.iter().any(|condition| {
            condition.r#type == "PodResizePending"
                && condition.status == "True"
                && condition.reason == "Infeasible"
        })
    })
}
