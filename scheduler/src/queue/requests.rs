//! What a pod asks for of each resource.
//!
//! Owns the sum over containers, init containers, sidecars, pod-level resources and overhead, as the reference counts it
//! for filters, and the like sums over what the specification alone says, for metrics. Never says what fits where.

use std::collections::BTreeMap;

use orch_schema::quantity::Quantity;

use crate::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};
use crate::api::resource;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Amounts as the API writes them. What is no quantity counts as nothing: the API server has refused it.
pub fn amounts(quantities: &BTreeMap<String, resource::Quantity>) -> Amounts {
    let parsed = quantities.iter();
    parsed.map(|(name, one)| (name.clone(), Quantity::parse(&one.string).unwrap_or_default())).collect()
}

/// What `pod` asks for.
pub fn of_pod(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut total = of_containers(spec, |container| of_container(container, pod.status.as_ref()));
    replace_pod_level(&mut total, spec, |resources| &resources.requests);
    add(&mut total, &amounts(&spec.overhead));
    total
}

/// What the specification of a pod asks for, whatever its node has granted.
pub fn of_spec(spec: &PodSpec) -> Amounts {
    let mut total = of_containers(spec, |container| stated(container, |resources| &resources.requests));
    replace_pod_level(&mut total, spec, |resources| &resources.requests);
    add(&mut total, &amounts(&spec.overhead));
    total
}

/// What the specification of a pod lets it take. Overhead comes on top of what is limited, and limits nothing itself.
pub fn limits_of_spec(spec: &PodSpec) -> Amounts {
    let mut total = of_containers(spec, |container| stated(container, |resources| &resources.limits));
    replace_pod_level(&mut total, spec, |resources| &resources.limits);
    for (name, amount) in amounts(&spec.overhead) {
        if let Some(limit) = total.get_mut(&name) {
            *limit = limit.plus(amount);
        }
    }
    total
}

type Listed = fn(&ResourceRequirements) -> &BTreeMap<String, resource::Quantity>;

/// One list of the resources of a container.
fn stated(container: &Container, list: Listed) -> Amounts {
    container.resources.as_ref().map(|resources| amounts(list(resources))).unwrap_or_default()
}

/// What is said of the whole pod replaces the sum of its containers.
fn replace_pod_level(total: &mut Amounts, spec: &PodSpec, list: Listed) {
    let of_pod = spec.resources.as_ref().map(|resources| amounts(list(resources))).unwrap_or_default();
    total.extend(of_pod.into_iter().filter(|(name, _)| is_pod_level(name)));
}

/// Containers run together; an init container runs beside the sidecars that were started before it.
fn of_containers(spec: &PodSpec, of_container: impl Fn(&Container) -> Amounts) -> Amounts {
    let mut together = Amounts::new();
    for container in &spec.containers {
        add(&mut together, &of_container(container));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in &spec.init_containers {
        let mut asked = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut together, &asked);
            add(&mut sidecars, &asked);
            asked = sidecars.clone();
        } else {
            add(&mut asked, &sidecars);
        }
        raise(&mut starting, &asked);
    }
    raise(&mut together, &starting);
    together
}

/// What a container asks for. One that is being resized counts with the most of what is wanted, allocated and in force.
fn of_container(container: &Container, status: Option<&PodStatus>) -> Amounts {
    let mut asked = container.resources.as_ref().map(|one| amounts(&one.requests)).unwrap_or_default();
    let statuses = status
        .into_iter()
        .flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses));
    for status in statuses.filter(|status| status.name == container.name) {
        raise(&mut asked, &amounts(&status.allocated_resources));
        if let Some(in_force) = &status.resources {
            raise(&mut asked, &amounts(&in_force.requests));
        }
    }
    asked
}

fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.plus(*amount);
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let most = total.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::core::v1::ContainerStatus;

    fn quantities(pairs: &[(&str, &str)]) -> BTreeMap<String, resource::Quantity> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, text)| ((*name).to_owned(), resource::Quantity { string: (*text).to_owned() }))
            .collect()
    }

    fn asks(pairs: &[(&str, &str)]) -> Option<ResourceRequirements> {
        Some(ResourceRequirements { requests: quantities(pairs), ..Default::default() })
    }

    fn container(name: &str, pairs: &[(&str, &str)]) -> Container {
        Container { name: name.to_owned(), resources: asks(pairs), ..Default::default() }
    }

    fn sidecar(name: &str, pairs: &[(&str, &str)]) -> Container {
        Container { restart_policy: Some("Always".to_owned()), ..container(name, pairs) }
    }

    fn check(spec: PodSpec, expected: &[(&str, &str)]) {
        let pod = Pod { spec: Some(spec), ..Default::default() };
        assert_eq!(of_pod(&pod), amounts(&quantities(expected)));
    }

    #[test]
    fn containers_add_up() {
        let containers =
            vec![container("a", &[("cpu", "1")]), container("b", &[("cpu", "500m"), ("memory", "1Gi")])];
        check(PodSpec { containers, ..Default::default() }, &[("cpu", "1500m"), ("memory", "1Gi")]);
    }

    #[test]
    fn the_largest_init_container_counts_if_it_is_more() {
        let init_containers = vec![container("i", &[("cpu", "2")]), container("j", &[("cpu", "3")])];
        let containers = vec![container("a", &[("cpu", "1")])];
        check(PodSpec { containers, init_containers, ..Default::default() }, &[("cpu", "3")]);
    }

    #[test]
    fn sidecars_run_beside_later_init_containers_and_containers() {
        let init_containers = vec![
            container("i", &[("cpu", "2")]),
            sidecar("s", &[("cpu", "1")]),
            container("j", &[("cpu", "2")]),
        ];
        let containers = vec![container("a", &[("cpu", "1500m")])];
        check(PodSpec { containers, init_containers, ..Default::default() }, &[("cpu", "3")]);
    }

    #[test]
    fn pod_level_resources_replace_the_sum_and_overhead_adds() {
        let spec = PodSpec {
            containers: vec![container("a", &[("cpu", "1"), ("x.com/gpu", "2")])],
            resources: asks(&[("cpu", "3"), ("x.com/gpu", "5")]),
            overhead: quantities(&[("cpu", "250m")]),
            ..Default::default()
        };
        check(spec, &[("cpu", "3250m"), ("x.com/gpu", "2")]);
    }

    #[test]
    fn a_resize_counts_with_the_most() {
        let status = ContainerStatus {
            name: "a".to_owned(),
            allocated_resources: quantities(&[("cpu", "2")]),
            resources: asks(&[("cpu", "3")]),
            ..Default::default()
        };
        let pod = Pod {
            spec: Some(PodSpec { containers: vec![container("a", &[("cpu", "1")])], ..Default::default() }),
            status: Some(PodStatus { container_statuses: vec![status], ..Default::default() }),
            ..Default::default()
        };
        assert_eq!(of_pod(&pod), amounts(&quantities(&[("cpu", "3")])));
    }
}
