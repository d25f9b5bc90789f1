//! The members of an object, in the order in which they were set.
//!
//! Owns how a member is found: by comparing names one by one in a short map, by a keyed hash in a long one, because the
//! names are a client's. Almost every object is short: a container has ten members, a port two.
//!
//! Invariant: a map has an index if and only if it has had more than [`SCANNED_MAX`] entries at once, and then the index
//! holds the place of every entry once.

mod entry;

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::{Index, IndexMut};

use hashbrown::HashTable;
use smol_str::SmolStr;

pub use self::entry::{Entry, OccupiedEntry, VacantEntry};
use super::Value;

/// Entries of a map without an index: comparing the lengths and first bytes of so many names takes no longer than one
/// hash.
const SCANNED_MAX: usize = 16;

/// Entries for which the first insertion makes room: most small objects have no more, and a `Vec` would take four.
const FIRST_ENTRIES: usize = 2;

/// The members of an object, in the order in which they were set.
#[derive(Clone, Default)]
pub struct Map {
    entries: Vec<(SmolStr, Value)>,
    index: Option<Box<Places>>,
}

/// Places of entries by the hash of their names.
#[derive(Clone, Default)]
struct Places {
    table: HashTable<Place>,
    hasher: RandomState,
}

/// The place of an entry, beside the hash of its name: a table that grows reads no name again.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    hash: NameHash,
}

/// Half of a keyed hash. A table takes its bucket from the low bits and its tag from the high ones: 32 bits keep the two
/// apart up to 2^25 entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameHash(u32);

