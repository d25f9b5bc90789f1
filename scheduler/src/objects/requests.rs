//! The sum of the resources that a pod requests, as the reference counts it.
//!
//! Owns the sum, over whatever form of amounts: containers add up, sidecars (init containers that restart always) add up
//! with them, other init containers count where they need more than what runs beside them; requests of the whole pod
//! replace those of its containers for the resources they name; overhead comes on top. Of a container that is being
//! resized, the largest of what is asked for, granted and in use counts, unless the resize can never be granted.

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
    /// The amounts that have to fit.
    pub total: Resources,
    /// CPU that scores count: containers without a request count as 100 milli-units.
    pub scored_cpu_milli: i64,
    /// Memory that scores count: containers without a request count as 200 MiB.
    pub scored_memory: i64,
}

impl Requests {
    /// Adds up the requests of a pod.
    pub fn compile(interner: &mut Interner, pod: &v1::Pod) -> Requests {
        let mut read = |list: &List| Resources::compile(interner, list);
        let total = of_pod(pod, &mut read, |_, _| {});
        let scored = of_pod(pod, &mut read, |requests, asked| {
            if !asked.contains_key("cpu") {
                requests.cpu_milli = requests.cpu_milli.max(DEFAULT_CPU_MILLI);
            }
            if !asked.contains_key("memory") {
                requests.memory = requests.memory.max(DEFAULT_MEMORY);
            }
        });
        Requests { total, scored_cpu_milli: scored.cpu_milli, scored_memory: scored.memory }
    }
}

/// Amounts by resource, as the API has them.
type List = BTreeMap<String, Quantity>;

/// A form of amounts by resource.
pub trait Amounts: Clone + Default {
    /// Adds others.
    fn add(&mut self, others: &Self);
    /// Takes the larger of each.
    fn maximize(&mut self, others: &Self);
    /// Puts `others` in place of the amounts that `names` names.
    fn replace(&mut self, others: Self, names: &List);
}

/// The pod's effective requests, in the form that `read` gives lists. `complete` may change the amounts of a container, beside the list
/// of its requests.
pub fn of_pod<A: Amounts>(
    pod: &v1::Pod,
    read: &mut impl FnMut(&List) -> A,
    complete: impl Fn(&mut A, &List),
) -> A {
    let Some(spec) = &pod.spec else { return A::default() };
    let infeasible = resize_is_infeasible(pod);
    let empty = v1::PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    let mut total = of_containers(spec, |container, is_init| {
        let statuses = if is_init { &status.init_container_statuses } else { &status.container_statuses };
        // An init container that does not go on gives its amounts back when it ends.
        let is_resized = !is_init || is_sidecar(container);
        let status = statuses.iter().find(|status| is_resized && status.name == container.name);
        let mut requests = of_container(container, status, infeasible, read);
        complete(&mut requests, requests_of(container.resources.as_ref()));
        requests
    });
    let of_pod = pod_level(requests_of(spec.resources.as_ref()));
    if !of_pod.is_empty() {
        replace_by_pod_level(&mut total, pod, of_pod, infeasible, read);
    }
    total.add(&read(&spec.overhead));
    total
}

/// Containers run together; an init container runs beside the sidecars that were started before it. `of_container` also
/// gets whether it is an init container.
pub fn of_containers<A: Amounts>(
    spec: &v1::PodSpec,
    mut of_container: impl FnMut(&v1::Container, bool) -> A,
) -> A {
    let mut together = A::default();
    for container in &spec.containers {
        together.add(&of_container(container, false));
    }
    let (mut sidecars, mut starting) = (A::default(), A::default());
    for container in &spec.init_containers {
        let mut asked = of_container(container, true);
        if is_sidecar(container) {
            together.add(&asked);
            sidecars.add(&asked);
            asked = sidecars.clone();
        } else {
            asked.add(&sidecars);
        }
        starting.maximize(&asked);
    }
    together.maximize(&starting);
    together
}

fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The part of a list that may stand for the whole pod.
pub fn pod_level(list: &List) -> List {
    let is_pod_level = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let kept = list.iter().filter(|(name, _)| is_pod_level(name));
    kept.map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

fn requests_of(resources: Option<&v1::ResourceRequirements>) -> &List {
    static NONE: List = List::new();
    resources.map_or(&NONE, |resources| &resources.requests)
}

fn replace_by_pod_level<A: Amounts>(
    total: &mut A,
    pod: &v1::Pod,
    names: List,
    infeasible: bool,
    read: &mut impl FnMut(&List) -> A,
) {
    let mut requests = read(&names);
    let status = pod.status.as_ref();
    if let Some((status, used)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) {
        let named = |list: &List| -> List {
            let kept = list.iter().filter(|(name, _)| names.contains_key(*name));
            kept.map(|(name, amount)| (name.clone(), amount.clone())).collect()
        };
        let granted = read(&named(&status.allocated_resources));
        if infeasible {
            requests = granted;
        } else {
            requests.maximize(&granted);
        }
        requests.maximize(&read(&named(&used.requests)));
    }
    total.replace(requests, &names);
}

fn of_container<A: Amounts>(
    container: &v1::Container,
    status: Option<&v1::ContainerStatus>,
    infeasible: bool,
    read: &mut impl FnMut(&List) -> A,
) -> A {
    let mut requests = read(requests_of(container.resources.as_ref()));
    if let Some((status, used)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) {
        let used = read(&used.requests);
        if infeasible {
            requests = used;
        } else {
            requests.maximize(&used);
        }
        requests.maximize(&read(&status.allocated_resources));
    }
    requests
}

/// Whether the node said that it can never grant the resize that is asked for.
fn resize_is_infeasible(pod: &v1::Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| {
        status
            .conditions
            .iter()
            .any(|condition| condition.r#type == "PodResizePending" && condition.reason == "Infeasible")
    })
}
