//! Extended resources that devices stand for: the amounts that pods ask for, the classes that offer them, and the requests for
//! devices in their place.
//!
//! A container asks for an amount of a resource; the claim has a request for as many devices of the class that offers
//! it. Containers that run beside each other have a request each. Init containers that end before the others start use
//! the devices of containers that come after them, and what they need beyond those is asked for once, for the neediest.
//!
//! Never allocates: devices are searched for as for the claims of the API.

use std::collections::{BTreeMap, HashMap};

use orch_proto::Brand;

use super::claim::Class;
use crate::api::core::v1::{Container as ApiContainer, ContainerExtendedResourceRequest, PodSpec};
use crate::api::resource::v1 as api;
use crate::objects::quantity;

/// Name of the resource that a class offers without naming one, up to the name of the class.
fn implicit_prefix(brand: &Brand) -> String {
    format!("deviceclass.resource.{}", brand.label(""))
}

/// Extended resources, with the classes that offer them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Offers(HashMap<String, String>);

impl Offers {
    /// The offers of `classes`: each an implicit resource by its own name, and the one that it names. Of several classes that
    /// name the same, the one that was created last offers it, and of those the first by name.
    pub(super) fn of(classes: &BTreeMap<String, Class>, brand: &Brand) -> Offers {
        let prefix = implicit_prefix(brand);
        let implicit = classes.keys().map(|name| (format!("{prefix}{name}"), name.clone()));
        let mut offers: HashMap<String, String> = implicit.collect();
        for (name, class) in classes {
            let Some(resource) = &class.extended_resource else { continue };
            let other = offers.get(resource).and_then(|other| classes.get(other));
            if other.is_none_or(|other| class.created > other.created) {
                offers.insert(resource.clone(), name.clone());
            }
        }
        Offers(offers)
    }

    /// The class that offers a resource.
    pub(super) fn class(&self, resource: &str) -> Option<&str> {
        self.0.get(resource).map(String::as_str)
    }
}

/// Whether a resource is one that nodes do not have by themselves.
pub(super) fn is_extended(resource: &str, brand: &Brand) -> bool {
    resource.contains('/') && !resource.contains(&brand.label(""))
        || resource.starts_with(&implicit_prefix(brand))
}

/// Requests of a pod's containers for resources with a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    containers: Vec<Container>,
}

/// A container that asks for such resources.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Container {
    /// Its place among the init containers and the containers after them.
    index: usize,
    name: String,
    /// Whether it ends before the containers after it start.
    is_short_lived: bool,
    resources: Vec<Amount>,
}

/// An amount of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Amount {
    resource: String,
    /// The place of the resource among all that the container asks for.
    index: usize,
    amount: i64,
}

