//! A digest of all objects, updated with every change, so that reading it costs nothing.
//!
//! Owns a wrapping sum of one 128-bit hash for each object: of its resource, path, revisions, bytes and index. A sum
//! does not depend on the order of the changes, so a state that was applied entry by entry and the same state loaded
//! from a disk or a snapshot have one fingerprint. A removed object is hashed again and subtracted: that is cheaper
//! than a hash kept beside each of a hundred thousand objects. The fingerprint detects accidents, not forgeries: an
//! attacker who can make two members hold different bytes of his choice controls those members already.
//!
//! Invariant: equal on every platform (little-endian integers, lengths before bytes), for ever: members of different
//! builds compare it.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::Collection;
use crate::key::Revision;
use crate::object::Object;

/// The digest of all objects of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    sum: u128,
    objects: u64,
}

/// A hash of the revision of each resource's newest change, resources sorted by name. The fingerprint does not cover
/// removed objects; this hash shows whether a watch has missed a removal.
pub fn digest_of_changes<'a>(changes: impl IntoIterator<Item = (&'a str, Revision)>) -> u128 {
    let mut hash = Xxh3Default::new();
    for (resource, changed) in changes {
        hash.update(&(resource.len() as u64).to_le_bytes());
        hash.update(resource.as_bytes());
        hash.update(&changed.0.to_le_bytes());
    }
    hash.digest128()
}

impl Fingerprint {
    /// The fingerprint of these collections, from their objects alone.
    pub fn of<'a>(collections: impl IntoIterator<Item = (&'a str, &'a Collection)>) -> Self {
        let mut fingerprint = Fingerprint::default();
        for (resource, collection) in collections {
            for (path, object) in collection.range_from("") {
                fingerprint.add(resource, path, object);
            }
        }
        fingerprint
    }

    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// The fingerprint of the objects of both, none of which is in the other.
    #[must_use]
    pub fn join(self, other: Fingerprint) -> Fingerprint {
        Fingerprint {
            sum: self.sum.wrapping_add(other.sum),
            objects: self.objects.wrapping_add(other.objects),
        }
    }

    /// A hash of this fingerprint and of `rest`, the other data that members must agree on.
    pub fn with(&self, rest: &[u8]) -> u128 {
        let mut bytes = Vec::with_capacity(24 + rest.len());
        bytes.extend_from_slice(&self.sum.to_le_bytes());
        bytes.extend_from_slice(&self.objects.to_le_bytes());
        bytes.extend_from_slice(rest);
        xxh3_128(&bytes)
    }

    /// Adds an object.
    pub(crate) fn add(&mut self, resource: &str, path: &str, object: &Object) {
        self.sum = self.sum.wrapping_add(hash(resource, path, object));
        self.objects = self.objects.wrapping_add(1);
    }

    /// Subtracts an object that was added.
    pub(super) fn remove(&mut self, resource: &str, path: &str, object: &Object) {
        self.sum = self.sum.wrapping_sub(hash(resource, path, object));
        self.objects = self.objects.checked_sub(1).expect("an object is counted out that was counted in");
    }
}

/// Hashes every part of an object that its stored form holds.
fn hash(resource: &str, path: &str, object: &Object) -> u128 {
    let mut hash = Xxh3Default::new();
    let index = &object.index;
    let mut numbers = [0; 29];
    numbers[..8].copy_from_slice(&object.revision.0.to_le_bytes());
    numbers[8..16].copy_from_slice(&object.created.0.to_le_bytes());
    numbers[16..24].copy_from_slice(&object.written_ms.to_le_bytes());
    numbers[24..28].copy_from_slice(&object.revision_at.to_le_bytes());
    numbers[28] = u8::from(index.terminating);
    hash.update(&numbers);
    part(&mut hash, resource.as_bytes());
    part(&mut hash, path.as_bytes());
    part(&mut hash, &object.json);
    part(&mut hash, index.uid.as_bytes());
    count(&mut hash, index.labels.len());
    for (key, value) in index.labels.iter() {
        part(&mut hash, key.as_bytes());
        part(&mut hash, value.as_bytes());
    }
    count(&mut hash, index.fields.iter().count());
    for (name, value) in index.fields.iter() {
        part(&mut hash, name.as_bytes());
        part(&mut hash, value.as_bytes());
    }
    count(&mut hash, index.owners.len());
    index.owners.iter().for_each(|owner| part(&mut hash, owner.as_bytes()));
    // Nothing for objects without it: their hashes are those of programs that know no written forms.
    if let Some(form) = &index.written_as {
        part(&mut hash, form.version.as_bytes());
        hash.update(&form.definition.0.to_le_bytes());
    }
    hash.digest128()
}

