//! The bound on update managers.
//!
//! Owns folding: without it every tool that ever updated an object would keep its entry for ever.

use std::collections::BTreeMap;

use super::managed::{Managed, ManagedEntry, Operation};

/// Update managers of an object; the oldest ones beyond are folded into [`ANCIENT_CHANGES`]. The reference's number,
/// enough to see which managers are active.
pub const UPDATE_MANAGERS_MAX: usize = 10;

/// The manager of folded entries.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

/// Folds the oldest update entries of a version into one until [`UPDATE_MANAGERS_MAX`] are left. The first entry of
/// each version stays by itself until a second one joins it.
pub(super) fn fold_old_updates(managed: &mut Managed) {
    let is_update = |entry: &ManagedEntry| entry.operation == Operation::Update;
    let count = managed.entries.iter().filter(|entry| is_update(entry)).count();
    let Some(mut excess) = count.checked_sub(UPDATE_MANAGERS_MAX).filter(|excess| *excess > 0) else {
        return;
    };
    let (mut updates, applies) =
        std::mem::take(&mut managed.entries).into_iter().partition::<Vec<_>, _>(is_update);
    managed.entries = applies;
    // An earlier fold sorts first, so that the next one joins it.
    let is_fold = |entry: &ManagedEntry| entry.manager == ANCIENT_CHANGES && entry.subresource.is_empty();
    updates.sort_by(|a, b| {
        is_fold(b)
            .cmp(&is_fold(a))
            .then_with(|| a.time.cmp(&b.time))
            .then_with(|| a.manager.cmp(&b.manager))
            .then_with(|| a.api_version.cmp(&b.api_version))
    });
    let mut kept: Vec<ManagedEntry> = Vec::with_capacity(updates.len());
    let mut first_of_version: BTreeMap<String, usize> = BTreeMap::new();
    for entry in updates {
        let first = *first_of_version.entry(entry.api_version.clone()).or_insert(kept.len());
        match kept.get_mut(first).filter(|_| excess > 0) {
            Some(bucket) => {
                bucket.manager = ANCIENT_CHANGES.to_owned();
                bucket.subresource.clear();
                bucket.time = entry.time;
                bucket.set.gather(entry.set);
                excess -= 1;
            }
            None => kept.push(entry),
        }
    }
    for &first in first_of_version.values() {
        kept[first].set.seal();
    }
    managed.entries.append(&mut kept);
}
