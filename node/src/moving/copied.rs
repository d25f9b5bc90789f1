//! What a copy has brought to the target: uids by place, and who owns whom.
//!
//! Owns the answer to two questions: whether the owners of an object are there, and which objects are to be removed because the
//! source has them no more. It takes about 200 bytes an object.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::kinds::Kind;

/// The place of an object: the id of its kind, and `NAMESPACE/NAME`.
pub(super) type Place = (String, String);

/// The objects that were brought.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// By the id of the kind: uids by place.
    places: BTreeMap<String, HashMap<String, String>>,
    /// Uids of objects that are certainly at the target.
    present: HashSet<String>,
    /// Uids that the target refused.
    refused: HashSet<String>,
    /// By the uid of an owner: the objects that name it.
    dependents: HashMap<String, Vec<Place>>,
    /// Kinds whose list was copied to its end, and the version of that list or of the last change after it.
    versions: BTreeMap<String, String>,
    /// Kinds that are copied but for objects whose owners come later, and the versions of their lists.
    pending: BTreeMap<String, String>,
    /// Namespaces that are being deleted at the source.
    ending: HashSet<String>,
    /// Uids of owners that did not come in time.
    overdue: HashSet<String>,
}

impl Copied {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.versions.is_empty()
    }

    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.places.values().map(HashMap::len).sum()
    }

    /// Notes that the object at `place` is about to be sent.
    pub(super) fn expect(&mut self, (kind, place): (&str, &str), uid: &str, owners: &[String]) {
        let places = self.places.entry(kind.to_owned()).or_default();
        places.insert(place.to_owned(), uid.to_owned());
        for owner in owners {
            let at = (kind.to_owned(), place.to_owned());
            let dependents = self.dependents.entry(owner.clone()).or_default();
            // One that stands there twice is looked at twice, which costs less than a search.
            if dependents.last() != Some(&at) {
                dependents.push(at);
            }
        }
    }

    pub(super) fn note_present(&mut self, uid: &str) {
        self.present.insert(uid.to_owned());
    }

    pub(super) fn note_refused(&mut self, (kind, place): (&str, &str), uid: &str) {
        self.refused.insert(uid.to_owned());
        if let Some(places) = self.places.get_mut(kind) {
            places.remove(place);
        }
    }

    /// Notes that the object at `place` is gone, and returns its uid.
    pub(super) fn remove(&mut self, (kind, place): (&str, &str)) -> Option<String> {
        let uid = self.places.get_mut(kind)?.remove(place)?;
        self.present.remove(&uid);
        self.dependents.remove(&uid);
        Some(uid)
    }

    /// The uid of the object that was brought to `place`.
    pub(super) fn uid_at(&self, (kind, place): (&str, &str)) -> Option<String> {
        self.places.get(kind)?.get(place).cloned()
    }

    /// The places of `kind` that `listed` lacks.
    pub(super) fn missing_in(&self, kind: &str, listed: &HashSet<String>) -> Vec<String> {
        let places = self.places.get(kind).into_iter().flatten();
        places.map(|(place, _)| place).filter(|place| !listed.contains(*place)).cloned().collect()
    }

    /// The objects that name `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).cloned().unwrap_or_default()
    }

    pub(super) fn are_present(&self, owners: &[String]) -> bool {
        owners.iter().all(|owner| self.present.contains(owner))
    }

    /// Whether one of `owners` was refused, so that the target would collect their object as garbage.
    pub(super) fn is_refused(&self, owners: &[String]) -> bool {
        owners.iter().any(|owner| self.refused.contains(owner))
    }

    /// The version from which on the changes of `kind` are still to be copied; `None`: the list is.
    pub(super) fn version(&self, kind: &str) -> Option<&str> {
        self.versions.get(kind).map(String::as_str)
    }

    pub(super) fn set_version(&mut self, kind: &str, version: &str) {
        self.versions.insert(kind.to_owned(), version.to_owned());
    }

    /// Has the kind listed again.
    pub(super) fn forget_version(&mut self, kind: &str) {
        self.versions.remove(kind);
    }

    /// Has every kind listed again.
    pub(super) fn forget_versions(&mut self) {
        self.versions.clear();
    }

    pub(super) fn set_pending(&mut self, kind: &str, version: &str) {
        self.pending.insert(kind.to_owned(), version.to_owned());
    }

    /// The version of the list of one kind that is copied but for objects that wait.
    pub(super) fn take_pending_of(&mut self, kind: &str) -> Option<(String, String)> {
        self.pending.remove_entry(kind)
    }

    /// Whether the namespace of `object` is certainly at the target; true for kinds without namespaces.
    pub(super) fn has_home(&self, kind: &Kind, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str().filter(|_| kind.namespaced);
        let is_there = |uid: String| self.present.contains(&uid);
        namespace.is_none_or(|namespace| self.uid_at(("namespaces", namespace)).is_some_and(is_there))
    }

    pub(super) fn take_pending(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.pending)
    }

    /// Notes that nothing waits for `owners` any more.
    pub(super) fn note_overdue(&mut self, owners: Vec<String>) {
        self.overdue.extend(owners);
    }

    /// Whether each of `owners` is there, or was waited for in vain.
    pub(super) fn are_overdue(&self, owners: &[String]) -> bool {
        owners.iter().all(|owner| self.present.contains(owner) || self.overdue.contains(owner))
    }

    pub(super) fn note_ending(&mut self, namespace: &str) {
        self.ending.insert(namespace.to_owned());
    }

    pub(super) fn is_ending(&self, namespace: &str) -> bool {
        self.ending.contains(namespace)
    }

    /// Ends the reading of a state file: the objects of kinds that were copied to their end are at the target.
    pub(super) fn settle(&mut self) {
        for kind in self.versions.keys() {
            let uids = self.places.get(kind).into_iter().flat_map(HashMap::values);
            self.present.extend(uids.cloned());
        }
    }
}

/// The uids of the owners of `object`.
pub(super) fn owners_of(object: &Value) -> Vec<String> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_count_once_they_are_certainly_there() {
        let mut copied = Copied::default();
        copied.expect(("a", "n/x"), "u-x", &[]);
        let owners = ["u-x".to_owned()];
        assert!(!copied.are_present(&owners), "it may have been refused");
        copied.settle();
        assert!(!copied.are_present(&owners), "its kind was not copied to its end");
        copied.set_version("a", "7");
        copied.settle();
        assert!(copied.are_present(&owners));
        copied.expect(("b", "n/y"), "u-y", &owners);
        copied.expect(("b", "n/y"), "u-y", &owners);
        assert_eq!(copied.dependents("u-x"), [("b".to_owned(), "n/y".to_owned())]);
        assert_eq!(copied.missing_in("b", &HashSet::from(["n/z".to_owned()])), ["n/y"]);
        assert_eq!(copied.remove(("a", "n/x")).as_deref(), Some("u-x"));
        assert!(!copied.are_present(&owners) && copied.len() == 1);
    }
}