impl NameHash {
    fn of(hasher: &RandomState, name: &str) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "half of it is kept")]
        Self(hasher.hash_one(name) as u32)
    }

    fn wide(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

impl Place {
    fn new(at: usize, hash: NameHash) -> Self {
        // an entry takes 56 bytes or more: 2^32 of them are beyond any body's limit.
        Self { at: u32::try_from(at).expect("a map has fewer than 2^32 entries"), hash }
    }

    fn at(self) -> usize {
        self.at as usize
    }
}

impl Places {
    fn of(entries: &[(SmolStr, Value)]) -> Box<Self> {
        let mut places = Self { table: HashTable::with_capacity(entries.len()), ..Self::default() };
        for (at, (name, _)) in entries.iter().enumerate() {
            places.add(at, places.hash_of(name));
        }
        Box::new(places)
    }

    fn hash_of(&self, name: &str) -> NameHash {
        NameHash::of(&self.hasher, name)
    }

    fn find(&self, hash: NameHash, name: &str, entries: &[(SmolStr, Value)]) -> Option<usize> {
        let is_it = |place: &Place| place.hash == hash && entries[place.at()].0 == name;
        self.table.find(hash.wide(), is_it).map(|place| place.at())
    }

    /// Adds the entry at `at`, whose name the index does not have yet.
    fn add(&mut self, at: usize, hash: NameHash) {
        self.table.insert_unique(hash.wide(), Place::new(at, hash), |place| place.hash.wide());
    }

    /// Removes the entry `name`, which stands at `at`.
    fn remove(&mut self, at: usize, name: &str) {
        let found = self.table.find_entry(self.hash_of(name).wide(), |place| place.at() == at);
        found.expect("every entry of a long map is in its index").remove();
    }

    /// Records that the entry `name` has moved.
    fn moved(&mut self, name: &str, from: usize, to: usize) {
        let hash = self.hash_of(name);
        let found = self.table.find_mut(hash.wide(), |place| place.at() == from);
        *found.expect("every entry of a long map is in its index") = Place::new(to, hash);
    }
}

impl Map {
    pub fn new() -> Self {
        Self::default()
    }

    /// A map with room for `entries` of them.
    pub fn with_capacity(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries), index: None }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The hash of a name, where the map has an index.
    fn hash_of(&self, name: &str) -> Option<NameHash> {
        self.index.as_ref().map(|index| index.hash_of(name))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.find_hashed(self.hash_of(name), name)
    }

    fn find_hashed(&self, hash: Option<NameHash>, name: &str) -> Option<usize> {
        match self.index.as_ref().zip(hash) {
            Some((index, hash)) => index.find(hash, name, &self.entries),
            // few: longer maps have an index.
            None => self.entries.iter().position(|(key, _)| key == name),
        }
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.find(name).map(|at| &self.entries[at].1)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.find(name).map(|at| &mut self.entries[at].1)
    }

    /// Sets a member and returns its old value. A member that was there keeps its place.
    pub fn insert(&mut self, name: impl Into<SmolStr>, value: Value) -> Option<Value> {
        match self.entry(name) {
            Entry::Occupied(mut entry) => Some(entry.insert(value)),
            Entry::Vacant(entry) => {
                entry.insert(value);
                None
            }
        }
    }

    pub fn entry(&mut self, name: impl Into<SmolStr>) -> Entry<'_> {
        let name = name.into();
        let hash = self.hash_of(&name);
        match self.find_hashed(hash, &name) {
            Some(at) => Entry::Occupied(OccupiedEntry { map: self, at }),
            None => Entry::Vacant(VacantEntry { map: self, name, hash }),
        }
    }

    /// Adds a member that is not there yet, and returns its place. `hash`: of its name, where the map has an index.
    fn push(&mut self, name: SmolStr, hash: Option<NameHash>, value: Value) -> usize {
        let at = self.entries.len();
        if at == self.entries.capacity() {
            self.entries.reserve_exact(at.max(FIRST_ENTRIES));
        }
        self.entries.push((name, value));
        match self.index.as_mut().zip(hash) {
            Some((index, hash)) => index.add(at, hash),
            None if at == SCANNED_MAX => self.index = Some(Places::of(&self.entries)),
            None => {}
        }
        at
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes a member out and puts the last one into its place.
    pub fn swap_remove(&mut self, name: &str) -> Option<Value> {
        let at = self.find(name)?;
        if let Some(index) = &mut self.index {
            index.remove(at, &self.entries[at].0);
            let last = self.entries.len() - 1;
            if at != last {
                index.moved(&self.entries[last].0, last, at);
            }
        }
        Some(self.entries.swap_remove(at).1)
    }

    /// Takes a member out and keeps the order of the others, each of which is visited.
    pub fn shift_remove(&mut self, name: &str) -> Option<Value> {
        let at = self.find(name)?;
        if let Some(index) = &mut self.index {
            index.remove(at, &self.entries[at].0);
            for place in index.table.iter_mut().filter(|place| place.at() > at) {
                place.at -= 1;
            }
        }
        Some(self.entries.remove(at).1)
    }

    /// Keeps the members for which `is_kept` is true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&SmolStr, &mut Value) -> bool) {
        self.entries.retain_mut(|(name, value)| is_kept(name, value));
        self.reindex();
    }

    /// Sorts the members by name.
    pub fn sort_keys(&mut self) {
        self.entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.reindex();
    }

    /// Sorts the members by the place of their names; those of the same place keep their order.
    pub fn sort_by_place(&mut self, place: impl Fn(&str) -> usize) {
        self.entries.sort_by_key(|(name, _)| place(name));
        self.reindex();
    }

    fn reindex(&mut self) {
        if self.index.is_some() {
            self.index = Some(Places::of(&self.entries));
        }
    }

    pub fn iter(&self) -> Iter<'_> {
        self.entries.iter().map(|(name, value)| (name, value))
    }

    pub fn iter_mut(&mut self) -> IterMut<'_> {
        self.entries.iter_mut().map(|(name, value)| (&*name, value))
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &SmolStr> {
        self.entries.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Value> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

/// The members in order.
pub type Iter<'m> = std::iter::Map<
    std::slice::Iter<'m, (SmolStr, Value)>,
    fn(&'m (SmolStr, Value)) -> (&'m SmolStr, &'m Value),
>;

/// The members in order, with mutable values.
pub type IterMut<'m> = std::iter::Map<
    std::slice::IterMut<'m, (SmolStr, Value)>,
    fn(&'m mut (SmolStr, Value)) -> (&'m SmolStr, &'m mut Value),
>;

impl PartialEq for Map {
    /// Whether both have the same members, in any order.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl Eq for Map {}

impl Hash for Map {
    /// The same for every order of the members.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut members: Vec<_> = self.iter().collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        members.hash(state);
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Index<&str> for Map {
    type Output = Value;

    /// # Panics
    /// If there is no such member.
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or_else(|| panic!("no member {name:?}"))
    }
}

impl IndexMut<&str> for Map {
    /// # Panics
    /// If there is no such member.
    fn index_mut(&mut self, name: &str) -> &mut Value {
        self.get_mut(name).unwrap_or_else(|| panic!("no member {name:?}"))
    }
}

impl<K: Into<SmolStr>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, members: I) {
        for (name, value) in members {
            self.insert(name, value);
        }
    }
}

impl<K: Into<SmolStr>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut map = Map::with_capacity(members.size_hint().0);
        map.extend(members);
        map
    }
}

impl IntoIterator for Map {
    type Item = (SmolStr, Value);
    type IntoIter = std::vec::IntoIter<(SmolStr, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m SmolStr, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m SmolStr, &'m mut Value);
    type IntoIter = IterMut<'m>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
