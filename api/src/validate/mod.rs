//! Rules over decoded objects, as pure functions: names, labels, annotations, references, quantities.
//!
//! Owns what several kinds share; a rule of one kind stands in that kind's file under `kinds/`. Nothing here reads a
//! clock, the store or the request.

pub mod field;

pub use field::{FieldError, FieldErrorKind, Path};
