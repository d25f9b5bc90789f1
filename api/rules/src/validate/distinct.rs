//! Finds duplicates in lists.
//!
//! Owns the one way in which rules look for duplicates: by hash. Comparing each item with all before it takes minutes
//! for a list of the largest size, and a client chooses how long a list is.

use std::collections::HashSet;
use std::hash::Hash;

/// The keys of a list that were seen so far.
#[derive(Clone, Debug)]
pub struct Distinct<T>(HashSet<T>);

impl<T: Hash + Eq> Distinct<T> {
    /// No key was seen yet.
    pub fn new() -> Self {
        Distinct(HashSet::new())
    }

    /// Adds `key`. Returns whether it was seen before.
    pub fn is_repeated(&mut self, key: T) -> bool {
        !self.0.insert(key)
    }

    /// Whether `key` was seen before.
    pub fn has(&self, key: &T) -> bool {
        self.0.contains(key)
    }
}

impl<T: Hash + Eq> Default for Distinct<T> {
    fn default() -> Self {
        Distinct::new()
    }
}

impl<T: Hash + Eq> FromIterator<T> for Distinct<T> {
    fn from_iter<I: IntoIterator<Item = T>>(keys: I) -> Self {
        Distinct(keys.into_iter().collect())
    }
}
