//! Times of managed fields in a write without effect.
//!
//! Owns the last check before an object is stored: defaulting may have undone the client's change. If only the times of
//! managed fields differ, the stored times are kept, so that the write counts as one without effect.

use orch_schema::value::{Map, Value};

use super::managed::managed_fields_of;
use super::shape::same;

/// Sets the stored managed fields in `new` if it differs from `live` only in their times (and its `resourceVersion`).
pub fn keep_times_if_unchanged(live: &Value, new: &mut Value) {
    let (Some(Value::Array(old)), Some(Value::Array(now))) =
        (managed_fields_of(live), managed_fields_of(new))
    else {
        return;
    };
    let is_pairwise_same =
        old.len() == now.len() && old.iter().zip(now).all(|(old, now)| same_but(old, now, &["time"]));
    if !is_pairwise_same || old.iter().zip(now).all(|(old, now)| old.get("time") == now.get("time")) {
        return;
    }
    let (Some(before), Some(after)) = (live.get("metadata"), new.get("metadata")) else { return };
    if !same_but(live, new, &["metadata"]) || !same_but(before, after, &["managedFields", "resourceVersion"])
    {
        return;
    }
    let stored = Value::Array(old.clone());
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), stored);
    }
}

/// Whether two objects are equal except for `members`.
fn same_but(a: &Value, b: &Value, members: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return same(a, b) };
    // few: the members of a time.
    let rest = |map: &Map| map.keys().filter(|key| !members.contains(&key.as_str())).count();
    rest(a) == rest(b)
        // few: the members of a time.
        && a.iter().all(|(key, a)| members.contains(&key.as_str()) || b.get(key).is_some_and(|b| same(a, b)))
}
