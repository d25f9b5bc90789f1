//! Label and field selectors: parsed once per request, matched against what is kept parsed beside an object's bytes.
//!
//! Owns the grammar of `labelSelector` and `fieldSelector` and its error texts. Matching never touches the bytes.

mod field;
mod label;
mod label_parser;

pub use field::{FieldSelector, FieldSelectorError, SelectableFields};
pub use label::{LabelSelector, Operator, Requirement};
pub use label_parser::LabelSelectorError;

use orch_raft::Object;

/// Both selectors of a list, watch or deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Over labels.
    pub labels: LabelSelector,
    /// Over the kind's selectable fields.
    pub fields: FieldSelector,
}

impl Selector {
    /// Whether everything matches, so that nothing needs to be looked at.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether the object under `path` (`namespace/name`) is selected.
    pub fn matches(&self, path: &str, object: &Object) -> bool {
        self.labels.matches(object) && self.fields.matches(path, object)
    }

    /// The one name that the field selector allows, if it asks for a name by equality.
    pub fn only_name(&self) -> Option<&str> {
        self.fields.required_name()
    }
}

/// Namespace and name of a storage path.
pub(crate) fn split_path(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or(("", path))
}
