//! The books of a copy: uids by place, who owns whom, and what the target refused.
//!
//! Owns the answer to three questions: whether the owners of an object are at the target, which objects are to be removed because the
//! source has them no more, and which are to be tried again. It takes about 200 bytes an object.
//!
//! Invariant: `dependents` holds a place for each owner that the object there names at the source or at the target. It does not grow with
//! changes: what a state named that was overwritten counts until the target has a later one.
//! Invariant: a place keeps its uid until the object is removed, also where the target refused it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::kinds::{Kind, is_definitions_id};
use super::owners::Owner;

/// The place of an object: the id of its kind, and `NAMESPACE/NAME`.
pub(super) type Place = (String, String);

/// An object that the target refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) uid: String,
    pub(super) reason: String,
    pub(super) left: Left,
}

/// What a refusal has left at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The object is not there.
    Nothing,
    /// It is there as it was before the change that was refused.
    Former,
}

/// Why the dependents of an owner cannot come: the target's garbage collector would remove them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// The target refused the owner.
    Refused,
    /// The owner is one of the objects that do not move.
    Stays,
    /// The target does not serve the owner's kind: its collector looks for the owner as soon as it does.
    Unserved,
}

/// The objects that were brought.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// By the id of the kind: uids by place.
    places: BTreeMap<String, HashMap<String, String>>,
    /// Uids of objects that are certainly at the target.
    present: HashSet<String>,
    refusals: BTreeMap<Place, Refusal>,
    /// By the uid of an owner that is not at the target.
    barred: HashMap<String, Barred>,
    /// By the uid of an object: the uids of its owners. Objects without owners are not in it.
    owners: HashMap<String, Vec<String>>,
    /// By the uid of an object: owners that it does not name any more, though the target may still have a state that does.
    former: HashMap<String, BTreeSet<String>>,
    /// By the uid of an owner: the objects that name it.
    dependents: HashMap<String, HashSet<Place>>,
    /// Kinds whose list was copied to its end, and the version of that list or of the last change after it.
    versions: BTreeMap<String, String>,
    /// Kinds that are copied but for objects whose owners come later, and the versions of their lists.
    pending: BTreeMap<String, String>,
    /// Kinds whose definition was removed: what came over their watches since is gone with it.
    undeclared: HashSet<String>,
    /// Namespaces that are being deleted at the source.
    ending: HashSet<String>,
    /// Uids of owners that the source does not have either.
    absent: HashSet<String>,
    /// By the uid of an object that is being removed at the target: the number of its removal.
    going: HashMap<String, u64>,
    /// Removals that were begun.
    removals: u64,
    /// Changes were followed since everything was listed.
    is_followed: bool,
}

