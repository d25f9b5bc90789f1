//! Values under numbers, for derived values that name objects by four bytes.
//!
//! Owns the numbers. A new value gets the lowest free one, so that the numbers in use stay low, and room behind the highest number
//! in use is given back.
//!
//! Invariant: the last slot, if there is one, is in use.
//! Invariant: `free` holds exactly the numbers of the empty slots.

use std::collections::BTreeSet;

use super::shrink::shrink;

/// Values by number.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: BTreeSet<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { slots: Vec::new(), free: BTreeSet::new() }
    }
}

impl<T> Slots<T> {
    /// The number under which `value` is held from now on.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop_first() {
            self.slots[number as usize] = Some(value);
            return number;
        }
        self.slots.push(Some(value));
        // A cluster's objects are far fewer than 2^32: each takes more than a byte of memory.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes the value out, and frees its number.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.slots.get_mut(number as usize)?.take()?;
        self.free.insert(number);
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
            self.free.pop_last();
        }
        shrink(&mut self.slots);
        Some(value)
    }

    /// The value under `number`.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// The value under `number`, mutable.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Numbers up to the highest in use.
    #[cfg(test)]
    pub(crate) fn extent(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory behind this value, but for those behind the values.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>() + self.free.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_given_and_room_behind_the_highest_given_back() {
        let mut slots = Slots::default();
        assert_eq!([10, 11, 12, 13].map(|value| slots.insert(value)), [0, 1, 2, 3]);
        assert_eq!([2, 0, 2, 9].map(|number| slots.remove(number)), [Some(12), Some(10), None, None]);
        assert_eq!(slots.insert(14), 0);
        assert_eq!((slots.get(0), slots.get(2), slots.extent()), (Some(&14), None, 4));
        assert_eq!(slots.remove(3), Some(13));
        assert_eq!((slots.extent(), slots.free.len()), (2, 0), "that of the free number before it, too");
        assert_eq!(slots.insert(15), 2);
        let full: Vec<u32> = (0..10_000).map(|value| slots.insert(value)).collect();
        let most = slots.bytes();
        for number in full {
            slots.remove(number);
        }
        assert_eq!(slots.iter().collect::<Vec<_>>(), [&14, &11, &15]);
        assert!(slots.bytes() * 20 < most, "{} of {most}", slots.bytes());
    }
}
