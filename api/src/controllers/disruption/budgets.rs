//! Budgets as far as they are counted, and those that have to be counted.
//!
//! Owns which budgets a change concerns: of the budget itself, of a pod that it selects, or of an object with a scale that
//! controls pods. The loop's own write of a status is no reason to count again.
//!
//! Invariant: the parsed selectors of a namespace fit into their room (`SelectorRoom`); a budget beyond it is not woken by
//! changes of pods, and the loop counts for it at intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_rules::disruption::scale_is_needed;
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::{BUDGETS, PODS, namespace_of, replicas};
use crate::controllers::meaning::means_same;
use crate::controllers::queue::Queue;
use crate::controllers::rounds::Queued;
use crate::follow::Derived;
use crate::registry::Registry;
use crate::selector::{SelectorRoom, StoredLabels};

/// From a change to the count: changes that come together cost one. A drained node waits for the next disruption.
const WAIT: Duration = Duration::from_millis(50);

/// Which pods a budget selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// No pod.
    Nothing,
    /// Pods that the selector matches.
    By(LabelSelector),
    /// Pods that the stored object's selector matches. The parsed selector, of this many bytes, is not held for want of room.
    NotHeld(usize),
}

impl Selection {
    fn held_bytes(&self) -> usize {
        match self {
            Selection::By(selector) => selector.held_bytes(),
            Selection::Nothing | Selection::NotHeld(_) => 0,
        }
    }
}

/// A budget, as far as it is counted. A client's selector may have thousands of requirements, so it is parsed once.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) selection: Selection,
    pub(super) needs_scale: bool,
    /// Version, numbers and status, without the selector.
    pub(super) counted: Value,
    /// Bytes of the stored object.
    pub(super) bytes: usize,
}

impl Budget {
    pub(super) fn of(object: &SharedObject) -> Option<Budget> {
        let budget: Value = serde_json::from_slice(&object.json).ok()?;
        let (metadata, spec) = (budget.at("metadata"), budget.at("spec"));
        let counted = json!({
            "metadata": {
                "uid": metadata.text("uid"),
                "resourceVersion": metadata.text("resourceVersion"),
                "generation": metadata.at("generation").clone(),
            },
            "spec": {
                "minAvailable": spec.at("minAvailable").clone(),
                "maxUnavailable": spec.at("maxUnavailable").clone(),
            },
            "status": budget.at("status").clone(),
        });
        let selector = LabelSelector::of_field(spec.at("selector"));
        let selection = selector.map_or(Selection::Nothing, Selection::By);
        Some(Budget { selection, needs_scale: scale_is_needed(&budget), counted, bytes: object.json.len() })
    }

    /// Whether the status is `status`, which was counted for this generation of the budget.
    fn has_status(&self, status: &Value) -> bool {
        let generation = self.counted.at("metadata").int("generation");
        status.int("observedGeneration") == generation && means_same(self.counted.at("status"), status)
    }

    pub(super) fn selects(&self, pod: &SharedObject) -> bool {
        match &self.selection {
            Selection::By(selector) => selector.matches(&StoredLabels::of(pod)),
            Selection::Nothing | Selection::NotHeld(_) => false,
        }
    }
}

/// The budgets of all namespaces, and those that have to be counted.
#[derive(Debug)]
pub(super) struct Budgets {
    pub(super) sources: Vec<Arc<str>>,
    pub(super) by_namespace: BTreeMap<Box<str>, BTreeMap<Arc<str>, Arc<Budget>>>,
    pub(super) room: SelectorRoom,
    /// Paths of budgets that have to be counted.
    pub(super) queue: Queue<Arc<str>>,
    /// The statuses that the loop has written and not yet seen: a change that is its own write needs no further count.
    written: BTreeMap<Arc<str>, Value>,
}