impl Copied {
    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.places.values().map(HashMap::len).sum()
    }

    /// Notes that the object at `place` is about to be sent.
    pub(super) fn expect(&mut self, (kind, place): (&str, &str), uid: &str, owners: &[String]) {
        let places = self.places.entry(kind.to_owned()).or_default();
        let before = places.insert(place.to_owned(), uid.to_owned());
        if let Some(before) = before.filter(|before| before != uid) {
            self.present.remove(&before);
            self.release((kind, place), &before);
        }
        if self.has_owners(uid, owners) {
            return;
        }
        if let Some(named) = self.owners.remove(uid) {
            self.former.entry(uid.to_owned()).or_default().extend(named);
        }
        for owner in owners {
            let at = (kind.to_owned(), place.to_owned());
            self.dependents.entry(owner.clone()).or_default().insert(at);
        }
        if !owners.is_empty() {
            self.owners.insert(uid.to_owned(), owners.to_vec());
        }
    }

    /// Whether the object of `uid` is known to name these owners.
    pub(super) fn has_owners(&self, uid: &str, owners: &[String]) -> bool {
        self.owners.get(uid).map_or(&[][..], Vec::as_slice) == owners
    }

    /// Takes the object at `place` off the lists of its owners.
    fn release(&mut self, at: (&str, &str), uid: &str) {
        let named = self.owners.remove(uid).unwrap_or_default();
        let former = self.former.remove(uid).unwrap_or_default();
        named.into_iter().chain(former).for_each(|owner| self.unlink(at, &owner));
    }

    fn unlink(&mut self, (kind, place): (&str, &str), owner: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(&(kind.to_owned(), place.to_owned()));
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Notes that the target has the state of the object that names these owners; returns whether it had refused the object.
    pub(super) fn note_arrived(&mut self, at: (&str, &str), uid: &str, owners: &[String]) -> bool {
        // Where a later state was noted meanwhile, its arrival ends what the ones before it named.
        if self.has_owners(uid, owners) {
            let mut former = self.former.remove(uid).unwrap_or_default();
            for owner in owners {
                former.remove(owner);
            }
            former.iter().for_each(|owner| self.unlink(at, owner));
        }
        self.note_present(at, uid)
    }

    /// Notes that the removal of the object of `uid` begins, which the source has no more.
    pub(super) fn begin_removal(&mut self, uid: &str) {
        self.removals += 1;
        self.going.insert(uid.to_owned(), self.removals);
    }

    /// Notes that the removal of the object of `uid` has ended, or was given up.
    pub(super) fn end_removal(&mut self, uid: &str) {
        self.going.remove(uid);
    }

    /// The number of removals that were begun.
    pub(super) fn removals(&self) -> u64 {
        self.removals
    }

    /// Whether the removal of one of `owners` goes on, and was begun after `removals` ones.
    pub(super) fn are_going_since(&self, owners: &[Owner], removals: u64) -> bool {
        owners.iter().any(|owner| self.going.get(&owner.uid).is_some_and(|number| *number > removals))
    }

    /// Notes that the target has the object; returns whether it had refused it.
    pub(super) fn note_present(&mut self, (kind, place): (&str, &str), uid: &str) -> bool {
        self.present.insert(uid.to_owned());
        self.barred.remove(uid);
        self.refusals.remove(&(kind.to_owned(), place.to_owned())).is_some()
    }

    /// Notes that the target refused the object, and returns what it has of it.
    pub(super) fn note_refused(&mut self, at: (&str, &str), uid: &str, reason: String) -> Left {
        let left = if self.present.contains(uid) { Left::Former } else { Left::Nothing };
        self.set_refusal(at, Refusal { uid: uid.to_owned(), reason, left });
        left
    }

    /// Notes that the object at `place` comes later, as if it were refused but for its dependents, and returns what the target has of it.
    pub(super) fn note_owed(&mut self, (kind, place): (&str, &str), uid: &str, reason: &str) -> Left {
        let left = if self.present.contains(uid) { Left::Former } else { Left::Nothing };
        let refusal = Refusal { uid: uid.to_owned(), reason: reason.to_owned(), left };
        self.refusals.insert((kind.to_owned(), place.to_owned()), refusal);
        left
    }

    /// Takes in a refusal of an earlier run.
    pub(super) fn set_refusal(&mut self, (kind, place): (&str, &str), refusal: Refusal) {
        match refusal.left {
            Left::Nothing => drop(self.barred.insert(refusal.uid.clone(), Barred::Refused)),
            Left::Former => drop(self.present.insert(refusal.uid.clone())),
        }
        self.refusals.insert((kind.to_owned(), place.to_owned()), refusal);
    }

    pub(super) fn refusals(&self) -> &BTreeMap<Place, Refusal> {
        &self.refusals
    }

    /// The places of the objects of `kind` that were refused.
    pub(super) fn refused_of(&self, kind: &str) -> Vec<String> {
        let from = (kind.to_owned(), String::new());
        let of_kind = self.refusals.range(from..).take_while(|((of, _), _)| of == kind);
        of_kind.map(|((_, place), _)| place.clone()).collect()
    }

    /// Notes that the object at `place` is gone, and with a definition the objects of its kind.
    pub(super) fn remove(&mut self, (kind, place): (&str, &str)) {
        self.refusals.remove(&(kind.to_owned(), place.to_owned()));
        let uid = self.places.get_mut(kind).and_then(|places| places.remove(place));
        if let Some(uid) = uid {
            self.present.remove(&uid);
            self.barred.remove(&uid);
            self.release((kind, place), &uid);
        }
        if is_definitions_id(kind) {
            for object in self.places_of(place) {
                self.remove((place, &object));
            }
            for object in self.refused_of(place) {
                self.refusals.remove(&(place.to_owned(), object));
            }
            self.places.remove(place);
            self.versions.remove(place);
            self.undeclared.insert(place.to_owned());
        }
    }

    /// The uid of the object that was brought to `place`.
    pub(super) fn uid_at(&self, (kind, place): (&str, &str)) -> Option<String> {
        self.places.get(kind)?.get(place).cloned()
    }

    /// Whether the object that was brought to `place` is certainly at the target.
    pub(super) fn is_present_at(&self, at: (&str, &str)) -> bool {
        self.uid_at(at).is_some_and(|uid| self.present.contains(&uid))
    }

    /// Whether the object of `uid` was brought to `place`.
    pub(super) fn has_at(&self, at: (&str, &str), uid: &str) -> bool {
        self.uid_at(at).is_some_and(|brought| brought == uid)
    }

    /// Whether another object than that of `uid` was brought to `place`.
    pub(super) fn has_other_at(&self, (kind, place): (&str, &str), uid: &str) -> bool {
        self.places.get(kind).and_then(|places| places.get(place)).is_some_and(|before| before != uid)
    }

    /// The places of `kind`.
    pub(super) fn places_of(&self, kind: &str) -> Vec<String> {
        self.places.get(kind).into_iter().flat_map(HashMap::keys).cloned().collect()
    }

    /// The places of `kind`, of refused objects too, that `listed` lacks.
    pub(super) fn missing_in(&self, kind: &str, listed: &HashSet<String>) -> Vec<String> {
        let is_missing = |place: &&String| !listed.contains(*place);
        let places = self.places.get(kind).into_iter().flat_map(HashMap::keys);
        let places: Vec<String> = places.filter(is_missing).cloned().collect();
        let mut refused = self.refused_of(kind);
        refused.retain(|place| is_missing(&place) && self.uid_at((kind, place)).is_none());
        [places, refused].concat()
    }

    /// The objects that name `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether each of `owners` is at the target, and stays there.
    pub(super) fn are_present(&self, owners: &[Owner]) -> bool {
        owners.iter().all(|owner| self.stays(&owner.uid))
    }

    fn stays(&self, uid: &str) -> bool {
        self.present.contains(uid) && !self.going.contains_key(uid)
    }

    /// Whether each of `owners` is at the target, or the source does not have it either.
    pub(super) fn are_settled(&self, owners: &[Owner]) -> bool {
        owners.iter().all(|owner| self.stays(&owner.uid) || self.absent.contains(&owner.uid))
    }

    /// Those of `owners` of which it is not known whether the source has them.
    pub(super) fn unknown<'o>(&self, owners: &'o [Owner]) -> impl Iterator<Item = &'o Owner> {
        let is_known = |uid: &str| {
            self.present.contains(uid) || self.absent.contains(uid) || self.barred.contains_key(uid)
        };
        owners.iter().filter(move |owner| !is_known(&owner.uid))
    }

    /// Why the object of `owners` cannot come.
    pub(super) fn barrier(&self, owners: &[Owner]) -> Option<Barred> {
        owners.iter().find_map(|owner| self.barred.get(&owner.uid).copied())
    }

    /// Notes that the owner of this uid is one of the objects that do not move.
    pub(super) fn note_staying(&mut self, uid: &str) {
        self.barred.insert(uid.to_owned(), Barred::Stays);
    }

    /// Notes that the target does not serve the kind of the owner of this uid.
    pub(super) fn note_unserved(&mut self, uid: &str) {
        self.barred.insert(uid.to_owned(), Barred::Unserved);
    }

    /// Notes that the source does not have the owner of this uid.
    pub(super) fn note_absent(&mut self, uid: &str) {
        self.absent.insert(uid.to_owned());
    }

    pub(super) fn is_absent(&self, uid: &str) -> bool {
        self.absent.contains(uid)
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
        self.undeclared.remove(kind);
    }

    /// Whether the definition of `kind` was removed since it was listed.
    pub(super) fn is_undeclared(&self, kind: &str) -> bool {
        self.undeclared.contains(kind)
    }

    /// Notes that changes are followed: versions of kinds are those of watches from now on.
    pub(super) fn note_followed(&mut self) {
        self.is_followed = true;
    }

    /// Whether changes were followed since everything was listed.
    pub(super) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Has every kind listed again, and everything about the source found out anew.
    pub(super) fn forget_versions(&mut self) {
        self.is_followed = false;
        self.versions.clear();
        self.pending.clear();
        self.undeclared.clear();
        self.ending.clear();
        self.absent.clear();
        self.going.clear();
        self.barred.retain(|_, barred| *barred == Barred::Refused);
    }

    pub(super) fn set_pending(&mut self, kind: &str, version: &str) {
        self.pending.insert(kind.to_owned(), version.to_owned());
    }

    /// The version of the list of one kind that is copied but for objects that wait.
    pub(super) fn take_pending_of(&mut self, kind: &str) -> Option<(String, String)> {
        self.pending.remove_entry(kind)
    }

    pub(super) fn take_pending(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.pending)
    }

    /// Whether `namespace` is certainly at the target; true for objects of `kind` that are in none.
    pub(super) fn has_home(&self, kind: &Kind, namespace: &str) -> bool {
        !kind.namespaced || namespace.is_empty() || self.is_present_at(("namespaces", namespace))
    }

    pub(super) fn note_ending(&mut self, namespace: &str) {
        self.ending.insert(namespace.to_owned());
    }

    /// Notes that the namespace of this name is not being deleted: it is gone, or another one has the name.
    pub(super) fn note_lasting(&mut self, namespace: &str) {
        self.ending.remove(namespace);
    }

    pub(super) fn is_ending(&self, namespace: &str) -> bool {
        self.ending.contains(namespace)
    }

    /// Notes that `kind` was copied to its end after the objects at `places` were begun: they are at the target, those excepted that it
    /// refused.
    pub(super) fn settle(&mut self, kind: &str, places: &HashSet<String>) {
        let Some(of_kind) = self.places.get(kind) else { return };
        let uids = places.iter().filter_map(|place| of_kind.get(place));
        self.present.extend(uids.filter(|uid| !self.barred.contains_key(*uid)).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

    fn owners(uids: &[&str]) -> Vec<Owner> {
        uids.iter().map(|uid| Owner { uid: (*uid).to_owned(), ..Owner::default() }).collect()
    }

    fn uids(uids: &[&str]) -> Vec<String> {
        uids.iter().map(|uid| (*uid).to_owned()).collect()
    }

    #[test]
    fn owners_count_once_they_are_certainly_there() {
        let mut copied = Copied::default();
        copied.expect(("a", "n/x"), "u-x", &[]);
        let of_x = owners(&["u-x"]);
        assert!(!copied.are_present(&of_x), "it may have been refused");
        copied.settle("a", &HashSet::from(["n/y".to_owned()]));
        assert!(!copied.are_present(&of_x), "it was begun after its kind was copied");
        copied.settle("a", &HashSet::from(["n/x".to_owned()]));
        assert!(copied.are_present(&of_x));
        assert_eq!(copied.missing_in("a", &HashSet::from(["n/z".to_owned()])), ["n/x"]);
        copied.remove(("a", "n/x"));
        assert!(!copied.are_present(&of_x) && copied.len() == 0);
    }

    #[test]
    fn a_dependent_stands_once_below_each_owner_that_it_names_now() {
        let mut copied = Copied::default();
        for _ in 0..3 {
            copied.expect(("b", "n/y"), "u-y", &uids(&["u-x"]));
            copied.expect(("b", "n/z"), "u-z", &uids(&["u-x"]));
        }
        assert_eq!(copied.dependents("u-x").len(), 2);
        copied.expect(("b", "n/z"), "u-z", &uids(&["u-w"]));
        assert_eq!(copied.dependents("u-x").len(), 2, "the target may still have it so");
        copied.note_arrived(("b", "n/z"), "u-z", &uids(&["u-x"]));
        assert_eq!(copied.dependents("u-x").len(), 2, "an earlier state has arrived");
        copied.note_arrived(("b", "n/z"), "u-z", &uids(&["u-w"]));
        assert_eq!(copied.dependents("u-x"), [("b".to_owned(), "n/y".to_owned())]);
        assert_eq!(copied.dependents("u-w").len(), 1);
        copied.expect(("b", "n/z"), "u-z", &[]);
        copied.expect(("b", "n/y"), "u-other", &[]);
        copied.remove(("b", "n/z"));
        assert!(copied.dependents.is_empty() && copied.owners.is_empty() && copied.former.is_empty());
    }

    #[test]
    fn an_owner_that_is_being_removed_is_nothing_to_hang_on() {
        let mut copied = Copied::default();
        copied.expect(("a", "n/x"), "u-x", &[]);
        copied.note_present(("a", "n/x"), "u-x");
        let (of_x, before) = (owners(&["u-x"]), copied.removals());
        assert!(copied.are_present(&of_x) && !copied.are_going_since(&of_x, before));
        copied.begin_removal("u-x");
        assert!(!copied.are_present(&of_x) && !copied.are_settled(&of_x));
        assert!(copied.are_going_since(&of_x, before) && !copied.are_going_since(&of_x, copied.removals()));
        copied.end_removal("u-x");
        assert!(copied.are_present(&of_x), "the target has refused it");
    }

    #[test]
    fn a_refused_change_leaves_the_object_in_the_books_and_a_success_ends_the_refusal() {
        let mut copied = Copied::default();
        copied.expect(("a", "n/x"), "u-x", &[]);
        assert_eq!(copied.note_refused(("a", "n/x"), "u-x", "no".to_owned()), Left::Nothing);
        assert_eq!(copied.barrier(&owners(&["u-x"])), Some(Barred::Refused));
        assert_eq!(copied.refused_of("a"), ["n/x"]);
        assert!(copied.note_present(("a", "n/x"), "u-x"));
        assert!(copied.barrier(&owners(&["u-x"])).is_none() && copied.refusals().is_empty());
        assert_eq!(copied.note_refused(("a", "n/x"), "u-x", "no".to_owned()), Left::Former);
        assert!(copied.are_present(&owners(&["u-x"])), "its former state is there");
        assert_eq!(
            copied.missing_in("a", &HashSet::new()),
            ["n/x"],
            "it is removed when the source lacks it"
        );
    }

    #[test]
    fn the_objects_of_a_definition_go_with_it() {
        let mut copied = Copied::default();
        copied.expect((DEFINITIONS, "widgets.example.com"), "u-d", &[]);
        copied.expect(("widgets.example.com", "n/x"), "u-x", &uids(&["u-o"]));
        copied.note_refused(("widgets.example.com", "n/y"), "u-y", "no".to_owned());
        copied.set_version("widgets.example.com", "7");
        copied.remove((DEFINITIONS, "widgets.example.com"));
        assert!(copied.len() == 0 && copied.refusals().is_empty() && copied.dependents.is_empty());
        assert_eq!(copied.version("widgets.example.com"), None);
    }
}
