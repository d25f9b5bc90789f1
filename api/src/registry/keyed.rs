//! Positions of a list by a key.
//!
//! Owns the hash of keys that clients choose. It is keyed, so that no client can choose keys that collide.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// Positions by key; the key of a position is asked for, not kept.
#[derive(Default)]
pub(super) struct Keyed {
    table: HashTable<usize>,
    hasher: RandomState,
}

impl Keyed {
    /// The positions below `count` that have a key. Of several with the same key, the first counts.
    pub(super) fn of<K: Hash + Eq>(count: usize, key_of: impl Fn(usize) -> Option<K>) -> Self {
        let Keyed { hasher, .. } = Keyed::default();
        let mut table = HashTable::with_capacity(count);
        let hash_of = |at: usize| key_of(at).map_or(0, |key| hasher.hash_one(&key));
        for at in 0..count {
            let Some(key) = key_of(at) else { continue };
            let hash = hasher.hash_one(&key);
            if table.find(hash, |&known| key_of(known).as_ref() == Some(&key)).is_none() {
                table.insert_unique(hash, at, |&at| hash_of(at));
            }
        }
        Keyed { table, hasher }
    }

    /// The position of `key`, where `key_of` gives the key of a position that has one.
    pub(super) fn find<K: Hash + Eq>(&self, key: K, key_of: impl Fn(usize) -> K) -> Option<usize> {
        self.table.find(self.hasher.hash_one(&key), |&at| key_of(at) == key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_position_of_a_key_is_found_and_positions_without_one_are_not() {
        let names = ["a", "b", "", "b", "c"];
        let key_of = |at: usize| Some(names[at]).filter(|name| !name.is_empty());
        let keyed = Keyed::of(names.len(), key_of);
        let find = |name| keyed.find(name, |at| names[at]);
        assert_eq!([find("a"), find("b"), find("c")], [Some(0), Some(1), Some(4)]);
        assert_eq!([find(""), find("d")], [None, None]);
    }
}
