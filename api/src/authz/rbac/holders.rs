//! The bindings that name a subject.
//!
//! Owns a table from the digest of a subject to the numbers of bindings, with the first place (byte) of the subject in each. Most
//! subjects are in one binding of their scope, which takes 24 bytes and a byte of the table's own, between 28 and 57 with its
//! free places: as much as the shortest subject takes in the store. It reads no binding.
//!
//! Invariant: a list in `many` has two entries or more.

use hashbrown::HashMap;

use crate::follow::{Digest, Slots, shrink};

/// The value of `Held::place` that marks a list. No subject begins at this byte: objects are far smaller.
const LIST: u32 = u32::MAX;

/// A binding and the place of the subject in it; or, where the place is [`LIST`], the number of a list in `many`.
#[derive(Clone, Copy, Debug)]
struct Held {
    binding: u32,
    place: u32,
}

/// Bindings by subjects.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_subject: HashMap<Digest, Held>,
    /// Bindings and places, sorted by binding.
    many: Slots<Vec<(u32, u32)>>,
}

impl Holders {
    /// Adds the binding, which does not name the subject yet.
    pub(super) fn add(&mut self, subject: Digest, binding: u32, place: u32) {
        let Some(&held) = self.by_subject.get(&subject) else {
            self.by_subject.insert(subject, Held { binding, place });
            return;
        };
        if held.place == LIST {
            let Some(list) = self.many.get_mut(held.binding) else { return };
            // At the end, mostly: new bindings have high numbers.
            let at = list.partition_point(|(known, _)| *known < binding);
            list.insert(at, (binding, place));
            return;
        }
        let mut list = vec![(held.binding, held.place), (binding, place)];
        list.sort_unstable();
        let number = self.many.insert(list);
        self.by_subject.insert(subject, Held { binding: number, place: LIST });
    }

    /// Removes the binding, if it names the subject.
    pub(super) fn remove(&mut self, subject: Digest, binding: u32) {
        let Some(&held) = self.by_subject.get(&subject) else { return };
        if held.place != LIST {
            if held.binding == binding {
                self.by_subject.remove(&subject);
                shrink(&mut self.by_subject);
            }
            return;
        }
        let Some(list) = self.many.get_mut(held.binding) else { return };
        if let Ok(at) = list.binary_search_by_key(&binding, |(known, _)| *known) {
            list.remove(at);
            if list.capacity() > 4 * list.len() {
                list.shrink_to(2 * list.len());
            }
        }
        if let [(binding, place)] = list[..] {
            self.many.remove(held.binding);
            self.by_subject.insert(subject, Held { binding, place });
        }
    }

    /// The bindings of the subject, with its place in each.
    pub(super) fn of(&self, subject: Digest) -> impl Iterator<Item = (u32, u32)> {
        let held = self.by_subject.get(&subject);
        let list = held.filter(|held| held.place == LIST).and_then(|held| self.many.get(held.binding));
        let one = held.filter(|held| held.place != LIST).map(|held| (held.binding, held.place));
        one.into_iter().chain(list.into_iter().flatten().copied())
    }

    /// Bytes of memory behind this value.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let lists = self.many.iter().map(|list| list.capacity() * size_of::<(u32, u32)>());
        self.by_subject.allocation_size() + self.many.bytes() + lists.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_held_by_none_one_or_many_bindings() {
        let mut holders = Holders::default();
        let subjects = ["a", "b"].map(Digest::of);
        for subject in subjects {
            for binding in 0..3 {
                assert_eq!(holders.of(subject).count(), binding as usize);
                holders.add(subject, binding, 10 + binding);
            }
            assert_eq!(holders.of(subject).collect::<Vec<_>>(), [(0, 10), (1, 11), (2, 12)]);
        }
        for (binding, left) in [(7, 3), (1, 2), (1, 2), (0, 1), (0, 1), (2, 0), (2, 0)] {
            holders.remove(subjects[0], binding);
            assert_eq!(holders.of(subjects[0]).count(), left, "{binding}");
        }
        assert_eq!(holders.of(subjects[1]).count(), 3);
        holders.add(subjects[0], 4, 4);
        holders.add(subjects[0], 5, 5);
        assert_eq!(holders.many.extent(), 2, "a list is used again");
    }

    #[test]
    fn room_of_lists_is_given_back_while_they_last() {
        let mut holders = Holders::default();
        for at in 0..200_000 {
            holders.add(Digest::of(at % 200), at / 200, 0);
        }
        for at in 400..200_000 {
            holders.remove(Digest::of(at % 200), at / 200);
        }
        assert!(holders.bytes() < 50_000, "{}", holders.bytes());
    }

    #[test]
    fn room_is_given_back() {
        let mut holders = Holders::default();
        for at in 0..100_000 {
            holders.add(Digest::of(at), at, 0);
        }
        for at in 0..100_000 {
            holders.remove(Digest::of(at), at);
        }
        assert!(holders.bytes() < 100_000, "{}", holders.bytes());
    }
}