impl Budgets {
    pub(super) fn new(registry: &Registry) -> Self {
        Budgets {
            sources: sources_in(registry),
            by_namespace: BTreeMap::new(),
            room: SelectorRoom::default(),
            queue: Queue::default(),
            written: BTreeMap::new(),
        }
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let namespace = namespace_of(path);
        let Some(mut budget) = object.and_then(Budget::of) else {
            self.written.remove(path);
            if let Some(budgets) = self.by_namespace.get_mut(namespace) {
                let bytes = budgets.remove(path).map_or(0, |old| old.selection.held_bytes());
                self.room.give_back(namespace, bytes);
                if budgets.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
            return;
        };
        let is_own = self.written.remove(path).is_some_and(|status| budget.has_status(&status));
        let budgets = self.by_namespace.entry(namespace.into()).or_default();
        self.room.give_back(namespace, budgets.get(path).map_or(0, |old| old.selection.held_bytes()));
        let bytes = budget.selection.held_bytes();
        if !self.room.take(namespace, bytes) {
            budget.selection = Selection::NotHeld(bytes);
        }
        budgets.insert(path.clone(), Arc::new(budget));
        if !is_own {
            self.queue.add(path, WAIT);
        }
    }

    /// The budget at `path`. Its selector is held from now on where that has room and was not held.
    pub(super) fn take(&mut self, state: &State, path: &Arc<str>) -> Option<Arc<Budget>> {
        if let Selection::NotHeld(bytes) = self.find(path)?.selection
            && self.room.fits(namespace_of(path), bytes)
        {
            self.set(path, state.collection(BUDGETS).get(path));
        }
        self.find(path).cloned()
    }

    pub(super) fn find(&self, path: &str) -> Option<&Arc<Budget>> {
        self.by_namespace.get(namespace_of(path))?.get(path)
    }

    /// Takes in the status that was written for the budget at `path`, unless the budget has it already.
    pub(super) fn note_written(&mut self, path: &Arc<str>, status: Value) {
        if self.find(path).is_some_and(|budget| !budget.has_status(&status)) {
            self.written.insert(path.clone(), status);
        }
    }

    /// Marks the budgets of the namespace of `path` that `concerns` is true of.
    fn mark(&mut self, path: &str, concerns: impl Fn(&Budget) -> bool) {
        let Some(budgets) = self.by_namespace.get(namespace_of(path)) else { return };
        for (path, _) in budgets.iter().filter(|(_, budget)| concerns(budget)) {
            self.queue.add(path, WAIT);
        }
    }
}

/// Budgets, pods, and whatever has a number of pods.
fn sources_in(registry: &Registry) -> Vec<Arc<str>> {
    let mut sources: BTreeSet<Arc<str>> = registry
        .resources()
        .filter(|resource| replicas::scale_paths(resource).is_some())
        .map(|resource| resource.storage.clone())
        .collect();
    sources.extend([BUDGETS.into(), PODS.into()]);
    sources.into_iter().collect()
}

impl Derived for Budgets {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        match &**source {
            BUDGETS => self.set(&change.path, change.new.as_ref()),
            PODS => {
                let pods = [&change.new, &change.old];
                // few: two.
                self.mark(&change.path, |budget| pods.into_iter().flatten().any(|pod| budget.selects(pod)));
            }
            _ => self.mark(&change.path, |budget| budget.needs_scale),
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.by_namespace.clear();
        self.room.clear();
        self.written.clear();
        for (path, object) in state.collection(BUDGETS).range_from("") {
            self.set(path, Some(object));
        }
    }
}

impl Queued for Budgets {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }

    fn sources_of(served: &Registry) -> Option<Vec<Arc<str>>> {
        Some(sources_in(served))
    }

    /// Numbers of pods may have become known, or unknown.
    fn follow(&mut self, sources: Vec<Arc<str>>, _state: &State) {
        if self.sources == sources {
            return;
        }
        self.sources = sources;
        let all = self.by_namespace.values().flatten();
        for (path, _) in all.filter(|(_, budget)| budget.needs_scale) {
            self.queue.add(path, WAIT);
        }
    }
}
