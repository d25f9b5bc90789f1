//! Parts of a schema, to check values against them one by one.
//!
//! Owns the way from the rules of a whole schema to those of a node in it, so that a definition's defaults are checked without
//! compiling the schema again for each of them.

use orch_proto::Brand;
use orch_schema::value::Value;

use super::CompileError;
use super::constraint::{Constraints, Node};
use super::embedded;
use super::source::Source;
use crate::validate::{FieldErrors, Path};

/// A node of a compiled schema.
#[derive(Clone, Copy, Debug)]
pub struct Part<'c>(&'c Node);

impl Constraints {
    /// The rules of `schema` alone: without a kind, whose `apiVersion` and `kind` would be demanded.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn of_schema(brand: &'static Brand, schema: &Value) -> Result<Constraints, CompileError> {
        Constraints::compile(Source::new(brand, schema), None)
    }

    /// The root of the schema.
    pub fn whole(&self) -> Part<'_> {
        Part(&self.root)
    }
}

impl<'c> Part<'c> {
    /// The node of the property `name`.
    pub fn property(self, name: &str) -> Option<Part<'c>> {
        self.0.property(name).map(Part)
    }

    /// The node of the items.
    pub fn items(self) -> Option<Part<'c>> {
        self.0.items.as_deref().map(Part)
    }

    /// The errors of `value`, at `path`. List types and embedded objects are not looked at.
    pub fn validate(self, value: &Value, path: &Path) -> FieldErrors {
        super::check::of_part(self.0, value, path)
    }

    /// The errors of the embedded objects in `value`, at `path`, which need not have been decoded; `is_object`: it is a whole object
    /// itself.
    pub fn validate_embedded(self, value: &Value, path: &Path, is_object: bool) -> FieldErrors {
        embedded::check_part(self.0, value, path, is_object)
    }

    /// The errors of kind, version and metadata of `object`, which need not have been decoded.
    pub fn validate_object(object: &Value) -> FieldErrors {
        embedded::check_object(object)
    }
}
