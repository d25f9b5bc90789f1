//! Types and patch directives of the members of an object, from the type tables.

use orch_schema::excerpt::quoted;
use orch_schema::types::{ObjectType, PatchStrategy, Schema, ValueType, Wire};

use crate::patch::PatchError;

/// The type of a patched object.
#[derive(Clone, Copy)]
pub(super) enum Meta<'s> {
    /// Declared fields.
    Struct(&'s ObjectType),
    /// A map with values of one type.
    Values(&'s ValueType),
    /// Content without a declared type, merged as by a plain merge patch.
    Anything,
}

/// No directives: objects merge, lists are replaced.
static PLAIN: PatchStrategy =
    PatchStrategy { merge: false, replace: false, retain_keys: false, merge_key: None };

impl<'s> Meta<'s> {
    /// The type of the member `key` (of its items, for a list) and its directives.
    pub(super) fn field(
        self,
        schema: &'s Schema,
        key: &str,
    ) -> Result<(Meta<'s>, &'s PatchStrategy), PatchError> {
        match self {
            Meta::Struct(ty) => match ty.field(key) {
                Some(field)
                    if matches!(field.wire, Wire::OrBool(_) | Wire::OrList(_) | Wire::OrStrings(_)) =>
                {
                    Ok((Meta::Anything, field.patch()))
                }
                Some(field) => Ok((Meta::of(schema, &field.value), field.patch())),
                None if ty.preserve_unknown => Ok((Meta::Anything, &PLAIN)),
                None => Err(PatchError::Malformed(format!(
                    "unable to find api field in struct {} for the json field {}",
                    ty.name.rsplit('.').next().unwrap_or_default(),
                    quoted(key)
                ))),
            },
            Meta::Values(value) => Ok((Meta::of(schema, value), &PLAIN)),
            Meta::Anything => Ok((Meta::Anything, &PLAIN)),
        }
    }

    fn of(schema: &'s Schema, ty: &'s ValueType) -> Meta<'s> {
        match ty {
            ValueType::Object(id) => Meta::Struct(schema.get(*id)),
            ValueType::Map { value, .. } => Meta::Values(value),
            ValueType::List { item, .. } => Meta::of(schema, item),
            ValueType::Member(member) => Meta::of(schema, &member.value),
            ValueType::Scalar(_) | ValueType::Untyped => Meta::Anything,
        }
    }
}
