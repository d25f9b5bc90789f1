//! From a field's name to its position: the look-up that every codec does for every key.
//!
//! A small open-addressed table over a cheap hash of the length and the two ends of the name. Names of built-in kinds come from
//! the program. Those of other kinds are chosen by whoever defines them, and may be chosen so that they collide: where one
//! run of slots would be long, the table is made over a keyed hash of the whole name.
//!
//! Invariant: making a table costs a bounded number of steps for each name, and a look-up the same, whatever the names are.

use std::hash::{BuildHasher, RandomState};

/// Slots that are looked at for one name over the cheap hash: no run of a built-in kind is as long.
const RUN_MAX: usize = 16;

/// Positions of a type's fields by name. Invariant: at least half of the slots are empty, so that every probe ends.
#[derive(Debug)]
pub(crate) struct FieldIndex {
    /// Position + 1; 0 is an empty slot. The length is a power of two.
    slots: Box<[u32]>,
    /// The keys of the hash; `None`: it is the cheap one.
    keys: Option<Box<RandomState>>,
}

impl FieldIndex {
    /// The index of names in the order of their positions. Of equal names the first wins.
    pub(crate) fn new<'a>(names: impl ExactSizeIterator<Item = &'a str> + Clone) -> Self {
        let cheap = slots(names.clone(), hash, RUN_MAX);
        if let Some(slots) = cheap {
            return Self { slots, keys: None };
        }
        let keys = Box::<RandomState>::default();
        let slots = slots(names, |name| keyed(&keys, name), usize::MAX);
        Self { slots: slots.unwrap_or_default(), keys: Some(keys) }
    }

    /// Bytes of the table.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// The position of `name`; `name_at` gives the name that stands at a position.
    pub(crate) fn find<'a>(&self, name: &str, name_at: impl Fn(usize) -> &'a str) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let hash = match &self.keys {
            None => hash(name.as_bytes()),
            Some(keys) => keyed(keys, name.as_bytes()),
        };
        let mut at = hash & mask;
        while self.slots[at] != 0 {
            let position = self.slots[at] as usize - 1;
            if name_at(position) == name {
                return Some(position);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

/// The table of `names`; `None`: a run is longer than `run_max`.
fn slots<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
    hash: impl Fn(&[u8]) -> usize,
    run_max: usize,
) -> Option<Box<[u32]>> {
    let mut slots = vec![0u32; (names.len() * 2).next_power_of_two().max(2)].into_boxed_slice();
    let mask = slots.len() - 1;
    for (position, name) in (1..).zip(names) {
        let (mut at, mut run) = (hash(name.as_bytes()) & mask, 0);
        while slots[at] != 0 {
            (at, run) = ((at + 1) & mask, run + 1);
            if run > run_max {
                return None;
            }
        }
        slots[at] = position;
    }
    Some(slots)
}

fn keyed(keys: &RandomState, name: &[u8]) -> usize {
    // The table has fewer slots than these bits count.
    usize::try_from(keys.hash_one(name) & u64::from(u32::MAX)).unwrap_or_default()
}

/// Mixes the length with the first and the last four bytes.
fn hash(name: &[u8]) -> usize {
    let end = |bytes: &mut dyn Iterator<Item = &u8>| {
        bytes.take(4).fold(0u32, |sum, &byte| sum << 8 | u32::from(byte))
    };
    let first = end(&mut name.iter());
    let last = end(&mut name.iter().rev());
    let mixed = (first ^ last.rotate_left(13)).wrapping_mul(0x9E37_79B1) >> 16;
    mixed as usize + name.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::orch;

    fn finds_all(names: &[String]) -> FieldIndex {
        let index = FieldIndex::new(names.iter().map(String::as_str));
        for (at, name) in names.iter().enumerate() {
            assert_eq!(index.find(name, |at| &names[at]), Some(at));
        }
        assert_eq!(index.find("absent", |at| &names[at]), None);
        index
    }

    #[test]
    fn names_that_are_chosen_to_collide_are_found_by_a_keyed_hash() {
        let names: Vec<String> = (0..65_536).map(|number| format!("abcd{number:08}wxyz")).collect();
        let began = std::time::Instant::now();
        assert!(finds_all(&names).keys.is_some());
        assert!(began.elapsed().as_secs() < 10, "two thousand million steps");
        let few: Vec<String> = names[..8].to_vec();
        assert!(finds_all(&few).keys.is_none());
    }

    #[test]
    fn built_in_types_keep_the_cheap_hash() {
        let types = (0..orch().len()).map(|at| orch().get(crate::TypeId(u32::try_from(at).unwrap())));
        for ty in types {
            let names: Vec<String> = ty.fields.iter().map(|field| field.name.to_string()).collect();
            assert!(finds_all(&names).keys.is_none(), "{}", ty.name);
        }
    }
}
