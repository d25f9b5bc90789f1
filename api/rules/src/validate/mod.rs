//! Rules over decoded objects, as pure functions: names, labels, annotations, references.
//!
//! Owns the rules that several kinds share; a rule of one kind stands in that kind's file under `kinds/`. No function
//! reads a clock, the store or the request.

pub mod address;
pub mod conditions;
pub mod distinct;
pub mod errors;
pub mod field;
pub(crate) mod field_path;
pub mod list_options;
pub mod metadata;
pub mod options;
pub mod prefixed_path;
pub mod selector;
pub mod tree;

pub use orch_schema::names;

pub use distinct::Distinct;
pub use errors::FieldErrors;
pub use field::{FieldError, FieldErrorKind, Path};
pub use list_options::{ListOptions, validate_list_options};
pub use metadata::{
    carry_system_fields, validate_finalizer_domains, validate_object_meta, validate_object_meta_update,
};
pub use options::{
    WriteKind, WriteOptions, validate_delete_options, validate_field_manager, validate_patch_options,
    validate_write_options,
};
