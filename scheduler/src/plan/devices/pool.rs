//! Pools: the slices of one driver and pool name of the newest generation; older ones are being replaced.
//!
//! Owns the pools that have devices for a node, their order, and whether they can be used. The part that is the same for every node
//! ([`Newest`]) is found once after each change of a pool's slices, when a plan first looks at it: a plan asks about
//! thousands of nodes, and a pool may hold slices for all of them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::NodeOf;
use super::slice::{CounterId, PoolId, Slice};

/// All slices of the cluster, by pool.
#[derive(Debug, Default)]
pub(super) struct Pools {
    by_id: BTreeMap<PoolId, Pool>,
    pool_of: HashMap<String, PoolId>,
    /// Pools by the nodes of slices that are for one node.
    local: HashMap<String, BTreeMap<PoolId, usize>>,
    /// Pools with other slices.
    wide: BTreeMap<PoolId, usize>,
}

/// The slices of a pool, of all generations.
#[derive(Debug, Default)]
struct Pool {
    slices: BTreeMap<String, Arc<Slice>>,
    /// Unset by each change of `slices`.
    newest: OnceCell<Newest>,
}

/// The part of a pool that is the same for all nodes.
#[derive(Debug)]
struct Newest {
    /// The slices of the newest generation, by name.
    slices: Arc<[Arc<Slice>]>,
    /// Whether counters that devices consume exist, each once. Devices of all nodes take from them.
    has_valid_counters: bool,
    /// Whether all devices have different names. If not, those of a single node still may.
    has_unique_names: bool,
}

/// A pool as one node sees it.
#[derive(Debug)]
pub(super) struct PoolView {
    pub(super) id: PoolId,
    /// Slices with devices for the node, by name.
    pub(super) slices: Vec<Arc<Slice>>,
    /// All slices of the generation.
    pub(super) all: Arc<[Arc<Slice>]>,
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
        let pool = self.by_id.entry(slice.pool.clone()).or_default();
        pool.newest.take();
        pool.slices.insert(name.to_owned(), slice);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(id) = self.pool_of.remove(name) else { return };
        let pool = self.by_id.get_mut(&id).expect("a known slice is in a pool");
        pool.newest.take();
        let slice = pool.slices.remove(name).expect("a known slice is in its pool");
        if pool.slices.is_empty() {
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
        let mut views: Vec<PoolView> =
            ids.into_iter().filter_map(|id| self.by_id[id].view(id, node)).collect();
        views.sort_by_cached_key(|view| {
            let mut devices = view.slices.iter().flat_map(|slice| &slice.devices);
            (devices.any(|device| !device.api.binding_conditions.is_empty()), view.id.clone())
        });
        views
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

impl Pool {
    /// The pool from a node; `None` if it has no devices for it.
    fn view(&self, id: &PoolId, node: NodeOf<'_>) -> Option<PoolView> {
        let newest = self.newest.get_or_init(|| Newest::of(self.slices.values()));
        let all = &newest.slices;
        let slices: Vec<_> = all.iter().filter(|slice| slice.targets(node)).cloned().collect();
        let first = slices.first()?;
        let is_complete = i64::try_from(all.len()).is_ok_and(|len| len == first.slice_count);
        let is_valid = || newest.has_valid_counters && (newest.has_unique_names || has_unique_names(&slices));
        let state = match is_complete {
            false => PoolState::Incomplete,
            true if is_valid() => PoolState::Complete,
            true => PoolState::Invalid,
        };
        Some(PoolView { id: id.clone(), slices, all: Arc::clone(all), state })
    }
}

impl Newest {
    fn of<'a>(slices: impl Iterator<Item = &'a Arc<Slice>> + Clone) -> Newest {
        let generation = slices.clone().map(|slice| slice.generation).max();
        let slices: Arc<[_]> = slices.filter(|slice| Some(slice.generation) == generation).cloned().collect();
        let counters: BTreeSet<&CounterId> = slices.iter().flat_map(|slice| slice.counters.keys()).collect();
        let number: usize = slices.iter().map(|slice| slice.counters.len()).sum();
        let devices = slices.iter().flat_map(|slice| &slice.devices);
        let mut consumed = devices.flat_map(|device| &device.consumes);
        let has_valid_counters =
            number == counters.len() && consumed.all(|one| counters.contains(&one.counter));
        let has_unique_names = has_unique_names(&slices);
        Newest { slices, has_valid_counters, has_unique_names }
    }
}

/// Whether the devices of these slices have different names.
fn has_unique_names(slices: &[Arc<Slice>]) -> bool {
    let mut names = BTreeSet::new();
    slices.iter().flat_map(|slice| &slice.devices).all(|device| names.insert(&device.id.device))
}
