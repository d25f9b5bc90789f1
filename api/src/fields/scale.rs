//! Managed fields of a scale: owners of the number of replicas, seen from the object and from its scale.
//!
//! Owns the translation in both directions. A write through the scale takes the field from the owners that it has in
//! the object, and owns it there under the sub-resource. As in the reference, an owner that comes from the scale has no
//! time in the object.

use std::collections::BTreeSet;

use orch_schema::ScalePaths;
use orch_schema::value::Value;

use super::element::PathElement;
use super::managed::{Managed, ManagedEntry, Operation};
use super::set::FieldSet;

/// The number of replicas in an object and in its scale.
#[derive(Clone, Debug)]
pub struct ScaledField {
    of_object: Vec<PathElement>,
    of_scale: Vec<PathElement>,
    object_version: String,
    scale_version: String,
}

/// Manager, operation and sub-resource: the identity of an owner in both views, whose versions differ.
type Owner = (Operation, String, String);

impl ScaledField {
    /// The field of an object of `object_version`, which has it at `paths`; its scale is of `scale_version`.
    pub fn new(paths: &ScalePaths, object_version: String, scale_version: String) -> Self {
        let of_object = paths.spec_replicas.iter().map(|step| PathElement::field(step)).collect();
        let of_scale = ["spec", "replicas"].map(PathElement::field).into();
        ScaledField { of_object, of_scale, object_version, scale_version }
    }

    /// The managed fields of the scale of an object with `managed`.
    pub fn to_scale(&self, managed: Option<&Value>) -> Option<Value> {
        let entries = entries_of(managed).into_iter().filter(|entry| self.is_owned_in(entry));
        let entries = entries.map(|entry| ManagedEntry {
            api_version: self.scale_version.clone(),
            set: set_of(&self.of_scale),
            ..entry
        });
        Managed { entries: entries.collect() }.encode()
    }

    /// The managed fields of the object with `managed` after a write of its scale, which has `scaled` now.
    pub fn to_object(&self, managed: Option<&Value>, scaled: Option<&Value>) -> Option<Value> {
        let owners = entries_of(scaled).into_iter().filter(|entry| entry.set.has(&self.of_scale));
        let owners: Vec<ManagedEntry> = owners.collect();
        let mut new: BTreeSet<Owner> = owners.iter().map(owner).collect();
        let mut entries = Vec::new();
        for mut entry in entries_of(managed) {
            if self.is_owned_in(&entry) && !new.remove(&owner(&entry)) {
                entry.set.subtract(&set_of(&self.of_object));
            }
            entries.push(entry);
        }
        // set: the owners that the object does not have yet.
        let added = owners.into_iter().filter(|entry| new.contains(&owner(entry)));
        entries.extend(added.map(|entry| ManagedEntry {
            api_version: self.object_version.clone(),
            set: set_of(&self.of_object),
            time: None,
            ..entry
        }));
        let mut managed = Managed { entries };
        managed.drop_empty();
        managed.encode()
    }

    fn is_owned_in(&self, entry: &ManagedEntry) -> bool {
        entry.api_version == self.object_version && entry.set.has(&self.of_object)
    }
}

fn owner(entry: &ManagedEntry) -> Owner {
    (entry.operation, entry.manager.clone(), entry.subresource.clone())
}

/// The entries of an encoded list; none where it cannot be read.
fn entries_of(managed: Option<&Value>) -> Vec<ManagedEntry> {
    Managed::decode(managed).unwrap_or_default().entries
}

fn set_of(path: &[PathElement]) -> FieldSet {
    let mut set = FieldSet::EMPTY;
    set.insert(path);
    set
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn field() -> ScaledField {
        let steps = |path: &str| path.split('.').map(str::to_owned).collect();
        let paths = ScalePaths {
            spec_replicas: steps("spec.size"),
            status_replicas: steps("status.size"),
            selector: steps("spec.selector"),
        };
        ScaledField::new(&paths, "a/v1".to_owned(), "s/v1".to_owned())
    }

    fn entry(manager: &str, operation: &str, version: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": version, "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields
        });
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    fn size_of(managed: Option<&Value>) -> Vec<String> {
        let entries = entries_of(managed).into_iter();
        let owned = entries.filter(|entry| entry.set.has(&field().of_object));
        owned.map(|entry| format!("{}/{}", entry.manager, entry.subresource)).collect()
    }

    #[test]
    fn the_scale_shows_the_owners_of_its_field_alone() {
        let both = json!({"f:spec": {"f:size": {}, "f:other": {}}});
        let other = json!({"f:spec": {"f:other": {}}});
        let managed = json!([
            entry("m", "Update", "a/v1", "", both),
            entry("n", "Apply", "a/v1", "", other),
            entry("o", "Update", "a/v0", "", json!({"f:spec": {"f:size": {}}})),
        ]);
        let scaled = field().to_scale(Some(&managed)).unwrap();
        assert_eq!(scaled, json!([entry("m", "Update", "s/v1", "", json!({"f:spec": {"f:replicas": {}}}))]));
        assert_eq!(field().to_scale(None), None);
    }

    #[test]
    fn a_write_of_the_scale_takes_the_field_and_leaves_the_rest() {
        let both = json!({"f:spec": {"f:size": {}, "f:other": {}}});
        let managed = json!([entry("m", "Update", "a/v1", "", both)]);
        let replicas = json!({"f:spec": {"f:replicas": {}}, "f:status": {"f:replicas": {}}});
        let scaled = json!([
            entry("s", "Update", "s/v1", "scale", replicas),
            entry("t", "Update", "s/v1", "scale", json!({"f:status": {"f:replicas": {}}})),
        ]);
        let after = field().to_object(Some(&managed), Some(&scaled)).unwrap();
        assert_eq!(size_of(Some(&after)), ["s/scale"]);
        let times: Vec<bool> = entries_of(Some(&after)).iter().map(|entry| entry.time.is_some()).collect();
        assert_eq!(times, [false, true], "a new owner has no time");
        let same = field().to_object(Some(&after), field().to_scale(Some(&after)).as_ref());
        assert_eq!(same.as_ref(), Some(&after), "a write that changes nothing changes no owner");
        let unowned = field().to_object(Some(&after), None).unwrap();
        assert!(size_of(Some(&unowned)).is_empty());
        assert_eq!(entries_of(Some(&unowned)).len(), 1);
    }
}
