//! A bounded map whose entries expire, for answers of other servers.
//!
//! Owns when an entry goes: at its end, when the map is full and it is among those that end first, or when the clock was set
//! back, so that its age is unknown. Invariant: entries and their bytes stay within the map's bounds, whatever size another
//! server gives its answers.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

/// An instant of the clock by which entries expire.
pub trait ExpiryClock: Copy + Ord {
    /// The instant `span` after this one, or the last that the clock can show.
    #[must_use]
    fn after(self, span: Duration) -> Self;

    /// Whether the clock was set back between this instant and `now`, so that the age of an entry is unknown.
    fn is_before_set_back(self, now: Self) -> bool;
}

impl ExpiryClock for tokio::time::Instant {
    fn after(self, span: Duration) -> Self {
        self.checked_add(span).unwrap_or_else(|| self + FAR)
    }

    // A monotonic clock is never set back.
    fn is_before_set_back(self, _now: Self) -> bool {
        false
    }
}

/// The end of spans that Tokio's clock cannot show: thirty years, longer than a process runs.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// A bounded map whose entries expire. `I` is an instant of the caller's clock.
pub struct ExpiringMap<K, V, I = tokio::time::Instant> {
    entries: Mutex<Entries<K, V, I>>,
    entries_max: usize,
    bytes_max: usize,
}

struct Entries<K, V, I> {
    by_key: HashMap<K, Entry<V, I>>,
    /// Sum of the entries' bytes.
    bytes: usize,
}

struct Entry<V, I> {
    value: V,
    bytes: usize,
    since: I,
    until: I,
}

impl<V, I: ExpiryClock> Entry<V, I> {
    fn counts(&self, now: I) -> bool {
        now < self.until && !self.since.is_before_set_back(now)
    }
}

impl<K, V, I> fmt::Debug for ExpiringMap<K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiringMap")
            .field("entries", &self.entries.lock().by_key.len())
            .finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, V: Clone, I: ExpiryClock> ExpiringMap<K, V, I> {
    /// A map of at most `entries_max` entries, whose values have at most `bytes_max` bytes together.
    pub fn new(entries_max: usize, bytes_max: usize) -> Self {
        let entries = Entries { by_key: HashMap::new(), bytes: 0 };
        ExpiringMap { entries: Mutex::new(entries), entries_max, bytes_max }
    }

    /// The value of `key`, if it has one at `now`.
    pub fn get(&self, key: &K, now: I) -> Option<V> {
        let mut entries = self.entries.lock();
        let entry = entries.by_key.get(key)?;
        if entry.counts(now) {
            return Some(entry.value.clone());
        }
        entries.remove(key);
        None
    }

    /// Keeps `value`, which has `bytes` bytes, for `span` from `now`. One that is larger than the map may be is not kept, nor
    /// one that would end at once.
    pub fn put(&self, key: K, value: V, bytes: usize, now: I, span: Duration) {
        let until = now.after(span);
        let mut entries = self.entries.lock();
        entries.remove(&key);
        if bytes > self.bytes_max || until <= now {
            return;
        }
        while entries.by_key.len() >= self.entries_max || entries.bytes + bytes > self.bytes_max {
            entries.make_room(now);
        }
        entries.bytes += bytes;
        entries.by_key.insert(key, Entry { value, bytes, since: now, until });
    }
}

impl<K: Hash + Eq, V, I: ExpiryClock> Entries<K, V, I> {
    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= entry.bytes;
        }
    }

    /// Removes what does not count at `now`; if that is nothing, the half that ends first, so that a full map is searched once
    /// in many insertions. At least one entry goes where there is one.
    fn make_room(&mut self, now: I) {
        let before = self.by_key.len();
        self.keep(|entry| entry.counts(now));
        if self.by_key.len() < before || self.by_key.is_empty() {
            return;
        }
        let mut ends: Vec<I> = self.by_key.values().map(|entry| entry.until).collect();
        let middle = ends.len() / 2;
        let (_, median, _) = ends.select_nth_unstable(middle);
        let median = *median;
        // Where many end together, those of the median go, too: at least one has to.
        self.keep(|entry| entry.until > median);
    }

    fn keep(&mut self, stays: impl Fn(&Entry<V, I>) -> bool) {
        let bytes = &mut self.bytes;
        self.by_key.retain(|_, entry| {
            let stays = stays(entry);
            *bytes -= if stays { 0 } else { entry.bytes };
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Microseconds of a clock that can be set back.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Timestamp(u64);

    impl ExpiryClock for Timestamp {
        fn after(self, span: Duration) -> Self {
            Timestamp(self.0 + u64::try_from(span.as_micros()).unwrap())
        }

        fn is_before_set_back(self, now: Self) -> bool {
            self.0.saturating_sub(now.0) > 5_000_000
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    #[test]
    fn entries_end_with_their_time() {
        let map = ExpiringMap::new(4, 1000);
        map.put("a", 1, 1, at(0), SECOND);
        assert_eq!((map.get(&"a", Timestamp(999_999)), map.get(&"a", at(1))), (Some(1), None));
    }

    #[test]
    fn a_full_map_forgets_what_ends_first() {
        let map = ExpiringMap::new(4, 1000);
        for key in 0..4 {
            map.put(key, key, 1, at(0), SECOND * (key + 1));
        }
        map.put(9, 9, 1, at(0), SECOND);
        let kept: Vec<u32> =
            [0, 1, 2, 3, 9].into_iter().filter(|key| map.get(key, at(0)).is_some()).collect();
        assert_eq!(kept, [3, 9]);
        for key in 100..1000 {
            map.put(key, key, 1, at(0), SECOND);
            assert!(map.entries.lock().by_key.len() <= 4);
        }
    }

    #[test]
    fn large_answers_have_a_bound_together() {
        let map = ExpiringMap::new(1000, 100);
        for key in 0..1000_usize {
            // Of different sizes, one of them larger than the map.
            map.put(key, key, key % 102, at(0), SECOND * 9);
            let entries = map.entries.lock();
            let held: usize = entries.by_key.values().map(|entry| entry.bytes).sum();
            assert_eq!(entries.bytes, held);
            assert!(held <= 100, "{held}");
        }
        map.put(7, 1, 40, at(0), SECOND * 9);
        map.put(7, 2, 50, at(0), SECOND * 9);
        assert_eq!(map.get(&7, at(0)), Some(2));
        map.put(7, 3, 101, at(0), SECOND * 9);
        assert_eq!(
            map.get(&7, at(0)),
            None,
            "what takes its place counts, though it is too large to be kept"
        );
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_answer_last_longer() {
        let map = ExpiringMap::new(4, 1000);
        map.put("a", 1, 1, at(3600), SECOND * 120);
        assert_eq!(map.get(&"a", at(3599)), Some(1), "another task read the clock a little earlier");
        assert_eq!(map.get(&"a", at(60)), None);
        assert_eq!(map.get(&"a", at(3600)), None, "it does not come back");
    }

    #[tokio::test(start_paused = true)]
    async fn values_expire_by_the_clock_that_tests_stop() {
        let map = ExpiringMap::new(2, 1000);
        let now = tokio::time::Instant::now;
        map.put("a", 1, 1, now(), SECOND * 10);
        map.put("never", 2, 1, now(), Duration::ZERO);
        map.put("ever", 3, 1, now(), Duration::MAX);
        tokio::time::advance(SECOND * 9).await;
        assert_eq!((map.get(&"a", now()), map.get(&"never", now())), (Some(1), None));
        tokio::time::advance(SECOND).await;
        assert_eq!((map.get(&"a", now()), map.get(&"ever", now())), (None, Some(3)));
    }
}
