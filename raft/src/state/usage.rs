//! The size of the state, and its quota.
//!
//! Owns the decision whether a transaction may grow the state. It is made while the entry is applied, from the state
//! alone: the quota is an object of the cluster, so that every member decides alike, whatever its flags say. A full
//! state accepts every write that makes room (docs/decisions/0014):
//!
//! | operation | may use |
//! |---|---|
//! | removal; an update that does not grow the object; the store's own objects | anything |
//! | marking for deletion: an update that sets `terminating`, by up to [`SMALL_GROWTH_BYTES`] | anything |
//! | an update of an object marked for deletion, by up to the same | quota + reserve |
//! | another update, by up to the same | quota + half the reserve |
//! | everything else | quota |
//!
//! Invariant: `bytes` is the sum of the weights of all objects; it does not depend on the digits of their revisions, so
//! that writing an object again does not make it larger.

use super::{CLUSTER_RESOURCE, State};
use crate::object::{Index, Object};
use crate::transaction::{Operation, Put};

/// The selectable field of the object at [`LIMITS`] that holds the quota, in bytes.
pub(crate) const QUOTA_FIELD: &str = "bytes";

/// Path of the object in [`CLUSTER_RESOURCE`] whose first field is the quota in bytes; 0 means no quota.
pub const LIMITS: &str = "limits";

/// Bytes that an object weighs beside its content: keys, numbers, and map nodes.
const OBJECT_OVERHEAD_BYTES: u64 = 256;

/// Digits of the largest revision: every object counts with room for them.
const REVISION_DIGITS: u64 = 20;

/// Growth that counts as small: a deletion timestamp, a status condition, a lease holder, with its managed fields.
const SMALL_GROWTH_BYTES: u64 = 4096;

/// Bytes that one transaction may write while a disk is short of space without shrinking the state: status conditions,
/// leases and marks for deletion are smaller.
const SMALL_WRITE_BYTES: u64 = 64 << 10;

/// A larger transaction must shrink what it replaces by at least one part in this many. Repeated until the object is
/// small, such writes add up to a bounded multiple of the bytes stored.
const SHRINKING_PART: u64 = 8;

/// The reserve: small growth may exceed the quota by one part in this many.
const RESERVE_PART: u64 = 16;

/// The size of a state, and its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    bytes: u64,
    quota: Option<u64>,
}

/// A transaction would exceed the quota; both numbers in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    pub(super) used: u64,
    pub(super) quota: u64,
}

impl Usage {
    /// Weight of all objects, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest weight of all objects, in bytes; `None` without a quota.
    pub fn quota(&self) -> Option<u64> {
        self.quota
    }

    /// Subtracts the weight of `old` and adds that of `new`. The object at [`LIMITS`] sets the quota.
    pub(super) fn replace(&mut self, resource: &str, path: &str, old: Option<&Object>, new: Option<&Object>) {
        self.bytes += new.map_or(0, |new| weight(path, new));
        let left = self.bytes.checked_sub(old.map_or(0, |old| weight(path, old)));
        self.bytes = left.expect("what leaves the state was counted when it came");
        if resource == CLUSTER_RESOURCE && path == LIMITS {
            self.quota = new.and_then(|new| quota_of(&new.index));
        }
    }
}

impl State {
    /// Checks that `operations` keep the state within the limit of their kind of growth, or do not grow it.
    pub(super) fn check_quota(&self, operations: &[Operation]) -> Result<(), Full> {
        let Usage { bytes: used, quota: Some(quota) } = self.usage else { return Ok(()) };
        let (grows, growth) = self.growth(operations);
        let limit = limit_of(growth, quota);
        if grows == 0 || used.saturating_add(grows) <= limit { Ok(()) } else { Err(Full { used, quota }) }
    }

