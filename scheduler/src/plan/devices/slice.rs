//! ResourceSlices as the allocator reads them.
//!
//! Owns devices, the counters that they consume, and the nodes that can use them. Invariant: a slice is parsed once, when it is taken in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use orch_schema::quantity::Quantity;

use super::NodeOf;
use super::expression::DeviceObject;
use crate::api::core::v1::NodeSelector as ApiNodeSelector;
use crate::api::resource::v1 as api;
use crate::selector::NodeSelector;

/// Driver and name of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PoolId {
    pub(super) driver: Arc<str>,
    pub(super) pool: Arc<str>,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// The name of a device in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DeviceId {
    pub(super) pool: PoolId,
    pub(super) device: Arc<str>,
}

impl DeviceId {
    pub(super) fn new(driver: &str, pool: &str, device: &str) -> DeviceId {
        DeviceId { pool: PoolId { driver: driver.into(), pool: pool.into() }, device: device.into() }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.device)
    }
}

/// The nodes from which something can be used.
#[derive(Clone, Debug)]
pub(super) enum Access {
    /// No known way to say it was used.
    Nowhere,
    Node(String),
    Everywhere,
    Selected {
        selector: NodeSelector,
        api: ApiNodeSelector,
    },
}

impl Access {
    fn new(name: Option<&str>, all: Option<bool>, selector: Option<&ApiNodeSelector>) -> Access {
        match (name, selector) {
            (Some(name), _) if !name.is_empty() => Access::Node(name.to_owned()),
            _ if all == Some(true) => Access::Everywhere,
            (_, Some(api)) => Access::Selected { selector: NodeSelector::new(api), api: api.clone() },
            _ => Access::Nowhere,
        }
    }

    pub(super) fn includes(&self, node: NodeOf<'_>) -> bool {
        match self {
            Access::Nowhere => false,
            Access::Node(name) => name == node.name,
            Access::Everywhere => true,
            Access::Selected { selector, .. } => selector.matches(node.name, node.labels),
        }
    }
}

/// A capacity of a device.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    /// The name as the slice has it.
    pub(super) name: String,
    pub(super) value: Quantity,
    /// The value as the slice has it.
    pub(super) text: String,
    pub(super) policy: Option<api::CapacityRequestPolicy>,
}

/// Amount that a device takes of a counter which its pool's devices share.
#[derive(Clone, Debug)]
pub(super) struct Consumption {
    pub(super) counter: CounterId,
    pub(super) amount: Quantity,
}

/// Name of a counter set and of a counter in it.
pub(super) type CounterId = (String, String);

/// A device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) id: DeviceId,
    pub(super) access: Access,
    pub(super) object: DeviceObject,
    pub(super) api: api::Device,
    /// By name with the domain.
    pub(super) capacity: BTreeMap<String, Capacity>,
    pub(super) consumes: Vec<Consumption>,
}

impl Device {
    fn new(slice: &api::ResourceSliceSpec, device: &api::Device, pool: &PoolId, of_slice: &Access) -> Device {
        let access = if slice.per_device_node_selection == Some(true) {
            Access::new(device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref())
        } else {
            of_slice.clone()
        };
        let capacity = device.capacity.iter().map(|(name, one)| {
            let text = one.value.as_ref().map(|value| value.string.clone()).unwrap_or_default();
            let value = Quantity::parse(&text).unwrap_or_default();
            let capacity = Capacity { name: name.clone(), value, text, policy: one.request_policy.clone() };
            (full_name(&pool.driver, name), capacity)
        });
        let consumes = device.consumes_counters.iter().flat_map(|one| {
            let counters = one.counters.iter();
            counters.map(|(name, counter)| Consumption {
                counter: (one.counter_set.clone(), name.clone()),
                amount: counter_value(counter),
            })
        });
        Device {
            id: DeviceId { pool: pool.clone(), device: device.name.as_str().into() },
            access,
            object: DeviceObject::new(&pool.driver, device),
            capacity: capacity.collect(),
            consumes: consumes.collect(),
            api: device.clone(),
        }
    }

    /// Whether several claims may use it at once.
    pub(super) fn is_shared(&self) -> bool {
        self.api.allow_multiple_allocations == Some(true)
    }

    /// The attribute with this name and domain.
    pub(super) fn attribute(&self, qualified: &str) -> Option<&api::DeviceAttribute> {
        self.api.attributes.get(qualified).or_else(|| {
            let name = qualified.strip_prefix(&*self.id.pool.driver)?.strip_prefix('/')?;
            self.api.attributes.get(name)
        })
    }
}

fn counter_value(counter: &api::Counter) -> Quantity {
    counter.value.as_ref().and_then(|value| Quantity::parse(&value.string)).unwrap_or_default()
}

/// The name with its domain, which is the driver's if the name has none.
pub(super) fn full_name(driver: &str, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{driver}/{name}") }
}

/// A slice.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) pool: PoolId,
    pub(super) generation: i64,
    /// Number of slices of a complete pool.
    pub(super) slice_count: i64,
    /// Nodes by the slice's own word; those of its devices may be others.
    access: Access,
    pub(super) devices: Vec<Arc<Device>>,
    pub(super) counters: BTreeMap<CounterId, Quantity>,
}

impl Slice {
    pub(super) fn new(slice: &api::ResourceSlice) -> Slice {
        let spec = slice.spec.clone().unwrap_or_default();
        let pool = spec.pool.clone().unwrap_or_default();
        let id = PoolId { driver: spec.driver.as_str().into(), pool: pool.name.as_str().into() };
        let access = Access::new(spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref());
        let counters = spec.shared_counters.iter().flat_map(|set| {
            set.counters
                .iter()
                .map(|(name, counter)| ((set.name.clone(), name.clone()), counter_value(counter)))
        });
        Slice {
            devices: spec
                .devices
                .iter()
                .map(|device| Arc::new(Device::new(&spec, device, &id, &access)))
                .collect(),
            counters: counters.collect(),
            pool: id,
            generation: pool.generation,
            slice_count: pool.resource_slice_count,
            access,
        }
    }

    /// Whether it has devices for the node.
    pub(super) fn targets(&self, node: NodeOf<'_>) -> bool {
        self.access.includes(node) || self.devices.iter().any(|device| device.access.includes(node))
    }

    /// The one node that the slice is for, if there is one.
    pub(super) fn local_node(&self) -> Option<&str> {
        match &self.access {
            Access::Node(name) => Some(name),
            _ => None,
        }
    }
}
