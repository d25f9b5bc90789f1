//! Label and field selectors: parsed once per request, matched against the index that is kept beside an object's bytes.
//!
//! Owns the grammar of `labelSelector` and `fieldSelector` and its error texts. It knows no stored object: a caller hands in
//! labels and fields.

mod field;
mod label;
mod label_parser;

pub use field::{FieldSelector, FieldSelectorError, FieldTerm, RequiredValue, SelectableFields};
pub use label::{LabelSelector, LabelSet, Operator, Requirement};
pub use label_parser::LabelSelectorError;
