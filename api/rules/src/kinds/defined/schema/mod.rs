//! The schemas of a kind that a definition declares, compiled.
//!
//! Owns what a version's `openAPIV3Schema` becomes: type tables over those of the built-in kinds ([`tables`]), which every codec
//! walks, and the rules for values that no table states ([`Constraints`]). It reads no other part of a definition, and decides
//! nothing about which schemas are allowed: of one that was stored before a rule existed it makes what the reference makes of it.
//!
//! Invariant: the root type of a version has an id that is known before its tables are made ([`root_of`], [`list_of`]).

mod check;
mod constraint;
#[cfg(test)]
mod corpus;
mod embedded;
mod failure;
mod format;
mod head;
mod junctor;
mod list_type;
mod metadata;
mod network;
mod number;
#[cfg(test)]
mod oracle;
mod part;
mod pattern;
mod rules;
mod sameness;
mod sharing;
mod source;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use orch_proto::Brand;
use orch_schema::value::{SmolStr, Value};
use orch_schema::{ObjectType, Schema, TypeId};

pub use self::constraint::Constraints;
pub use self::format::is_known as is_known_format;
pub use self::part::Part;
use self::source::Source;

/// One version of a definition, as far as its schema goes.
#[derive(Clone, Copy, Debug)]
pub struct Input<'d> {
    /// Brand of the cluster, which names the extensions of schemas.
    pub brand: &'static Brand,
    /// API group, with its domain.
    pub group: &'d str,
    /// Name of the version: `v1`.
    pub version: &'d str,
    /// Kind of its objects.
    pub kind: &'d str,
    /// `schema.openAPIV3Schema` of the version; null where it has none: all unknown fields are dropped then.
    pub schema: &'d Value,
    /// `spec.preserveUnknownFields` of the definition, which only those have that were made before version 1 of definitions.
    pub preserve_unknown_fields: bool,
}

/// The compiled schema of one version.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The types of the version over those of the built-in kinds.
    pub schema: Arc<Schema>,
    /// Type of an object: [`root_of`] the base.
    pub root: TypeId,
    /// Type of a list of objects: [`list_of`] the base.
    pub list: TypeId,
    /// The rules for values. Pruning, defaults and list types are in the tables.
    pub constraints: Arc<Constraints>,
}

/// The reason why a schema cannot be compiled. No definition that was accepted has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Schemas are nested deeper than any definition's text may be.
    #[error("the schema is nested deeper than {max}")]
    TooDeep {
        /// The bound.
        max: usize,
    },
    /// The schema has more nodes than the tables of a kind may have.
    #[error("the schema has more than {max} nodes")]
    TooLarge {
        /// The bound.
        max: usize,
    },
}

/// The type of an object of a version that is compiled over `base`: the first behind those of the base.
///
/// # Panics
/// The base has 2^32 types, which no limit allows.
pub fn root_of(base: &Schema) -> TypeId {
    own(base, 0)
}

/// The type of a list of objects of a version that is compiled over `base`: the second behind those of the base.
///
/// # Panics
/// The base has 2^32 types, which no limit allows.
pub fn list_of(base: &Schema) -> TypeId {
    own(base, 1)
}

fn own(base: &Schema, at: usize) -> TypeId {
    TypeId(u32::try_from(base.len() + at).expect("types are fewer than 2^32"))
}

/// Compiles the schema of a version over the types of `base`, the schema of the built-in kinds.
///
/// Takes time and memory in proportion to the schema: a few microseconds and some 300 bytes for each property.
///
/// # Errors
/// [`CompileError`], which [`preserving`] compiles then: it serves what is stored.
pub fn compile(input: &Input<'_>, base: &Arc<Schema>) -> Result<Compiled, CompileError> {
    let source = Source::new(input.brand, input.schema);
    let types = tables::types(input, source, base)?;
    let api_version = format!("{}/{}", input.group, input.version);
    let constraints = Constraints::compile(source, Some((&api_version, input.kind)))?;
    Ok(assembled(types, constraints, base))
}

/// The form of a version whose schema cannot be compiled: every field is kept, and no value is refused.
pub fn preserving(input: &Input<'_>, base: &Arc<Schema>) -> Compiled {
    let input = Input { schema: &Value::Null, preserve_unknown_fields: true, ..*input };
    compile(&input, base).expect("an empty schema is within all bounds")
}

fn assembled(types: Vec<ObjectType>, constraints: Constraints, base: &Arc<Schema>) -> Compiled {
    Compiled {
        schema: Arc::new(Schema::over(base.clone(), types)),
        root: root_of(base),
        list: list_of(base),
        constraints: Arc::new(constraints),
    }
}

/// A text of a schema, in the form of names in values.
fn text(value: &Value) -> SmolStr {
    match value {
        Value::String(text) => text.clone(),
        _ => SmolStr::default(),
    }
}
