//! A member of a map by its name, present or absent: it is looked for once, and then read, set or added.

use smol_str::SmolStr;

use super::{Map, NameHash};
use crate::value::Value;

/// A member, present or absent.
pub enum Entry<'m> {
    Occupied(OccupiedEntry<'m>),
    Vacant(VacantEntry<'m>),
}

impl<'m> Entry<'m> {
    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'m mut Value {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(value()),
        }
    }
}

/// A member that is present.
pub struct OccupiedEntry<'m> {
    pub(super) map: &'m mut Map,
    pub(super) at: usize,
}

impl<'m> OccupiedEntry<'m> {
    pub fn key(&self) -> &SmolStr {
        &self.map.entries[self.at].0
    }

    pub fn into_mut(self) -> &'m mut Value {
        &mut self.map.entries[self.at].1
    }

    /// Sets the member and returns its old value.
    pub fn insert(&mut self, value: Value) -> Value {
        std::mem::replace(&mut self.map.entries[self.at].1, value)
    }
}

/// A member that is absent.
pub struct VacantEntry<'m> {
    pub(super) map: &'m mut Map,
    pub(super) name: SmolStr,
    pub(super) hash: Option<NameHash>,
}

impl<'m> VacantEntry<'m> {
    pub fn insert(self, value: Value) -> &'m mut Value {
        let at = self.map.push(self.name, self.hash, value);
        &mut self.map.entries[at].1
    }
}