    /// Whether a member short of disk space may propose `operations`: only if they free space, or take almost none
    /// (docs/decisions/0018).
    ///
    /// The disk gives back the space of a replaced object long after the new one is written, and compaction of the two
    /// takes space as well. So objects of more than [`SMALL_WRITE_BYTES`] in all are rewritten only if they end (are
    /// marked for deletion, or shrink when marked), or, unless the disk is `nearly_full`, if they shrink by one part in
    /// [`SHRINKING_PART`].
    pub(crate) fn is_allowed_when_short_of_space(&self, operations: &[Operation], nearly_full: bool) -> bool {
        let Footprint { added, removed, growth, ends } = self.change(operations);
        match added {
            0 => true,
            // Objects marked for deletion may grow by little, but repeatedly: refused while the disk is nearly full.
            _ if added <= SMALL_WRITE_BYTES => {
                added <= removed || growth <= if nearly_full { Growth::Marking } else { Growth::Terminating }
            }
            _ => ends || (!nearly_full && added <= removed - removed / SHRINKING_PART),
        }
    }

    /// Net bytes that `operations` add to the state, and the most demanding kind of growth among them.
    fn growth(&self, operations: &[Operation]) -> (u64, Growth) {
        let change = self.change(operations);
        (change.added.saturating_sub(change.removed), change.growth)
    }

    fn change(&self, operations: &[Operation]) -> Footprint {
        let mut change = Footprint { added: 0, removed: 0, growth: Growth::Exempt, ends: true };
        for operation in operations {
            match operation {
                Operation::Delete(key) => {
                    change.removed += self.object(key).map_or(0, |old| weight(key.path(), old));
                }
                Operation::Put(put) => {
                    let old = self.object(&put.key).map(|old| &**old);
                    let before = old.map_or(0, |old| weight(put.key.path(), old));
                    let after = weight_of_put(put);
                    change.added += after;
                    change.removed += before;
                    if after > before {
                        change.growth = change.growth.max(growth_of(put, old, after - before));
                    }
                    let was_ending = old.is_some_and(|old| old.index.terminating);
                    change.ends &= put.index.terminating && (!was_ending || after < before);
                }
            }
        }
        change
    }
}

/// The effect of operations on the size of the state.
struct Footprint {
    /// Weight of the objects written.
    added: u64,
    /// Weight of the objects replaced and removed.
    removed: u64,
    /// The most demanding kind of growth among them.
    growth: Growth,
    /// Every object written is newly marked for deletion, or is marked already and shrinks.
    ends: bool,
}

/// Kinds of growth, the least demanding first; the table above has their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Growth {
    /// No growth, or the store's own objects.
    Exempt,
    /// Marking for deletion.
    Marking,
    /// Small growth of an object marked for deletion.
    Terminating,
    /// Small growth of another object.
    Small,
    /// A new object, or an update with large growth.
    Large,
}

/// The kind of growth of a put that adds `grows` bytes to the state.
fn growth_of(put: &Put, old: Option<&Object>, grows: u64) -> Growth {
    if put.key.resource().as_ref() == CLUSTER_RESOURCE {
        return Growth::Exempt;
    }
    match old {
        Some(old) if grows <= SMALL_GROWTH_BYTES => match (old.index.terminating, put.index.terminating) {
            (false, true) => Growth::Marking,
            (true, true) => Growth::Terminating,
            (_, false) => Growth::Small,
        },
        _ => Growth::Large,
    }
}

/// The weight of all objects, in bytes, up to which a kind of growth is accepted.
fn limit_of(growth: Growth, quota: u64) -> u64 {
    let reserve = quota / RESERVE_PART;
    match growth {
        Growth::Exempt | Growth::Marking => u64::MAX,
        Growth::Terminating => quota.saturating_add(reserve),
        Growth::Small => quota.saturating_add(reserve / 2),
        Growth::Large => quota,
    }
}

fn quota_of(index: &Index) -> Option<u64> {
    index.fields.value(QUOTA_FIELD, 0).parse().ok().filter(|bytes| *bytes > 0)
}