/// Hashes the length, then the bytes: without the length, the parts "ab", "c" and "a", "bc" would give one hash.
fn part(hash: &mut Xxh3Default, bytes: &[u8]) {
    count(hash, bytes.len());
    hash.update(bytes);
}

fn count(hash: &mut Xxh3Default, count: usize) {
    hash.update(&(count as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use bytes::Bytes;

    use super::*;
    use crate::fields::Fields;
    use crate::key::Revision;
    use crate::labels::Labels;
    use crate::object::{Index, WrittenAs};

    fn object() -> Object {
        Object {
            revision: Revision(9),
            created: Revision(4),
            written_ms: 5,
            json: Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"9\"}}"),
            revision_at: 33,
            index: Index {
                uid: "u".into(),
                labels: Labels::new([("k", "v")]),
                fields: Fields::new([("n", "f")]),
                owners: vec!["o".into()],
                terminating: false,
                written_as: None,
            },
            protobuf: OnceLock::new(),
        }
    }

    fn of(change: impl FnOnce(&mut Object)) -> Fingerprint {
        let mut object = object();
        change(&mut object);
        let mut fingerprint = Fingerprint::default();
        fingerprint.add("things", "ns/a", &object);
        fingerprint
    }

    #[test]
    fn nothing_of_an_object_is_left_out() {
        let plain = of(|_| ());
        let form = |version: &str, definition| {
            let definition = Revision(definition);
            Some(Arc::new(WrittenAs { version: version.into(), definition }))
        };
        let written = [("v1", 7), ("v2", 7), ("v1", 8)]
            .map(|(version, definition)| of(|object| object.index.written_as = form(version, definition)));
        assert!(written.iter().all(|one| *one != plain));
        assert_ne!(written[0], written[1]);
        assert_ne!(written[0], written[2]);
        let changes: [fn(&mut Object); 13] = [
            |object| object.revision = Revision(8),
            |object| object.created = Revision(5),
            |object| object.written_ms = 6,
            |object| object.revision_at = 32,
            |object| object.json = Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"8\"}}"),
            |object| object.index.uid = "w".into(),
            |object| object.index.labels = Labels::new([("l", "v")]),
            |object| object.index.labels = Labels::new([("kv", "")]),
            |object| object.index.fields = Fields::new([("n", "f"), ("m", "")]),
            |object| object.index.fields = Fields::new([("m", "f")]),
            |object| object.index.owners.clear(),
            |object| {
                object.index.owners = vec!["f".into()];
                object.index.fields = Fields::new([("n", "o")]);
            },
            |object| object.index.terminating = true,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert_ne!(of(change), plain, "change {at}");
        }
        let mut elsewhere = Fingerprint::default();
        elsewhere.add("things", "ns/b", &object());
        assert_ne!(elsewhere, plain);
        assert_eq!(of(|_| ()), plain);
    }

    #[test]
    fn every_resource_and_change_counts() {
        let plain = digest_of_changes([("pods", Revision(9)), ("secrets", Revision(300))]);
        for other in [
            &[("pods", Revision(8)), ("secrets", Revision(300))] as &[_],
            &[("pods", Revision(9)), ("secret", Revision(300))],
            &[("pods", Revision(9))],
            &[],
        ] {
            assert_ne!(digest_of_changes(other.iter().copied()), plain, "{other:?}");
        }
    }

    #[test]
    fn amounts_that_are_counted_out_leave_no_trace_in_any_order() {
        let (mut one, mut other) = (Fingerprint::default(), Fingerprint::default());
        one.add("things", "a", &object());
        one.add("things", "b", &object());
        other.add("things", "b", &object());
        other.add("things", "a", &object());
        assert_eq!(one, other);
        one.remove("things", "a", &object());
        one.remove("things", "b", &object());
        assert_eq!(one, Fingerprint::default());
        other.remove("things", "a", &object());
        assert_ne!(other.with(b""), Fingerprint::default().with(b""), "one object is left");
    }

    #[test]
    fn the_hash_is_the_same_for_ever() {
        // Members of different builds compare the hash: to change it, both builds need a way to agree on one.
        assert_eq!(format!("{:032x}", of(|_| ()).with(b"rest")), "cf5814baa421a316cce3c6ee917de331");
        let changes = [("pods", Revision(9)), ("secrets", Revision(300))];
        assert_eq!(format!("{:032x}", digest_of_changes(changes)), "875ea50ed23e1dae6cd3b0b2c2a0ea86");
    }
}
