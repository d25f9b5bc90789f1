//! The edges from owners to dependents.
//!
//! Owns a table from the digest of an owner's uid to the objects that name it. A tenant chooses how many owners an object
//! names, and under which uids; most owners have one dependent, which takes 56 bytes and a byte of the table's own, between
//! 65 and 130 with its free places; the shortest owner reference takes 55 in the store. Each further dependent takes 32.
//! It reads no object.
//!
//! Invariant: a list in [`Dependents::Few`] has two objects or more, a set in [`Dependents::Many`] more than a list may have.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::graph::ObjectRef;
use crate::follow::{Digest, shrink};

/// Objects of a list, which takes less than a set: a set's smallest part has room for eleven.
const FEW_MAX: usize = 32;

/// The objects that name an owner.
#[derive(Debug)]
enum Dependents {
    One(ObjectRef),
    /// In order.
    Few(Vec<ObjectRef>),
    Many(BTreeSet<ObjectRef>),
}

/// Dependents by owners.
#[derive(Debug, Default)]
pub(super) struct Edges(HashMap<Digest, Dependents>);

impl Edges {
    /// The objects that name `uid` as an owner, in order.
    pub(super) fn of(&self, uid: &str) -> impl Iterator<Item = &ObjectRef> {
        let (listed, many) = match self.0.get(&Digest::of(uid)) {
            None => (&[][..], None),
            Some(Dependents::One(object)) => (std::slice::from_ref(object), None),
            Some(Dependents::Few(objects)) => (&objects[..], None),
            Some(Dependents::Many(objects)) => (&[][..], Some(objects)),
        };
        listed.iter().chain(many.into_iter().flatten())
    }

    /// The number of objects that name `uid`.
    pub(super) fn count(&self, uid: &str) -> usize {
        match self.0.get(&Digest::of(uid)) {
            None => 0,
            Some(Dependents::One(_)) => 1,
            Some(Dependents::Few(objects)) => objects.len(),
            Some(Dependents::Many(objects)) => objects.len(),
        }
    }

    pub(super) fn is_owner(&self, uid: &str) -> bool {
        self.0.contains_key(&Digest::of(uid))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the edge, if it is not here yet.
    pub(super) fn connect(&mut self, uid: &str, dependent: &ObjectRef) {
        let Some(held) = self.0.get_mut(&Digest::of(uid)) else {
            self.0.insert(Digest::of(uid), Dependents::One(dependent.clone()));
            return;
        };
        match held {
            Dependents::One(known) if known == dependent => {}
            Dependents::One(known) => {
                let mut both = vec![known.clone(), dependent.clone()];
                both.sort_unstable();
                *held = Dependents::Few(both);
            }
            Dependents::Few(objects) => match objects.binary_search(dependent) {
                Err(_) if objects.len() == FEW_MAX => {
                    let all = std::mem::take(objects).into_iter().chain([dependent.clone()]);
                    *held = Dependents::Many(all.collect());
                }
                Err(at) => {
                    objects.reserve_exact(1);
                    objects.insert(at, dependent.clone());
                }
                Ok(_) => {}
            },
            Dependents::Many(objects) => {
                objects.insert(dependent.clone());
            }
        }
    }

    /// Removes the edge, if it is here.
    pub(super) fn disconnect(&mut self, uid: &str, dependent: &ObjectRef) {
        let digest = Digest::of(uid);
        match self.0.get_mut(&digest) {
            Some(Dependents::One(known)) if known == dependent => {
                self.0.remove(&digest);
                shrink(&mut self.0);
            }
            Some(Dependents::Few(objects)) => {
                if let Ok(at) = objects.binary_search(dependent) {
                    objects.remove(at);
                    objects.shrink_to_fit();
                }
                if let [left] = &objects[..] {
                    let left = left.clone();
                    self.0.insert(digest, Dependents::One(left));
                }
            }
            Some(Dependents::Many(objects)) => {
                objects.remove(dependent);
                if objects.len() == FEW_MAX {
                    let left = std::mem::take(objects).into_iter().collect();
                    self.0.insert(digest, Dependents::Few(left));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str) -> ObjectRef {
        ObjectRef { storage: "pods".into(), path: path.into() }
    }

    fn paths(edges: &Edges, uid: &str) -> Vec<String> {
        edges.of(uid).map(|object| object.path.to_string()).collect()
    }

    #[test]
    fn an_owner_has_no_one_or_many_dependents() {
        let mut edges = Edges::default();
        for (path, held) in [("b", &["b"][..]), ("b", &["b"]), ("c", &["b", "c"]), ("a", &["a", "b", "c"])] {
            edges.connect("u", &object(path));
            assert_eq!(paths(&edges, "u"), held);
            assert_eq!(edges.count("u"), held.len());
        }
        edges.connect("v", &object("a"));
        for (path, left) in
            [("d", &["a", "b", "c"][..]), ("b", &["a", "c"]), ("a", &["c"]), ("a", &["c"]), ("c", &[])]
        {
            edges.disconnect("u", &object(path));
            assert_eq!(paths(&edges, "u"), left);
        }
        assert!(!edges.is_owner("u") && edges.is_owner("v"));
    }

    #[test]
    fn lists_and_sets_turn_into_one_another() {
        let (mut edges, most) = (Edges::default(), 2 * FEW_MAX);
        let all: Vec<String> = (0..most).map(|at| format!("{at:03}")).collect();
        all.iter().rev().for_each(|path| edges.connect("u", &object(path)));
        assert_eq!(paths(&edges, "u"), all);
        for (at, path) in all.iter().enumerate() {
            edges.disconnect("u", &object(path));
            assert_eq!(paths(&edges, "u"), all[at + 1..]);
            assert_eq!(edges.count("u"), most - at - 1);
        }
        assert!(edges.is_empty());
    }

    /// Before, an owner with one dependent took a node of a tree: seven times the bytes of the reference.
    #[test]
    fn owners_hold_about_the_bytes_of_the_references_to_them() {
        let stored = r#"{"apiVersion":"v1","kind":"A","name":"a","uid":"1234"},"#.len();
        let (mut edges, dependent) = (Edges::default(), object("a/b"));
        // The most places are free right after the table has grown.
        for at in 0..115_000 {
            edges.connect(&at.to_string(), &dependent);
        }
        let held = edges.0.allocation_size() / 115_000;
        assert!(held * 10 <= stored * 24, "{held} of {stored}");
        for at in 0..115_000 {
            edges.disconnect(&at.to_string(), &dependent);
        }
        assert!(edges.0.allocation_size() < 200_000, "room is given back");
    }
}
