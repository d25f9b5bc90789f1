//! From a field's name to its position: the look-up that every codec does for every key.
//!
//! A small open-addressed table over a cheap hash of the length and the two ends of the name. Names are few and come
//! from the schema, not from the network, so that no client can make them collide; a key from the network costs at most
//! one run of slots.

/// Positions of a type's fields by name. Invariant: at least half of the slots are empty, so that every probe ends.
#[derive(Debug)]
pub(crate) struct FieldIndex {
    /// Position + 1; 0 is an empty slot. The length is a power of two.
    slots: Box<[u32]>,
}

impl FieldIndex {
    /// The index of names in the order of their positions. Of equal names the first wins.
    pub(crate) fn new<'a>(names: impl ExactSizeIterator<Item = &'a str> + Clone) -> Self {
        let mut slots = vec![0u32; (names.len() * 2).next_power_of_two().max(2)].into_boxed_slice();
        let mask = slots.len() - 1;
        for (position, name) in (1..).zip(names) {
            let mut at = hash(name.as_bytes()) & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = position;
        }
        Self { slots }
    }

    /// The position of `name`; `name_at` gives the name that stands at a position.
    pub(crate) fn find<'a>(&self, name: &str, name_at: impl Fn(usize) -> &'a str) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = hash(name.as_bytes()) & mask;
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
