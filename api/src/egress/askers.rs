//! A bound of the questions that one asker has under way at one target.
//!
//! Owns counting them. An asker is known only while it has a question under way: there are never more entries than
//! questions.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use parking_lot::Mutex;

use super::{REQUESTS_MAX, WAITING_MAX};

/// Questions of one asker that are under way together: an eighth of what a target takes, so that it needs eight askers to
/// keep others out, and more than an honest one has in a burst.
pub(crate) const QUESTIONS_EACH_MAX: usize = (REQUESTS_MAX + WAITING_MAX) / 8;

/// The askers that have questions under way.
pub(crate) struct Askers<K> {
    under_way: Mutex<HashMap<K, usize>>,
}

/// One question under way, until it is dropped.
pub(crate) struct Question<'a, K: Hash + Eq> {
    askers: &'a Askers<K>,
    asker: K,
}

impl<K> Default for Askers<K> {
    fn default() -> Self {
        Askers { under_way: Mutex::new(HashMap::new()) }
    }
}

impl<K> fmt::Debug for Askers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Askers").field("askers", &self.under_way.lock().len()).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone> Askers<K> {
    /// Counts a question of `asker`; `None` where [`QUESTIONS_EACH_MAX`] are under way.
    pub(crate) fn begin(&self, asker: K) -> Option<Question<'_, K>> {
        let mut under_way = self.under_way.lock();
        let count = under_way.entry(asker.clone()).or_insert(0);
        if *count >= QUESTIONS_EACH_MAX {
            return None;
        }
        *count += 1;
        Some(Question { askers: self, asker })
    }
}

impl<K: Hash + Eq> Drop for Question<'_, K> {
    fn drop(&mut self) {
        let mut under_way = self.askers.under_way.lock();
        let is_last = under_way.get_mut(&self.asker).is_some_and(|count| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            under_way.remove(&self.asker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asker_fills_its_share_and_leaves_nothing_behind() {
        let askers = Askers::default();
        let mut questions: Vec<_> = (0..QUESTIONS_EACH_MAX).map(|_| askers.begin("ann").unwrap()).collect();
        assert!(askers.begin("ann").is_none());
        let other = askers.begin("bob").unwrap();
        questions.pop();
        questions.push(askers.begin("ann").unwrap());
        assert!(askers.begin("ann").is_none());
        drop((questions, other));
        assert_eq!(askers.under_way.lock().len(), 0);
    }
}
