//! Counts of requests by status code, in little memory.
//!
//! Owns the codes that have a count of their own. Most kinds of requests end in one of two codes: these are counted in place, and
//! room for all others is made once a third one comes. Adding takes no lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Codes with a count of their own; others share one, labelled `other`.
const CODES: [u16; 24] = [
    101, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 501, 502,
    503, 504, 0,
];

/// Codes that are counted in place: success, and one way to fail, such as 404 or 409.
const FIRST: usize = 2;

/// Bits of a count in a place; those above hold the code. A server that answers a million requests a second fills them in nine years.
const COUNT_BITS: u32 = 48;

/// Counts by code.
#[derive(Debug, Default)]
pub(super) struct CodeCounts {
    /// Each has the index of a code in [`CODES`], plus one, above [`COUNT_BITS`], and its count below; 0 while it is free.
    // Invariant: places are taken in order, each once, so that no code has two.
    first: [AtomicU64; FIRST],
    /// The counts of further codes, by their index in [`CODES`]. `None` before the first.
    rest: OnceLock<Box<[AtomicU64; CODES.len()]>>,
}

impl CodeCounts {
    /// Counts `code`.
    pub(super) fn count(&self, code: u16) {
        // few: the codes of this server.
        let at = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
        if !self.first.iter().any(|place| count_in(place, at)) {
            let rest = self.rest.get_or_init(Box::default);
            rest[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Bytes of its blocks.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.rest.get().map_or(0, |rest| super::held::block(size_of_val(&**rest)))
    }

    /// The codes that were counted, in order, as labels show them, with their counts.
    pub(super) fn counted(&self) -> impl Iterator<Item = (String, u64)> {
        let mut counts = [0; CODES.len()];
        for place in &self.first {
            let held = place.load(Ordering::Relaxed);
            if let Some(at) = index_in(held) {
                counts[at] = held & ((1 << COUNT_BITS) - 1);
            }
        }
        if let Some(rest) = self.rest.get() {
            for (count, more) in counts.iter_mut().zip(&**rest) {
                *count += more.load(Ordering::Relaxed);
            }
        }
        CODES.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(|(code, count)| {
            let code = if code == 0 { "other".to_owned() } else { code.to_string() };
            (code, count)
        })
    }
}

/// The index of the code in [`CODES`] whose count a place holds; `None` for a free one.
fn index_in(held: u64) -> Option<usize> {
    usize::try_from(held >> COUNT_BITS).ok()?.checked_sub(1)
}

/// Counts the code at `at` in a place that is its own or free. `false`: the place is another code's.
fn count_in(place: &AtomicU64, at: usize) -> bool {
    let fresh = (at as u64 + 1) << COUNT_BITS | 1;
    let held = match place.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => return true,
        Err(held) => held,
    };
    let is_own = index_in(held) == Some(at);
    if is_own {
        place.fetch_add(1, Ordering::Relaxed);
    }
    is_own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_counted_wherever_its_count_is() {
        let counts = CodeCounts::default();
        assert_eq!(counts.counted().count(), 0);
        for code in [409, 200, 200] {
            counts.count(code);
        }
        assert!(counts.rest.get().is_none(), "two codes need no further room");
        for code in [404, 500, 299, 200, 500, 298] {
            counts.count(code);
        }
        let counted: Vec<(String, u64)> = counts.counted().collect();
        let expected = [("200", 3), ("404", 1), ("409", 1), ("500", 2), ("other", 2)];
        assert_eq!(counted, expected.map(|(code, count)| (code.to_owned(), count)));
    }

    #[test]
    fn threads_that_meet_a_code_at_once_count_it_in_one_place() {
        let counts = CodeCounts::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let counts = &counts;
                scope.spawn(move || (0..1000).for_each(|at| counts.count(CODES[(at + thread) % 5])));
            }
        });
        assert!(
            counts.counted().all(|(_, count)| count == 800),
            "{:?}",
            counts.counted().collect::<Vec<_>>()
        );
        let first = counts.first.each_ref().map(|place| index_in(place.load(Ordering::Relaxed)));
        assert!(first[0] != first[1], "{first:?}");
    }
}
