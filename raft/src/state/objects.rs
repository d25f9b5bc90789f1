//! The objects of one resource at one revision.
//!
//! Owns the map by path, and what is known of all objects without a look at them: their bytes, and how many each namespace
//! has. Cloning shares structure.
//!
//! Invariant: a namespace without objects has no count.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::object::SharedObject;

/// Objects by path (`namespace/name`, or `name`).
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    by_path: OrdMap<Arc<str>, SharedObject>,
    /// Number of objects of each namespace; empty for resources of the whole cluster.
    in_namespaces: OrdMap<Arc<str>, usize>,
    bytes: usize,
}

impl Objects {
    pub(super) fn get(&self, path: &str) -> Option<&SharedObject> {
        self.by_path.get(path)
    }

    pub(super) fn find(&self, path: &str) -> Option<(&Arc<str>, &SharedObject)> {
        self.by_path.get_key_value(path)
    }

    pub(super) fn len(&self) -> usize {
        self.by_path.len()
    }

    /// Number of objects of `namespace`, of all if that is empty.
    pub(super) fn count(&self, namespace: &str) -> usize {
        match namespace {
            "" => self.by_path.len(),
            _ => self.in_namespaces.get(namespace).copied().unwrap_or_default(),
        }
    }

    /// Bytes of all objects' JSON.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The objects between two paths, in order.
    pub(super) fn range<'a>(
        &'a self,
        bounds: (Bound<&str>, Bound<&str>),
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> + use<'a> {
        self.by_path.range::<_, str>(bounds)
    }

    /// Puts `object` under `path`, or takes away what is there; returns that.
    pub(super) fn set(&mut self, path: &Arc<str>, object: Option<SharedObject>) -> Option<SharedObject> {
        let bytes_of = |object: &SharedObject| object.json.len();
        let (is_put, added) = (object.is_some(), object.as_ref().map_or(0, bytes_of));
        let replaced = match object {
            Some(object) => self.by_path.insert(path.clone(), object),
            None => self.by_path.remove(path),
        };
        self.bytes = self.bytes + added - replaced.as_ref().map_or(0, bytes_of);
        match (replaced.is_some(), is_put) {
            (false, true) => self.count_one_more(path),
            (true, false) => self.count_one_less(path),
            _ => {}
        }
        replaced
    }

    fn count_one_more(&mut self, path: &str) {
        let Some((namespace, _)) = path.split_once('/') else { return };
        match self.in_namespaces.get_mut(namespace) {
            Some(count) => *count += 1,
            None => drop(self.in_namespaces.insert(namespace.into(), 1)),
        }
    }

    fn count_one_less(&mut self, path: &str) {
        let Some((namespace, _)) = path.split_once('/') else { return };
        if let Some(count) = self.in_namespaces.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.in_namespaces.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_its_count() {
        let object = || {
            let (revision, index) = (crate::Revision(1), crate::Index::default());
            Arc::new(crate::Object {
                revision,
                created: revision,
                written_ms: 0,
                json: "{}".into(),
                revision_at: 0,
                index,
                protobuf: std::sync::OnceLock::new(),
            })
        };
        let mut objects = Objects::default();
        for (path, is_put, a, ab, all) in [
            ("a/x", true, 1, 0, 1),
            ("a/y", true, 2, 0, 2),
            ("a/y", true, 2, 0, 2),
            ("ab/x", true, 2, 1, 3),
            ("node", true, 2, 1, 4),
            ("a/z", false, 2, 1, 4),
            ("a/x", false, 1, 1, 3),
            ("a/y", false, 0, 1, 2),
        ] {
            objects.set(&path.into(), is_put.then(object));
            assert_eq!([objects.count("a"), objects.count("ab"), objects.count("")], [a, ab, all], "{path}");
            assert_eq!(objects.bytes(), 2 * all);
        }
        assert_eq!(objects.in_namespaces.len(), 1);
    }
}
