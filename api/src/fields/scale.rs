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
    of_object: FieldOfVersion,
    /// Its other versions: their owners have the field, too.
    of_others: Vec<FieldOfVersion>,
    of_scale: FieldOfVersion,
}

/// The number of replicas in objects of one `apiVersion`.
#[derive(Clone, Debug)]
struct FieldOfVersion {
    api_version: String,
    path: Vec<PathElement>,
}

impl FieldOfVersion {
    fn new(api_version: String, steps: &[impl AsRef<str>]) -> Self {
        let path = steps.iter().map(|step| PathElement::field(step.as_ref())).collect();
        FieldOfVersion { api_version, path }
    }

    fn is_owned_in(&self, entry: &ManagedEntry) -> bool {
        entry.api_version == self.api_version && entry.set.has(&self.path)
    }

    fn set(&self) -> FieldSet {
        let mut set = FieldSet::EMPTY;
        set.insert(&self.path);
        set
    }
}

/// Manager, operation and sub-resource: the identity of an owner in both views, whose versions differ.
type Owner = (Operation, String, String);

impl ScaledField {
    /// The field of an object of `object_version`, which has it at `paths`; its scale is of `scale_version`.
    pub fn new(paths: &ScalePaths, object_version: String, scale_version: String) -> Self {
        ScaledField {
            of_object: FieldOfVersion::new(object_version, &paths.spec_replicas),
            of_others: Vec::new(),
            of_scale: FieldOfVersion::new(scale_version, &["spec", "replicas"]),
        }
    }

    /// The same, of an object that has the field at `paths` in its version `object_version`, too.
    #[must_use]
    pub fn and_in(mut self, paths: &ScalePaths, object_version: String) -> Self {
        self.of_others.push(FieldOfVersion::new(object_version, &paths.spec_replicas));
        self
    }

    /// The managed fields of the scale of an object with `managed`.
    pub fn to_scale(&self, managed: Option<&Value>) -> Option<Value> {
        let mut seen = BTreeSet::new();
        let entries = entries_of(managed).into_iter().filter(|entry| self.owned_in(entry).is_some());
        // set: who owns the field in two versions is one owner of the scale's.
        let entries = entries.filter(|entry| seen.insert(owner(entry))).map(|entry| ManagedEntry {
            api_version: self.of_scale.api_version.clone(),
            set: self.of_scale.set(),
            ..entry
        });
        Managed { entries: entries.collect() }.encode()
    }

    /// The managed fields of the object with `managed` after a write of its scale, which has `scaled` now.
    pub fn to_object(&self, managed: Option<&Value>, scaled: Option<&Value>) -> Option<Value> {
        let owners = entries_of(scaled).into_iter().filter(|entry| entry.set.has(&self.of_scale.path));
        let owners: Vec<ManagedEntry> = owners.collect();
        let after: BTreeSet<Owner> = owners.iter().map(owner).collect();
        let mut before = BTreeSet::new();
        let mut entries = Vec::new();
        for mut entry in entries_of(managed) {
            if let Some(field) = self.owned_in(&entry) {
                let owner = owner(&entry);
                // set: owners of the scale.
                if after.contains(&owner) {
                    before.insert(owner);
                } else {
                    entry.set.subtract(&field.set());
                }
            }
            entries.push(entry);
        }
        // set: the owners that the object does not have yet.
        let added = owners.into_iter().filter(|entry| !before.contains(&owner(entry)));
        entries.extend(added.map(|entry| ManagedEntry {
            api_version: self.of_object.api_version.clone(),
            set: self.of_object.set(),
            time: None,
            ..entry
        }));
        let mut managed = Managed { entries };
        managed.drop_empty();
        managed.encode()
    }

    /// The field as `entry` has it, in its version; `None`: it does not own it.
    fn owned_in(&self, entry: &ManagedEntry) -> Option<&FieldOfVersion> {
        // few: the versions of one kind that are served.
        std::iter::once(&self.of_object).chain(&self.of_others).find(|field| field.is_owned_in(entry))
    }
}

fn owner(entry: &ManagedEntry) -> Owner {
    (entry.operation, entry.manager.clone(), entry.subresource.clone())
}

/// The entries of an encoded list; none where it cannot be read.
fn entries_of(managed: Option<&Value>) -> Vec<ManagedEntry> {
    Managed::decode(managed).unwrap_or_default().entries
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn paths(replicas: &str) -> ScalePaths {
        let steps = |path: &str| path.split('.').map(str::to_owned).collect();
        ScalePaths {
            spec_replicas: steps(replicas),
            status_replicas: steps("status.size"),
            selector: steps("spec.selector"),
        }
    }

    fn field() -> ScaledField {
        ScaledField::new(&paths("spec.size"), "a/v1".to_owned(), "s/v1".to_owned())
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
        let owned = entries.filter(|entry| entry.set.has(&field().of_object.path));
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
    fn owners_in_other_versions_are_shown_and_lose_the_field() {
        let field = field().and_in(&paths("spec.amount"), "a/v0".to_owned());
        let older = json!({"f:spec": {"f:amount": {}, "f:size": {}}});
        let managed =
            json!([entry("o", "Apply", "a/v0", "", older.clone()), entry("p", "Apply", "a/v2", "", older),]);
        let scaled = field.to_scale(Some(&managed)).unwrap();
        assert_eq!(scaled, json!([entry("o", "Apply", "s/v1", "", json!({"f:spec": {"f:replicas": {}}}))]));
        assert_eq!(field.to_object(Some(&managed), Some(&scaled)).as_ref(), Some(&managed));
        let taken = json!([entry("s", "Update", "s/v1", "scale", json!({"f:spec": {"f:replicas": {}}}))]);
        let after = entries_of(field.to_object(Some(&managed), Some(&taken)).as_ref());
        let has = |entry: &ManagedEntry, path: &str| {
            let path: Vec<PathElement> = path.split('.').map(PathElement::field).collect();
            entry.set.has(&path)
        };
        let of = |manager: &str| after.iter().find(|entry| entry.manager == manager).unwrap();
        assert!(!has(of("o"), "spec.amount") && has(of("o"), "spec.size"));
        assert!(has(of("p"), "spec.amount"), "a version without a scale");
        assert!(has(of("s"), "spec.size") && of("s").api_version == "a/v1");
        let twice = json!([
            entry("m", "Update", "a/v0", "", json!({"f:spec": {"f:amount": {}}})),
            entry("m", "Update", "a/v1", "", json!({"f:spec": {"f:size": {}}})),
        ]);
        let scaled = field.to_scale(Some(&twice)).unwrap();
        assert_eq!(entries_of(Some(&scaled)).len(), 1);
        assert_eq!(field.to_object(Some(&twice), Some(&scaled)), Some(twice));
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
