//! Revisions and object keys.
//!
//! Owns the one constructor of a key, so that no other code validates names again. A key never holds the bytes that
//! separate its parts (Invariant: no `/` inside a namespace or a name).

use std::fmt;
use std::sync::Arc;

/// Index of a log entry, which is also the resourceVersion of the objects that the entry wrote. No object has 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies an object: its resource, and its path within the resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    resource: Arc<str>,
    path: Arc<str>,
}

/// A namespace or name that cannot be part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} cannot be part of a key: it is empty, too long, a relative path, or holds '/' or NUL")]
pub struct KeyError {
    /// The namespace or name.
    pub part: String,
}

/// Longest namespace or name in bytes: the reference accepts object names of up to 253.
pub const PART_BYTES_MAX: usize = 253;

impl Key {
    /// The key of `name`, in `namespace` unless that is empty (cluster-scoped).
    ///
    /// # Errors
    /// A part that would reach into another key range: empty name, `.`, `..`, `/`, NUL, or over [`PART_BYTES_MAX`].
    pub fn new(resource: &Arc<str>, namespace: &str, name: &str) -> Result<Self, KeyError> {
        check_part(name)?;
        let path = if namespace.is_empty() {
            Arc::from(name)
        } else {
            check_part(namespace)?;
            Arc::from(format!("{namespace}/{name}"))
        };
        Ok(Key { resource: resource.clone(), path })
    }

    /// A key decoded from a log entry or a disk, validated by [`Key::new`] before it was written.
    pub(crate) fn from_stored(resource: Arc<str>, path: Arc<str>) -> Self {
        Key { resource, path }
    }

    /// The resource's name in the store: `configmaps`, `roles.rbac.authorization`.
    pub fn resource(&self) -> &Arc<str> {
        &self.resource
    }

    /// `namespace/name`, or `name` for cluster-scoped resources. Lists are sorted by the bytes of the path.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// The namespace; empty for cluster-scoped resources.
    pub fn namespace(&self) -> &str {
        ObjectPath::of(&self.path).namespace()
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        ObjectPath::of(&self.path).name()
    }
}

/// The parts of a path as keys have it: `namespace/name`, or `name` for cluster scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPath<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> ObjectPath<'a> {
    /// The parts of `path`.
    pub fn of(path: &'a str) -> Self {
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        ObjectPath { namespace, name }
    }

    /// The namespace; empty for cluster scope.
    pub fn namespace(self) -> &'a str {
        self.namespace
    }

    /// The object's name.
    pub fn name(self) -> &'a str {
        self.name
    }

    /// Namespace and name.
    pub fn parts(self) -> (&'a str, &'a str) {
        (self.namespace, self.name)
    }
}

fn check_part(part: &str) -> Result<(), KeyError> {
    let escapes = part.is_empty() || part == "." || part == ".." || part.contains(['/', '\0']);
    if escapes || part.len() > PART_BYTES_MAX { Err(KeyError { part: part.to_owned() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_would_widen_a_key_range_are_refused() {
        let pods: Arc<str> = Arc::from("pods");
        for bad in ["", ".", "..", "a/b", "a\0b", &"x".repeat(254)] {
            assert!(Key::new(&pods, "ns", bad).is_err(), "name {bad:?}");
            if !bad.is_empty() {
                assert!(Key::new(&pods, bad, "n").is_err(), "namespace {bad:?}");
            }
        }
        let key = Key::new(&pods, "ns", "with:colon and space").unwrap();
        assert_eq!((key.namespace(), key.name()), ("ns", "with:colon and space"));
        assert_eq!(Key::new(&pods, "", "n").unwrap().namespace(), "");
        assert_eq!((ObjectPath::of("ns/n").parts(), ObjectPath::of("n").parts()), (("ns", "n"), ("", "n")));
    }
}
