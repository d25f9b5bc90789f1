//! Answers that are remembered for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A bounded map whose values expire.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
    entries_max: usize,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache of at most `entries_max` values. A full one forgets the expired ones, and everything where none is.
    pub(super) fn new(entries_max: usize) -> Cache<K, V> {
        Cache { entries: Mutex::default(), entries_max }
    }

    /// The value of `key`, unless it has expired.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock();
        let (until, value) = entries.get(key)?;
        (*until > Instant::now()).then(|| value.clone())
    }

    /// Remembers `value` for `time`.
    pub(super) fn insert(&self, key: K, value: V, time: Duration) {
        let now = Instant::now();
        let Some(until) = now.checked_add(time).filter(|until| *until > now) else { return };
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max {
            entries.retain(|_, (until, _)| *until > now);
        }
        if entries.len() >= self.entries_max {
            entries.clear();
        }
        entries.insert(key, (until, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_expire_and_are_bounded() {
        let cache = Cache::new(2);
        cache.insert("a", 1, Duration::from_secs(10));
        cache.insert("never", 2, Duration::ZERO);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!((cache.get(&"a"), cache.get(&"never")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&"a"), None);
        for (key, value) in [("b", 1), ("c", 2), ("d", 3)] {
            cache.insert(key, value, Duration::from_secs(10));
        }
        assert!(cache.entries.lock().len() <= 2);
        assert_eq!(cache.get(&"d"), Some(3));
    }
}
