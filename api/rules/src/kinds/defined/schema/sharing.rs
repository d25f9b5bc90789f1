//! Parts of a schema that are the same, kept once: large schemas repeat leaves thousands of times, and whole objects such as
//! containers and selectors.
//!
//! Owns finding an equal part among those that were made before it, by a keyed hash. Parts below are shared before those above them,
//! so that they are compared by their places alone.
//!
//! Invariant: a look-up compares with [`CANDIDATES_MAX`] parts at most. A hostile schema of parts that differ in nothing that is
//! hashed is not shared any further, and no slower.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// Parts of one hash that are compared with a new one.
const CANDIDATES_MAX: usize = 4;

/// The parts that were made, each known by a handle `H`, by their hashes.
pub(super) struct Shared<H> {
    keys: RandomState,
    by_hash: HashMap<u64, Vec<H>>,
}

impl<H: Clone> Shared<H> {
    pub(super) fn new() -> Self {
        Shared { keys: RandomState::new(), by_hash: HashMap::new() }
    }

    /// The hash of a part.
    pub(super) fn hash_of(&self, part: impl Hash) -> u64 {
        self.keys.hash_one(part)
    }

    /// A part of this hash that is like the new one.
    pub(super) fn find(&self, hash: u64, is_like: impl Fn(&H) -> bool) -> Option<H> {
        // few: as many as are kept.
        self.by_hash.get(&hash)?.iter().find(|candidate| is_like(candidate)).cloned()
    }

    /// Keeps a new part of this hash.
    pub(super) fn add(&mut self, hash: u64, handle: H) {
        let candidates = self.by_hash.entry(hash).or_default();
        if candidates.len() < CANDIDATES_MAX {
            candidates.push(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_are_found_and_of_too_many_with_one_hash_the_first() {
        let mut shared: Shared<u32> = Shared::new();
        // Parts that differ in nothing that is hashed.
        let hash = shared.hash_of(7);
        (0..100).for_each(|part| shared.add(hash, part));
        let find = |part: u32| shared.find(hash, |&candidate| candidate == part);
        assert_eq!((find(0), find(3), find(4), find(99)), (Some(0), Some(3), None, None));
        assert_eq!(shared.find(shared.hash_of(8), |_| true), None);
    }
}
