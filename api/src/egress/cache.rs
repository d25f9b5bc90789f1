//! A bounded map whose entries expire, for answers of other servers.
//!
//! Owns when an entry goes: at its end, or when the map is full and it is among those that end first.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

use crate::ambient::Timestamp;

/// A bounded map whose entries expire.
pub struct ExpiringMap<K, V> {
    entries: Mutex<HashMap<K, Entry<V>>>,
    entries_max: usize,
}

struct Entry<V> {
    value: V,
    until: Timestamp,
}

impl<K, V> fmt::Debug for ExpiringMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiringMap").field("entries", &self.entries.lock().len()).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, V: Clone> ExpiringMap<K, V> {
    /// A map of at most `entries_max` entries.
    pub fn new(entries_max: usize) -> Self {
        ExpiringMap { entries: Mutex::default(), entries_max }
    }

    /// The value of `key`, if it has one at `now`.
    pub fn get(&self, key: &K, now: Timestamp) -> Option<V> {
        let mut entries = self.entries.lock();
        let entry = entries.get(key)?;
        if now < entry.until {
            return Some(entry.value.clone());
        }
        entries.remove(key);
        None
    }

    /// Keeps `value` for `span` from `now`.
    pub fn put(&self, key: K, value: V, now: Timestamp, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let until = Timestamp(now.0.saturating_add(micros));
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max && !entries.contains_key(&key) {
            make_room(&mut entries, now);
        }
        entries.insert(key, Entry { value, until });
    }
}

/// Removes what has ended at `now`; if that is nothing, the half that ends first, so that a full map is searched once in
/// many insertions.
fn make_room<K: Hash + Eq, V>(entries: &mut HashMap<K, Entry<V>>, now: Timestamp) {
    let before = entries.len();
    entries.retain(|_, entry| now < entry.until);
    if entries.len() < before || entries.is_empty() {
        return;
    }
    let mut ends: Vec<Timestamp> = entries.values().map(|entry| entry.until).collect();
    let middle = ends.len() / 2;
    let (_, median, _) = ends.select_nth_unstable(middle);
    let median = *median;
    // Where many end together, those of the median go, too: at least one has to.
    entries.retain(|_, entry| entry.until > median);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    #[test]
    fn entries_end_with_their_time() {
        let map = ExpiringMap::new(4);
        map.put("a", 1, at(0), SECOND);
        assert_eq!((map.get(&"a", Timestamp(999_999)), map.get(&"a", at(1))), (Some(1), None));
    }

    #[test]
    fn a_full_map_forgets_what_ends_first() {
        let map = ExpiringMap::new(4);
        for key in 0..4 {
            map.put(key, key, at(0), SECOND * (key + 1));
        }
        map.put(9, 9, at(0), SECOND);
        let kept: Vec<u32> =
            [0, 1, 2, 3, 9].into_iter().filter(|key| map.get(key, at(0)).is_some()).collect();
        assert_eq!(kept, [3, 9]);
        for key in 100..1000 {
            map.put(key, key, at(0), SECOND);
            assert!(map.entries.lock().len() <= 4);
        }
    }
}
