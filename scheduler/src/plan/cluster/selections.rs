//! Counts of selected pods by node.
//!
//! Owns counters that follow every pod that comes and goes. A counter is made when a plan first asks for it, by one
//! scan; those that no plan asked for lately are dropped when there are too many.

use hashbrown::HashMap;

use crate::objects::affinity::PodSelection;
use crate::objects::intern::{Interner, Symbol};
use crate::objects::pod::Pod;

use super::counts::NodeCounts;
use super::namespaces::Namespaces;
use super::nodes::{NodeId, Nodes};

/// Counters that are kept. Each costs a comparison with every pod of its namespace that comes or goes; a cluster rarely
/// has this many pending workloads with rules between pods. The oldest go first and are made anew when asked for.
const COUNTERS_MAX: usize = 1024;

/// The key of a counter, which counts pods that all of the selections choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counted {
    /// All of these have to choose the pod.
    pub all: Vec<PodSelection>,
    /// Whether pods that are being deleted count.
    pub terminating: bool,
}

impl Counted {
    /// Whether `pod` counts.
    pub fn counts(&self, pod: &Pod, namespaces: &Namespaces, texts: &Interner) -> bool {
        (self.terminating || !pod.terminating) && {
            let namespace = pod.shape.namespace;
            let labels = namespaces.labels(namespace);
            self.all.iter().all(|selection| selection.matches(namespace, labels, &pod.shape.labels, texts))
        }
    }

    /// The only namespace whose pods can count, if there is one.
    fn only_namespace(&self) -> Option<Symbol> {
        let by_name = |selection: &PodSelection| {
            let selector = &selection.namespace_selector;
            (*selector == crate::objects::labels::Selector::nothing() && selection.namespaces.len() == 1)
                .then(|| selection.namespaces[0])
        };
        self.all.iter().find_map(by_name)
    }

    fn depends_on_namespace_labels(&self) -> bool {
        let nothing = crate::objects::labels::Selector::nothing();
        self.all.iter().any(|selection| selection.namespace_selector != nothing)
    }
}

#[derive(Debug)]
struct Counter {
    counted: Counted,
    counts: NodeCounts,
    asked: u64,
}

/// Number of a counter; good until the next plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterId(usize);

/// The counters.
#[derive(Debug, Default)]
pub struct Selections {
    counters: Vec<Option<Counter>>,
    free: Vec<usize>,
    by_counted: HashMap<Counted, usize>,
    by_namespace: HashMap<Symbol, Vec<usize>>,
    of_many_namespaces: Vec<usize>,
    asked: u64,
}

impl Selections {
    /// The counter of a selection, made if there is none.
    pub fn counter(
        &mut self,
        counted: Counted,
        nodes: &Nodes,
        namespaces: &Namespaces,
        texts: &Interner,
    ) -> CounterId {
        self.asked += 1;
        if let Some(index) = self.by_counted.get(&counted) {
            let counter = self.counters[*index].as_mut().expect("the table names live counters");
            counter.asked = self.asked;
            return CounterId(*index);
        }
        let mut counts = NodeCounts::default();
        for (id, slot) in nodes.iter() {
            for _ in slot.pods.iter().filter(|pod| counted.counts(pod, namespaces, texts)) {
                counts.add(id);
            }
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.counters.push(None);
            self.counters.len() - 1
        });
        match counted.only_namespace() {
            Some(namespace) => self.by_namespace.entry(namespace).or_default().push(index),
            None => self.of_many_namespaces.push(index),
        }
        self.by_counted.insert(counted.clone(), index);
        self.counters[index] = Some(Counter { counted, counts, asked: self.asked });
        CounterId(index)
    }

    /// The counts of a counter.
    pub fn counts(&self, id: CounterId) -> &NodeCounts {
        &self.counters[id.0].as_ref().expect("counters live until the next plan").counts
    }

    /// Whether a pod counts for a counter.
    pub fn counts_pod(&self, id: CounterId, pod: &Pod, namespaces: &Namespaces, texts: &Interner) -> bool {
        let counter = self.counters[id.0].as_ref().expect("counters live until the next plan");
        counter.counted.counts(pod, namespaces, texts)
    }

    /// A pod came to a node.
    pub fn pod_came(&mut self, node: NodeId, pod: &Pod, namespaces: &Namespaces, texts: &Interner) {
        self.for_each_that_counts(pod, namespaces, texts, |counts| counts.add(node));
    }

    /// A pod left a node.
    pub fn pod_left(&mut self, node: NodeId, pod: &Pod, namespaces: &Namespaces, texts: &Interner) {
        self.for_each_that_counts(pod, namespaces, texts, |counts| counts.remove(node));
    }

    fn for_each_that_counts(
        &mut self,
        pod: &Pod,
        namespaces: &Namespaces,
        texts: &Interner,
        mut change: impl FnMut(&mut NodeCounts),
    ) {
        let in_namespace = self.by_namespace.get(&pod.shape.namespace).map_or(&[][..], Vec::as_slice);
        for index in in_namespace.iter().chain(&self.of_many_namespaces) {
            let counter = self.counters[*index].as_mut().expect("the lists name live counters");
            if counter.counted.counts(pod, namespaces, texts) {
                change(&mut counter.counts);
            }
        }
    }

    /// Labels of namespaces changed: counters that look at them are made anew when asked for.
    pub fn namespaces_changed(&mut self) {
        self.drop_where(|counter| counter.counted.depends_on_namespace_labels());
    }

    /// Drops the counters that were not asked for lately, if there are too many. Called between plans.
    pub fn trim(&mut self) {
        if self.by_counted.len() <= COUNTERS_MAX {
            return;
        }
        let mut asked: Vec<u64> = self.counters.iter().flatten().map(|counter| counter.asked).collect();
        asked.sort_unstable();
        let oldest_kept = asked[asked.len() - COUNTERS_MAX / 2];
        self.drop_where(|counter| counter.asked < oldest_kept);
    }

    fn drop_where(&mut self, drop: impl Fn(&Counter) -> bool) {
        let dropped: Vec<usize> = (0..self.counters.len())
            .filter(|index| self.counters[*index].as_ref().is_some_and(&drop))
            .collect();
        for index in dropped {
            let counter = self.counters[index].take().expect("only live counters are dropped");
            self.by_counted.remove(&counter.counted);
            let list = match counter.counted.only_namespace() {
                Some(namespace) => self.by_namespace.get_mut(&namespace),
                None => Some(&mut self.of_many_namespaces),
            };
            if let Some(list) = list {
                list.retain(|other| *other != index);
            }
            self.free.push(index);
        }
    }

    /// Every counter's selection and counts, for comparison with counters made anew.
    pub fn all(&self) -> impl Iterator<Item = (&Counted, &NodeCounts)> {
        self.counters.iter().flatten().map(|counter| (&counter.counted, &counter.counts))
    }
}
