//! Label and field selectors of a list, a watch or a deletion of a collection, applied to stored objects.
//!
//! Owns the lookup of labels, name and fields in a stored object's index. Matching never reads the object's bytes.

mod room;

use orch_raft::{Labels, Object, ObjectPath};
use orch_rules::selector::{FieldSelector, LabelSelector, LabelSet};

pub(crate) use self::room::SelectorRoom;

/// The labels of a stored object, for label selectors.
pub(crate) struct StoredLabels<'a>(&'a Labels);

impl<'a> StoredLabels<'a> {
    /// The labels of `object`.
    pub(crate) fn of(object: &'a Object) -> Self {
        StoredLabels(&object.index.labels)
    }
}

impl LabelSet for StoredLabels<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn find(&self, key: &str) -> Option<&str> {
        self.0.find(key)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter()
    }
}

/// Label selector and field selector of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector, over the kind's selectable fields.
    pub fields: FieldSelector,
}

impl Selector {
    /// Bytes of memory that both selectors hold.
    pub fn held_bytes(&self) -> usize {
        self.labels.held_bytes() + self.fields.held_bytes()
    }

    /// Whether both selectors match every object.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether the object at `path` (`namespace/name`, or `name`) matches.
    pub fn matches(&self, path: &str, object: &Object) -> bool {
        let (namespace, name) = ObjectPath::of(path).parts();
        let field = |name: &str, place: usize| object.index.fields.value(name, place);
        self.labels.matches(&StoredLabels::of(object)) && self.fields.matches(namespace, name, field)
    }

    /// The name that the field selector requires by equality, if any.
    pub fn only_name(&self) -> Option<&str> {
        self.fields.required_name()
    }

    /// The namespace that the field selector requires by equality, if any.
    pub fn only_namespace(&self) -> Option<&str> {
        self.fields.required_namespace().filter(|namespace| !namespace.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use orch_raft::{Fields, Index, Revision};
    use orch_rules::selector::SelectableFields;
    use orch_schema::Selectable;

    use super::*;

    fn pods(labels: &str, fields: &str) -> Selector {
        let field = |name: &str, synonym: Option<&str>| Selectable {
            name: name.to_owned(),
            withheld: false,
            unindexed: false,
            synonym: synonym.map(str::to_owned),
            coarse: false,
        };
        let declared = &[field("spec.nodeName", Some("spec.host")), field("status.phase", None)];
        let fields =
            FieldSelector::parse(fields, SelectableFields { declared, namespaced: true, is_defined: false });
        Selector { labels: LabelSelector::parse(labels).unwrap(), fields: fields.unwrap() }
    }

    fn object(fields: &[(&str, &str)]) -> Object {
        let labels = Labels::new([("app", "x")]);
        let fields = Fields::new(fields.iter().copied());
        Object {
            revision: Revision(5),
            created: Revision(4),
            written_ms: 0,
            json: bytes::Bytes::new(),
            revision_at: 0,
            index: Index { labels, fields, ..Index::default() },
            protobuf: OnceLock::new(),
        }
    }

    #[test]
    fn fields_are_found_by_name_and_in_older_objects_by_position() {
        let running = pods("", "status.phase=Running");
        assert!(running.matches("n/a", &object(&[("status.phase", "Running"), ("spec.nodeName", "n1")])));
        assert!(running.matches("n/a", &object(&[("", "n1"), ("", "Running")])), "stored before names were");
        assert!(!running.matches("n/a", &object(&[("", "Running"), ("", "n1")])));
        let placed = pods("", "spec.host=n1");
        assert!(placed.matches("n/a", &object(&[("spec.nodeName", "n1")])), "by an older name");
        assert!(!placed.matches("n/a", &object(&[("spec.nodeName", "n2")])));
        let unbound = pods("", "spec.nodeName=");
        assert!(unbound.matches("n/a", &object(&[("status.phase", "Running")])), "empty ones are not stored");
    }

    #[test]
    fn labels_names_and_namespaces_are_those_of_the_object() {
        for (labels, fields, selected) in [
            ("app=x", "metadata.name=a,metadata.namespace=n", true),
            ("app=y", "", false),
            ("", "metadata.name=n", false),
            ("", "metadata.namespace=a", false),
        ] {
            let selected_now = pods(labels, fields).matches("n/a", &object(&[]));
            assert_eq!(selected_now, selected, "{labels} {fields}");
        }
        let selector = pods("", "metadata.name=a,metadata.namespace=");
        assert!(selector.matches("a", &object(&[])), "without a namespace");
        assert_eq!(selector.only_name(), Some("a"));
        assert!(!selector.is_everything() && pods("", "").is_everything());
    }
}
