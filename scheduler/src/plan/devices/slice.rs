//! ResourceSlices as the allocator reads them, and the pools that they form.
//!
//! A pool is the slices of one driver and pool name of the newest generation; older ones are being replaced. Invariant:
//! what a slice holds is parsed once, when it is taken in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// What a device takes of a counter that its pool's devices share.
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

    fn targets(&self, node: NodeOf<'_>) -> bool {
        self.access.includes(node) || self.devices.iter().any(|device| device.access.includes(node))
    }

    /// The one node that the slice is for, if there is one.
    fn local_node(&self) -> Option<&str> {
        match &self.access {
            Access::Node(name) => Some(name),
            _ => None,
        }
    }
}

/// All slices of the cluster, by pool.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_id: BTreeMap<PoolId, BTreeMap<String, Arc<Slice>>>,
    pool_of: HashMap<String, PoolId>,
    /// Pools by the nodes of slices that are for one node.
    local: HashMap<String, BTreeMap<PoolId, usize>>,
    /// Pools with other slices.
    wide: BTreeMap<PoolId, usize>,
}

/// What a pool looks like from a node.
#[derive(Debug)]
pub(super) struct PoolView {
    pub(super) id: PoolId,
    /// Slices with devices for the node, by name.
    pub(super) slices: Vec<Arc<Slice>>,
    /// All slices of the generation.
    pub(super) all: Vec<Arc<Slice>>,
    pub(super) state: PoolState,
}

/// Whether a pool can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    Complete,
    /// Slices are missing: the driver is replacing them.
    Incomplete,
    /// Names of devices are not unique, or counters that are consumed do not exist.
    Invalid,
}

impl Pools {
    pub(super) fn upsert(&mut self, name: &str, slice: Slice) {
        self.remove(name);
        let slice = Arc::new(slice);
        let index = match slice.local_node() {
            Some(node) => self.local.entry(node.to_owned()).or_default(),
            None => &mut self.wide,
        };
        *index.entry(slice.pool.clone()).or_default() += 1;
        self.pool_of.insert(name.to_owned(), slice.pool.clone());
        self.by_id.entry(slice.pool.clone()).or_default().insert(name.to_owned(), slice);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(id) = self.pool_of.remove(name) else { return };
        let slices = self.by_id.get_mut(&id).expect("a known slice is in a pool");
        let slice = slices.remove(name).expect("a known slice is in its pool");
        if slices.is_empty() {
            self.by_id.remove(&id);
        }
        match slice.local_node() {
            Some(node) => {
                if let Some(index) = self.local.get_mut(node) {
                    release(index, &id);
                    if index.is_empty() {
                        self.local.remove(node);
                    }
                }
            }
            None => release(&mut self.wide, &id),
        }
    }

    /// The pools with devices for `node`: those whose devices are ready at once before those that have to be bound, then
    /// by name.
    pub(super) fn of_node(&self, node: NodeOf<'_>) -> Vec<PoolView> {
        let local = self.local.get(node.name).into_iter().flat_map(BTreeMap::keys);
        let ids: BTreeSet<&PoolId> = local.chain(self.wide.keys()).collect();
        let mut views: Vec<PoolView> = ids.into_iter().filter_map(|id| self.view(id, node)).collect();
        views.sort_by_cached_key(|view| {
            let mut devices = view.slices.iter().flat_map(|slice| &slice.devices);
            (devices.any(|device| !device.api.binding_conditions.is_empty()), view.id.clone())
        });
        views
    }

    fn view(&self, id: &PoolId, node: NodeOf<'_>) -> Option<PoolView> {
        let slices = &self.by_id[id];
        let generation = slices.values().map(|slice| slice.generation).max()?;
        let all: Vec<_> = slices.values().filter(|slice| slice.generation == generation).cloned().collect();
        let slices: Vec<_> = all.iter().filter(|slice| slice.targets(node)).cloned().collect();
        let first = slices.first()?;
        let is_complete = i64::try_from(all.len()).is_ok_and(|len| len == first.slice_count);
        let state = match (is_valid(&all, &slices), is_complete) {
            (_, false) => PoolState::Incomplete,
            (false, true) => PoolState::Invalid,
            (true, true) => PoolState::Complete,
        };
        Some(PoolView { id: id.clone(), slices, all, state })
    }
}

fn release(index: &mut BTreeMap<PoolId, usize>, id: &PoolId) {
    if let Some(count) = index.get_mut(id) {
        *count -= 1;
        if *count == 0 {
            index.remove(id);
        }
    }
}

/// Whether the names of devices are unique in the slices for the node, and counters exist, once each, in all of the pool:
/// devices of other nodes take from them, too.
fn is_valid(all: &[Arc<Slice>], of_node: &[Arc<Slice>]) -> bool {
    let mut names = BTreeSet::new();
    let mut named = of_node.iter().flat_map(|slice| &slice.devices);
    let counters: BTreeSet<&CounterId> = all.iter().flat_map(|slice| slice.counters.keys()).collect();
    let number: usize = all.iter().map(|slice| slice.counters.len()).sum();
    let mut consumed = all.iter().flat_map(|slice| &slice.devices).flat_map(|device| &device.consumes);
    number == counters.len()
        && named.all(|device| names.insert(&device.id.device))
        && consumed.all(|one| counters.contains(&one.counter))
}
