//! Room that a table gives back when its entries have gone.
//!
//! Owns the one rule by which the tables of derived values shrink. Hash tables and vectors keep the room of the most entries that
//! they ever had; a client that adds many small objects and removes them would so take memory for as long as the process runs.
//!
//! Invariant: a table that is shrunk after each removal has at most four places for each entry, and [`SPARE_MAX`] times four.
//! Invariant: an entry is moved by shrinking less than once for each removal.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashMap;

/// Free places, in entries, that a table keeps: small tables neither grow nor shrink again and again.
const SPARE_MAX: usize = 64;

/// A table with places for entries.
pub(crate) trait Table {
    /// Entries in the table.
    fn entries(&self) -> usize;

    /// Entries for which it has room.
    fn places(&self) -> usize;

    /// Gives back the room for all but `places` entries, or its entries where these are more.
    fn shrink_to_places(&mut self, places: usize);
}

impl<K: Eq + Hash, V, S: BuildHasher> Table for HashMap<K, V, S> {
    fn entries(&self) -> usize {
        self.len()
    }

    /// By the memory of the table: its capacity leaves out the places of entries that were removed from long runs.
    fn places(&self) -> usize {
        self.allocation_size() / (size_of::<(K, V)>() + 1) / 8 * 7
    }

    fn shrink_to_places(&mut self, places: usize) {
        self.shrink_to(places);
    }
}

impl<T> Table for Vec<T> {
    fn entries(&self) -> usize {
        self.len()
    }

    fn places(&self) -> usize {
        self.capacity()
    }

    fn shrink_to_places(&mut self, places: usize) {
        self.shrink_to(places);
    }
}

impl<T> Table for VecDeque<T> {
    fn entries(&self) -> usize {
        self.len()
    }

    fn places(&self) -> usize {
        self.capacity()
    }

    fn shrink_to_places(&mut self, places: usize) {
        self.shrink_to(places);
    }
}

/// Gives back the room of entries that have gone, where it is more than three quarters of the table.
pub(crate) fn shrink(table: &mut impl Table) {
    if table.places() / 4 > table.entries() + SPARE_MAX {
        table.shrink_to_places(table.entries() + SPARE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_back_room_and_moves_each_entry_rarely() {
        let (mut table, mut list): (HashMap<usize, usize>, _) =
            ((0..10_000).map(|at| (at, at)).collect(), vec![0; 10_000]);
        let mut moved = 0;
        for at in 0..10_000 {
            let before = table.places();
            table.remove(&at);
            shrink(&mut table);
            if table.places() < before {
                moved += table.len();
            }
            list.pop();
            shrink(&mut list);
            for places in [table.places(), list.places()] {
                assert!(places <= 4 * (table.len() + SPARE_MAX) + 3, "{places} for {}", table.len());
            }
        }
        assert!(moved < 10_000, "{moved}");
    }
}
