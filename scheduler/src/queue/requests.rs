//! The amounts of each resource that a pod requests.
//!
//! Owns the exact amounts by name, for hints and metrics, and the sums over what the specification alone says. How a pod's
//! containers add up is [`crate::objects::requests`]. Never says what fits where.

use std::collections::BTreeMap;

use orch_schema::quantity::Quantity;

use crate::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use crate::api::resource;
use crate::objects::requests::{self, Amounts as _};

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Amounts as the API writes them. What is no quantity counts as nothing: the API server has refused it.
pub fn amounts(quantities: &BTreeMap<String, resource::Quantity>) -> Amounts {
    let parsed = quantities.iter();
    parsed.map(|(name, one)| (name.clone(), Quantity::parse(&one.string).unwrap_or_default())).collect()
}

/// What `pod` asks for.
pub fn of_pod(pod: &Pod) -> Amounts {
    requests::of_pod(pod, &mut amounts, |_, _| {})
}

/// What the specification of a pod asks for, whatever its node has granted.
pub fn of_spec(spec: &PodSpec) -> Amounts {
    let mut total = stated(spec, |resources| &resources.requests);
    total.add(&amounts(&spec.overhead));
    total
}

/// What the specification of a pod lets it take. Overhead comes on top of what is limited, and limits nothing itself.
pub fn limits_of_spec(spec: &PodSpec) -> Amounts {
    let mut total = stated(spec, |resources| &resources.limits);
    for (name, amount) in amounts(&spec.overhead) {
        if let Some(limit) = total.get_mut(&name) {
            *limit = limit.plus(amount);
        }
    }
    total
}

type Listed = fn(&ResourceRequirements) -> &BTreeMap<String, resource::Quantity>;

/// The sum over one list of the resources of containers, with what is said of the whole pod in place of it.
fn stated(spec: &PodSpec, list: Listed) -> Amounts {
    let of_container = |container: &Container| container.resources.as_ref().map(|one| amounts(list(one)));
    let mut total = requests::of_containers(spec, |container, _| of_container(container).unwrap_or_default());
    if let Some(resources) = &spec.resources {
        let named = requests::pod_level(list(resources));
        total.replace(amounts(&named), &named);
    }
    total
}

impl requests::Amounts for Amounts {
    fn add(&mut self, others: &Self) {
        for (name, amount) in others {
            let sum = self.entry(name.clone()).or_default();
            *sum = sum.plus(*amount);
        }
    }

    fn maximize(&mut self, others: &Self) {
        for (name, amount) in others {
            let most = self.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    fn replace(&mut self, others: Self, _: &BTreeMap<String, resource::Quantity>) {
        self.extend(others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::core::v1::{ContainerStatus, PodCondition, PodStatus};

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

    #[test]
    fn a_resize_that_can_never_be_granted_counts_with_what_is_in_force() {
        let status = ContainerStatus {
            name: "a".to_owned(),
            allocated_resources: quantities(&[("cpu", "1")]),
            resources: asks(&[("cpu", "1")]),
            ..Default::default()
        };
        let infeasible = PodCondition {
            r#type: "PodResizePending".to_owned(),
            status: "True".to_owned(),
            reason: "Infeasible".to_owned(),
            ..Default::default()
        };
        let status = PodStatus {
            container_statuses: vec![status],
            conditions: vec![infeasible],
            ..Default::default()
        };
        let pod = Pod {
            spec: Some(PodSpec { containers: vec![container("a", &[("cpu", "9")])], ..Default::default() }),
            status: Some(status),
            ..Default::default()
        };
        assert_eq!(of_pod(&pod), amounts(&quantities(&[("cpu", "1")])));
    }
}