impl Asked {
    /// Reads `spec`.
    pub(super) fn new(spec: &PodSpec) -> Asked {
        let init = spec.init_containers.iter().map(|container| (container, true));
        let all = init.chain(spec.containers.iter().map(|container| (container, false))).enumerate();
        let containers =
            all.filter_map(|(index, (container, is_init))| Container::new(index, container, is_init));
        Asked { containers: containers.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// The resources, sorted, each once.
    pub(super) fn resources(&self) -> Vec<&str> {
        let amounts = self.containers.iter().flat_map(|container| &container.resources);
        let mut resources: Vec<&str> = amounts.map(|amount| amount.resource.as_str()).collect();
        resources.sort_unstable();
        resources.dedup();
        resources
    }

    /// The requests for devices in the place of `resources`, each with the class that offers it, and which of them each
    /// container may use.
    pub(super) fn requests(
        &self,
        resources: &[(&str, &str)],
    ) -> (Vec<api::DeviceRequest>, Vec<ContainerExtendedResourceRequest>) {
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        for (resource, class) in resources {
            let (long, of_long) = self.long_lived(resource);
            let (short, of_short) = self.short_lived(resource, &long);
            let all = short.into_iter().chain(long);
            requests.extend(all.map(|request| request.of_class(class)));
            mappings.extend(of_long.into_iter().chain(of_short));
        }
        requests.sort_by(|one, other| one.name.cmp(&other.name));
        (requests, mappings)
    }

    /// Requests of the containers that run beside each other.
    fn long_lived(&self, resource: &str) -> (Vec<Wanted>, Vec<ContainerExtendedResourceRequest>) {
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        for container in self.containers.iter().filter(|container| !container.is_short_lived) {
            let Some(asked) = container.amount(resource) else { continue };
            let request = Wanted::new(container, asked, asked.amount);
            mappings.push(container.uses(resource, &request));
            requests.push(request);
        }
        (requests, mappings)
    }

    /// The request that init containers share who need more than the containers after them.
    fn short_lived(
        &self,
        resource: &str,
        long: &[Wanted],
    ) -> (Option<Wanted>, Vec<ContainerExtendedResourceRequest>) {
        let mut largest: Option<Wanted> = None;
        let mut mappings = Vec::new();
        // Where in `mappings` the request stands that is not known until all containers are.
        let mut open = Vec::new();
        for container in self.containers.iter().filter(|container| container.is_short_lived) {
            let Some(asked) = container.amount(resource) else { continue };
            let mut missing = asked.amount;
            for later in long.iter().filter(|later| later.container > container.index) {
                if missing <= 0 {
                    break;
                }
                missing -= later.count;
                mappings.push(container.uses(resource, later));
            }
            if missing <= 0 {
                continue;
            }
            let request = Wanted::new(container, asked, missing);
            open.push(mappings.len());
            mappings.push(container.uses(resource, &request));
            if largest.as_ref().is_none_or(|largest| request.count > largest.count) {
                largest = Some(request);
            }
        }
        if let Some(largest) = &largest {
            open.into_iter().for_each(|at| mappings[at].request_name.clone_from(&largest.name));
        }
        (largest, mappings)
    }
}

impl Container {
    /// `None` if the container asks for none of these resources.
    fn new(index: usize, container: &ApiContainer, is_init: bool) -> Option<Container> {
        // Sorted by name, which is the order that the places count in.
        let requests = &container.resources.as_ref()?.requests;
        let amounts = requests.iter().enumerate().map(|(index, (resource, amount))| Amount {
            resource: resource.clone(),
            index,
            amount: quantity::units(&amount.string),
        });
        let resources: Vec<Amount> =
            amounts.filter(|one| one.amount > 0 && one.resource.contains('/')).collect();
        (!resources.is_empty()).then(|| Container {
            index,
            name: container.name.clone(),
            is_short_lived: is_init && container.restart_policy.as_deref() != Some("Always"),
            resources,
        })
    }

    fn amount(&self, resource: &str) -> Option<&Amount> {
        self.resources.iter().find(|one| one.resource == resource)
    }

    fn uses(&self, resource: &str, request: &Wanted) -> ContainerExtendedResourceRequest {
        ContainerExtendedResourceRequest {
            container_name: self.name.clone(),
            resource_name: resource.to_owned(),
            request_name: request.name.clone(),
        }
    }
}

/// A request for devices whose class is not chosen yet.
struct Wanted {
    name: String,
    /// The place of the container that it is for.
    container: usize,
    count: i64,
}

impl Wanted {
    fn new(container: &Container, asked: &Amount, count: i64) -> Wanted {
        let name = format!("container-{}-request-{}", container.index, asked.index);
        Wanted { name, container: container.index, count }
    }

    fn of_class(self, class: &str) -> api::DeviceRequest {
        let exactly = api::ExactDeviceRequest {
            device_class_name: class.to_owned(),
            allocation_mode: "ExactCount".to_owned(),
            count: self.count,
            ..api::ExactDeviceRequest::default()
        };
        api::DeviceRequest { name: self.name, exactly: Some(exactly), first_available: Vec::new() }
    }
}
