//! Named values, looked up by name and by group: volumes by class, attachments by node.
//!
//! Owns both ways to a value. A value whose group changes moves; the values of a group come in the order of their names,
//! so that equal choices are made in the same order always. It knows no kind.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;

use hashbrown::HashMap;

/// Values by name and by group.
#[derive(Debug)]
pub struct Grouped<G, V> {
    groups: HashMap<G, BTreeMap<String, V>>,
    group_of: HashMap<String, G>,
}

impl<G, V> Default for Grouped<G, V> {
    fn default() -> Self {
        Self { groups: HashMap::new(), group_of: HashMap::new() }
    }
}

impl<G: Clone + Eq + Hash, V> Grouped<G, V> {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.groups.get(self.group_of.get(name)?)?.get(name)
    }

    /// The values of a group, by name.
    pub fn of<Q: Eq + Hash + ?Sized>(&self, group: &Q) -> impl Iterator<Item = &V>
    where
        G: Borrow<Q>,
    {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    /// Puts a value under a name, in place of what was there; `None` removes it.
    pub(super) fn set(&mut self, name: &str, value: Option<(G, V)>) {
        if let Some(group) = self.group_of.remove(name)
            && let Some(values) = self.groups.get_mut(&group)
        {
            values.remove(name);
            if values.is_empty() {
                self.groups.remove(&group);
            }
        }
        if let Some((group, value)) = value {
            self.group_of.insert(name.to_owned(), group.clone());
            self.groups.entry(group).or_default().insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &Grouped<String, u32>, group: &str) -> Vec<u32> {
        values.of(group).copied().collect()
    }

    #[test]
    fn values_follow_their_group() {
        let mut values = Grouped::<String, u32>::default();
        values.set("b", Some(("fast".into(), 2)));
        values.set("a", Some(("fast".into(), 1)));
        assert_eq!(of(&values, "fast"), [1, 2]);
        values.set("b", Some(("slow".into(), 3)));
        assert_eq!((of(&values, "fast"), of(&values, "slow")), (vec![1], vec![3]));
        assert_eq!(values.get("b"), Some(&3));
        values.set("a", None);
        values.set("a", None);
        assert_eq!((values.get("a"), of(&values, "fast")), (None, vec![]));
        assert_eq!(values.groups.len(), 1, "a group without values is forgotten");
    }
}
