//! Metadata rules that the kinds repeat, as the reference does.
//!
//! The pipeline checks the metadata of every write once. Most built-in kinds check it again with their own rules on
//! update, and a Status lists every cause, so the repetition shows. Owns also the start and the increase of
//! `metadata.generation`, and which fields a sub-resource may write.

use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Context, NameRule};
use crate::validate::tree::{Tree, carry, child_mut, is_unchanged, set};
use crate::validate::{
    FieldErrors, Path, validate_finalizer_domains, validate_object_meta, validate_object_meta_update,
};

/// The metadata rules of built-in kinds for a new object, beyond the rules of every kind.
pub(super) fn on_create(context: &Context<'_>, new: &Value) -> FieldErrors {
    validate_finalizer_domains(new.at("metadata"), context.brand, &Path::new("metadata"))
}

/// The metadata rules of an update, repeated by the kind.
pub(super) fn on_update(context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("metadata");
    let mut errors = validate_object_meta_update(new.at("metadata"), old.at("metadata"), &path);
    errors.extend(validate_finalizer_domains(new.at("metadata"), context.brand, &path));
    errors
}

/// The metadata rules of a new object, repeated by kinds that check the whole object again on update.
pub(super) fn whole(context: &Context<'_>, new: &Value, namespaced: bool, rule: NameRule) -> FieldErrors {
    let path = Path::new("metadata");
    let mut errors = validate_object_meta(new.at("metadata"), namespaced, rule, &path);
    errors.extend(on_create(context, new));
    errors
}

/// Sets the generation of a new object to 1.
pub(super) fn start_generation(new: &mut Value) {
    set(child_mut(new, "metadata"), "generation", 1);
}

/// Whether the object is new, or an update changes what it asks for. Warnings about what it asks for are given only then.
pub(super) fn is_new_generation(old: Option<&Value>, new: &Value) -> bool {
    let generation = |object: &Value| object.at("metadata").int("generation").unwrap_or(0);
    old.is_none_or(|old| generation(old) != generation(new))
}

/// Raises the generation when one of `fields` has another meaning than before.
pub(super) fn raise_generation(old: &Value, new: &mut Value, fields: &[&str]) {
    // few: the fields that the kind names.
    if fields.iter().any(|field| !is_unchanged(old.at(field), new.at(field))) {
        next_generation(old, new);
    }
}

/// Sets the generation to the old one plus 1.
pub(super) fn next_generation(old: &Value, new: &mut Value) {
    let before = old.at("metadata").int("generation").unwrap_or(0);
    set(child_mut(new, "metadata"), "generation", before.saturating_add(1));
}

/// A write of the object keeps the old status; a write of `status` keeps the old fields `others`.
pub(super) fn separate_status(context: &Context<'_>, old: &Value, new: &mut Value, others: &[&str]) {
    if context.action == Action::Status {
        for field in others {
            carry(old, new, field);
        }
    } else {
        carry(old, new, "status");
    }
}

/// Prepares a new object of a kind whose controller reports in `status`: the status is empty, the generation 1.
pub(super) fn start_spec_and_status(new: &mut Value) {
    set(new, "status", json!({}));
    start_generation(new);
}

/// Prepares an update of a kind whose controller reports in `status`: `status` changes on the sub-resource only and
/// `spec` on the object only, which raises the generation.
pub(super) fn update_spec_or_status(context: &Context<'_>, old: &Value, new: &mut Value) {
    separate_status(context, old, new, &["spec"]);
    if context.action == Action::Object {
        raise_generation(old, new, &["spec"]);
    }
}

/// Keeps the fields of the metadata that clients set: sub-resources that change a part of the spec leave them alone.
pub(super) fn keep_client_metadata(old: &Value, new: &mut Value) {
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        keep_metadata(old, new, field);
    }
}

/// Keeps one field of the metadata as it was.
pub(super) fn keep_metadata(old: &Value, new: &mut Value, field: &str) {
    carry(old.at("metadata"), child_mut(new, "metadata"), field);
}
