//! Pods that are to go to a node where victims make room for them.
//!
//! Owns which pods these are, by node and in the order of priority: the planner counts them as if they were there when it
//! plans pods of their priority at most. Invariant: a pod is nominated to one node at most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::pod::{PodFacts, Uid};

/// Order of the pods of a node: by priority, highest first, then as they were nominated.
type Key = (Reverse<i32>, u64);

/// The nominated pods.
#[derive(Debug, Default)]
pub struct Nominator {
    by_node: BTreeMap<Arc<str>, BTreeMap<Key, Arc<PodFacts>>>,
    by_pod: HashMap<Uid, (Arc<str>, Key)>,
    next: u64,
}

impl Nominator {
    /// Nominates a pod to a node, in place of any other. To no node if the name is empty.
    pub fn nominate(&mut self, pod: Arc<PodFacts>, node: &str) {
        self.remove(&pod.uid);
        if node.is_empty() {
            return;
        }
        let key = (Reverse(pod.priority), self.next);
        self.next += 1;
        let node: Arc<str> = node.into();
        self.by_pod.insert(pod.uid.clone(), (node.clone(), key));
        self.by_node.entry(node).or_default().insert(key, pod);
    }

    /// Withdraws a nomination. Whether there was one.
    pub fn remove(&mut self, uid: &Uid) -> bool {
        let Some((node, key)) = self.by_pod.remove(uid) else { return false };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(&key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        true
    }

    /// The node to which the pod is nominated.
    pub fn node_of(&self, uid: &Uid) -> Option<&str> {
        self.by_pod.get(uid).map(|(node, _)| &**node)
    }

    /// The pods that are nominated to a node, highest priority first.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &Arc<PodFacts>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// All nominated pods, with their nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<PodFacts>)> {
        self.by_node.iter().flat_map(|(node, pods)| pods.values().map(|pod| (&**node, pod)))
    }

    /// Number of nominated pods.
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether no pod is nominated.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// Takes in a pod as the API server has it. What its status says holds; while it says nothing, before and after, a
    /// nomination that was made here and is still being written stays.
    pub(super) fn update(&mut self, old: &PodFacts, new: &Arc<PodFacts>) {
        let is_silent = old.nominated_node_name.is_empty() && new.nominated_node_name.is_empty();
        let node = if is_silent {
            self.node_of(&new.uid).unwrap_or("").to_owned()
        } else {
            new.nominated_node_name.to_string()
        };
        if !node.is_empty() || self.by_pod.contains_key(&new.uid) {
            self.nominate(new.clone(), &node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::pod::PodShape;

    fn pod(uid: &str, priority: i32, nominated: &str) -> Arc<PodFacts> {
        Arc::new(PodFacts {
            uid: Uid::new(uid),
            name: uid.into(),
            priority,
            node_name: "".into(),
            nominated_node_name: nominated.into(),
            shape: Arc::new(PodShape::default()),
        })
    }

    fn on(nominator: &Nominator, node: &str) -> Vec<String> {
        nominator.on(node).map(|pod| pod.name.to_string()).collect()
    }

    #[test]
    fn pods_stand_by_priority_then_in_the_order_of_nomination() {
        let mut nominator = Nominator::default();
        for (name, priority) in [("a", 1), ("b", 5), ("c", 5), ("d", -1)] {
            nominator.nominate(pod(name, priority, ""), "n");
        }
        assert_eq!(on(&nominator, "n"), ["b", "c", "a", "d"]);
        assert_eq!(nominator.len(), 4);
    }

    #[test]
    fn a_pod_is_nominated_to_one_node() {
        let mut nominator = Nominator::default();
        nominator.nominate(pod("a", 0, ""), "n");
        nominator.nominate(pod("a", 0, ""), "m");
        assert_eq!((on(&nominator, "n").len(), on(&nominator, "m").len()), (0, 1));
        assert_eq!(nominator.node_of(&Uid::new("a")), Some("m"));
        nominator.nominate(pod("a", 0, ""), "");
        assert!(nominator.is_empty());
    }

    #[test]
    fn removing_tells_whether_there_was_one() {
        let mut nominator = Nominator::default();
        nominator.nominate(pod("a", 0, ""), "n");
        assert!(nominator.remove(&Uid::new("a")));
        assert!(!nominator.remove(&Uid::new("a")));
        assert_eq!(nominator.iter().count(), 0);
    }

    #[test]
    fn a_nomination_under_way_outlives_updates_that_do_not_know_it() {
        let mut nominator = Nominator::default();
        let silent = pod("a", 0, "");
        nominator.nominate(silent.clone(), "n");
        nominator.update(&silent, &silent);
        assert_eq!(on(&nominator, "n"), ["a"]);
    }

    #[test]
    fn the_status_decides_once_it_speaks() {
        let mut nominator = Nominator::default();
        nominator.update(&pod("a", 0, ""), &pod("a", 0, "n"));
        assert_eq!(on(&nominator, "n"), ["a"]);
        nominator.update(&pod("a", 0, "n"), &pod("a", 0, "m"));
        assert_eq!(on(&nominator, "m"), ["a"]);
        nominator.update(&pod("a", 0, "m"), &pod("a", 0, ""));
        assert!(nominator.is_empty());
    }
}