fn weight(path: &str, object: &Object) -> u64 {
    let at = object.revision_at as usize;
    let digits = object.json.get(at..).unwrap_or_default();
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    total(path, object.json.len() - digits, &object.index)
}

fn weight_of_put(put: &Put) -> u64 {
    total(put.key.path(), put.json.len(), &put.index)
}

fn total(path: &str, json_bytes: usize, index: &Index) -> u64 {
    let labels: usize = index.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    let fields: usize = index.fields.iter().map(|(_, value)| value.len()).sum();
    let owners: usize = index.owners.iter().map(String::len).sum();
    let bytes = path.len() + json_bytes + index.uid.len() + labels + fields + owners;
    bytes as u64 + REVISION_DIGITS + OBJECT_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::fields::Fields;
    use crate::key::{Key, Revision};
    use crate::transaction::{Outcome, Transaction};

    const QUOTA: u64 = 64 << 10;

    fn key(resource: &str, name: &str) -> Key {
        Key::new(&Arc::from(resource), "", name).unwrap()
    }

    fn put(resource: &str, name: &str, bytes: usize) -> Put {
        let json = Bytes::from(format!("{{\"v\":\"\",\"b\":\"{}\"}}", "x".repeat(bytes)));
        Put { key: key(resource, name), json, revision_at: 6, index: Index::default() }
    }

    fn marked(name: &str, bytes: usize) -> Put {
        let index = Index { terminating: true, ..Index::default() };
        Put { index, ..put("things", name, bytes) }
    }

    fn apply(state: &mut State, operations: Vec<Operation>) -> bool {
        let revision = Revision(state.applied().0 + 1);
        let before = state.usage();
        let outcome = state.apply(revision, &Transaction { operations, ..Transaction::default() });
        match outcome {
            Outcome::Applied { .. } => true,
            Outcome::Full { used, quota, revision: at } => {
                assert_eq!((used, Some(quota), at), (before.bytes(), before.quota(), revision));
                assert_eq!(state.usage(), before, "nothing changed");
                false
            }
            Outcome::Refused { .. } => panic!("no condition"),
        }
    }

    fn write(state: &mut State, put: Put) -> bool {
        apply(state, vec![Operation::Put(put)])
    }

    fn set_quota(state: &mut State, bytes: u64) {
        let index = Index { fields: Fields::new([(QUOTA_FIELD, bytes.to_string())]), ..Index::default() };
        assert!(write(state, Put { index, ..put(CLUSTER_RESOURCE, LIMITS, 0) }), "never refused");
    }

    /// A state without room for another object of a kilobyte.
    fn full_state() -> State {
        let mut state = State::default();
        set_quota(&mut state, QUOTA);
        let fitted =
            (0..1000).take_while(|i| write(&mut state, put("things", &format!("{i}"), 1000))).count();
        assert!((45..60).contains(&fitted), "{fitted} objects of about 1.3 kB fit into 64 kB");
        state
    }

    #[test]
    fn a_full_state_refuses_growth_and_lets_make_room() {
        let mut state = full_state();
        assert!(!write(&mut state, put("things", "new", 1000)), "a new object");
        assert!(!write(&mut state, put("things", "1", 9000)), "an object that grows by much");
        assert!(write(&mut state, put("things", "1", 1000)), "as large as before");
        assert!(write(&mut state, put("things", "1", 900)), "smaller");
        assert!(!apply(&mut state, vec![Operation::Put(put("things", "new", 1000))]));
        assert!(apply(&mut state, vec![Operation::Delete(key("things", "2"))]));
        assert!(write(&mut state, put("things", "new", 900)), "there is room again");
        let swap = vec![Operation::Delete(key("things", "3")), Operation::Put(put("things", "newer", 900))];
        assert!(apply(&mut state, swap), "a transaction that shrinks the state as a whole");
    }

    #[test]
    fn every_object_of_a_full_state_can_be_marked_and_removed() {
        let mut state = full_state();
        // Small growth of unmarked objects takes its half of the reserve and no more.
        let mut grown = 0;
        while write(&mut state, put("things", &format!("{}", grown % 40), 1000 + 100 * (1 + grown / 40))) {
            grown += 1;
            assert!(grown < 1000, "the reserve ends");
        }
        let objects: Vec<String> = {
            let things = state.collection("things");
            things.range_from("").map(|(path, _)| path.to_string()).collect()
        };
        for name in &objects {
            let size = state.object(&key("things", name)).unwrap().json.len();
            assert!(write(&mut state, marked(name, size + 200)), "marking {name}");
        }
        assert!(state.usage().bytes() > QUOTA + QUOTA / 16, "all of them grew beyond any reserve");
        assert!(!write(&mut state, put("things", "new", 10)));
        for name in &objects {
            assert!(apply(&mut state, vec![Operation::Delete(key("things", name))]));
        }
        assert!(write(&mut state, put("things", "new", 10)));
    }

    #[test]
    fn a_disk_with_little_space_takes_large_updates_only_to_end_or_shrink() {
        let mut state = State::default();
        for (name, bytes) in [("small", 1000), ("large", 160_000), ("ending", 160_000)] {
            assert!(write(&mut state, put("things", name, bytes)));
        }
        assert!(write(&mut state, marked("ending", 160_000)));
        assert!(write(&mut state, marked("small ending", 1000)));
        let cases = [
            (put("things", "new", 10), false, false),
            (put("things", "small", 1000), true, true),
            (put("things", "small", 1200), false, false),
            (marked("small", 1200), true, true),
            (marked("small ending", 1200), true, false),
            (put("things", "large", 160_000), false, false),
            (put("things", "large", 141_000), false, false),
            (put("things", "large", 139_000), true, false),
            (put("things", "large", 60_000), true, true),
            (marked("large", 160_100), true, true),
            (marked("ending", 160_000), false, false),
            (marked("ending", 159_900), true, true),
        ];
        for (put, low, nearly_full) in cases {
            let what = format!("{} of {} bytes", put.key.path(), put.json.len());
            let operations = [Operation::Put(put)];
            assert_eq!(state.is_allowed_when_short_of_space(&operations, false), low, "{what}, low");
            assert_eq!(
                state.is_allowed_when_short_of_space(&operations, true),
                nearly_full,
                "{what}, nearly full"
            );
        }
        assert!(state.is_allowed_when_short_of_space(&[Operation::Delete(key("things", "large"))], true));
    }

    #[test]
    fn the_digits_of_a_revision_are_no_growth() {
        let mut state = State::default();
        assert!(write(&mut state, put("things", "a", 10)));
        let before = state.usage().bytes();
        for _ in 0..1200 {
            assert!(write(&mut state, put("things", "a", 10)));
        }
        assert_eq!(state.usage().bytes(), before);
    }

    #[test]
    fn the_quota_can_be_raised_lowered_and_lifted() {
        let mut state = full_state();
        set_quota(&mut state, 2 * QUOTA);
        assert!(write(&mut state, put("things", "new", 1000)));
        set_quota(&mut state, QUOTA / 2);
        assert!(!write(&mut state, put("things", "newer", 1)));
        assert!(write(&mut state, put("things", "new", 1000)), "as it was");
        set_quota(&mut state, 0);
        assert_eq!(state.usage().quota(), None);
        assert!(write(&mut state, put("things", "newer", 100_000)));
    }

    #[test]
    fn a_restored_state_has_the_same_usage() {
        let state = full_state();
        let mut restored = State::default();
        for (resource, collection) in state.collections() {
            for (path, object) in collection.range_from("") {
                restored.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
            }
        }
        assert_eq!(restored.usage(), state.usage());
    }
}
