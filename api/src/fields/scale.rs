//! Managed fields of the `scale` sub-resource: the object's managers, translated to another kind.
//!
//! Owns the translation between the managed fields of an object and those of its `Scale`, where only the replica count
//! has owners. A write to the sub-resource is tracked on the `Scale` and then translated back.

use std::collections::BTreeMap;

use orch_schema::value::Value;

use super::element::PathElement;
use super::managed::{Managed, ManagedEntry, ManagedError, Operation};
use super::set::FieldSet;

/// Path of the replica count in a `Scale`.
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Version of the `Scale` kind.
const SCALE_VERSION: &str = "autoscaling/v1";

/// The `managedFields` of the `Scale` of an object with `managed_fields`, whose replica count is at `replicas`.
pub fn scale_managers(
    managed_fields: Option<&Value>,
    replicas: &[&str],
) -> Result<Option<Value>, ManagedError> {
    let path = path_of(replicas);
    let mut managed = Managed::decode(managed_fields)?;
    // once: for each write of a scale, over the managers.
    managed.entries.retain(|entry| entry.set.has(&path));
    for entry in &mut managed.entries {
        entry.set = set_of(&REPLICAS);
        SCALE_VERSION.clone_into(&mut entry.api_version);
    }
    Ok(managed.encode())
}

/// The `managedFields` of the object after a write to its `Scale`: a manager that lost the replica count there loses it
/// here, and a manager that gained it gets an entry in `api_version`. As in the reference a new entry has no time.
pub fn managers_after_scale(
    managed_fields: Option<&Value>,
    scale_managed_fields: Option<&Value>,
    replicas: &[&str],
    api_version: &str,
) -> Result<Option<Value>, ManagedError> {
    let path = path_of(replicas);
    let scale_path = path_of(&REPLICAS);
    let mut managed = Managed::decode(managed_fields)?;
    let mut scale = Managed::decode(scale_managed_fields)?;
    // once: as above.
    scale.entries.retain(|entry| entry.set.has(&scale_path));
    // Indexed by identity, because a client may send thousands.
    let mut gained: BTreeMap<_, Vec<ManagedEntry>> = BTreeMap::new();
    for entry in scale.entries {
        gained.entry(writer_of(&entry)).or_default().push(entry);
    }
    for entry in managed.entries.iter_mut().filter(|entry| entry.set.has(&path)) {
        if gained.get_mut(&writer_of(entry)).and_then(Vec::pop).is_none() {
            entry.set.subtract(&set_of(replicas));
        }
    }
    managed.drop_empty();
    let mut places = managed.places();
    for mut entry in gained.into_values().flatten() {
        entry.set = set_of(replicas);
        entry.time = None;
        api_version.clone_into(&mut entry.api_version);
        match places.get(&entry.writer()) {
            Some(&at) => managed.entries[at].set.unite(entry.set),
            None => {
                places.insert(entry.writer(), managed.entries.len());
                managed.entries.push(entry);
            }
        }
    }
    Ok(managed.encode())
}

/// The identity of an entry without its version, which differs between the two kinds.
fn writer_of(entry: &ManagedEntry) -> (Operation, String, String) {
    (entry.operation, entry.manager.clone(), entry.subresource.clone())
}

fn path_of(names: &[&str]) -> Vec<PathElement> {
    names.iter().map(|name| PathElement::field(name)).collect()
}

fn set_of(names: &[&str]) -> FieldSet {
    let mut set = FieldSet::EMPTY;
    set.insert(&path_of(names));
    set
}
