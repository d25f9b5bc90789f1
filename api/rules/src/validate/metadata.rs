//! Object metadata: names, namespaces, labels, annotations, owner references, finalizers and immutable fields.
//!
//! Owns the rules that hold for the metadata of every kind, on create and on update. The pipeline runs them once for
//! each write; a kind whose reference rules repeat them on update does so in its strategy, because a Status lists every
//! cause.

use orch_proto::Brand;
use orch_schema::NameRule;
use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::{beginning, quoted};
use orch_schema::value::Value;

use crate::validate::distinct::Distinct;
use crate::validate::errors::{ERRORS_SHOWN_MAX, FieldErrors};
use crate::validate::field::{FieldError, Path};
use crate::validate::tree::{
    Tree, carry, is_unchanged, object_mut, set, shown, shown_items, sorted_entries, unset,
};
use crate::validate::{names, options};

/// Bytes of all annotations of an object, keys and values together.
pub const ANNOTATIONS_SIZE_MAX: usize = 256 * 1024;
/// Longest name of a sub-resource in a managed fields entry, in bytes.
const SUBRESOURCE_LENGTH_MAX: usize = 256;

pub(crate) const IMMUTABLE: &str = "field is immutable";
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Rules for the metadata of a new object. `meta` is the `metadata` field itself, `path` its path.
pub fn validate_object_meta(meta: &Value, namespaced: bool, rule: NameRule, path: &Path) -> FieldErrors {
    let mut errors = validate_name(meta, rule, path);
    let namespace = meta.text("namespace");
    let namespace_path = path.child("namespace");
    if !namespaced {
        if !namespace.is_empty() {
            errors.push(FieldError::forbidden(namespace_path, "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        errors.push(FieldError::required(namespace_path, ""));
    } else {
        errors.extend(invalid_each(&namespace_path, namespace, names::dns1123_label(namespace)));
    }
    errors.extend(validate_generation(meta, path));
    errors.extend(validate_labels(meta.at("labels"), &path.child("labels")));
    errors.extend(validate_annotations(meta.at("annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(meta.items("ownerReferences"), &path.child("ownerReferences")));
    errors.extend(validate_finalizers(meta.items("finalizers"), &path.child("finalizers")));
    errors.extend(validate_managed_fields(meta.items("managedFields"), &path.child("managedFields")));
    errors
}

/// Rules for a change of metadata. Both are `metadata` fields; run after [`carry_system_fields`].
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if old.has("deletionTimestamp") {
        errors.extend(no_new_finalizers(new, old, &path.child("finalizers")));
    }
    if new.text("resourceVersion").is_empty() {
        let version = path.child("resourceVersion");
        errors.push(FieldError::invalid_str(version, "", "must be specified for an update"));
    }
    errors.extend(validate_generation(new, path));
    let (generation, before) = (new.int("generation").unwrap_or(0), old.int("generation").unwrap_or(0));
    if generation < before {
        let detail = "must not be decremented";
        errors.push(FieldError::invalid(path.child("generation"), &generation.to_string(), detail));
    }
    for name in ["name", "namespace", "uid"] {
        if new.text(name) != old.text(name) {
            errors.push(FieldError::invalid_str(path.child(name), new.text(name), IMMUTABLE));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.extend(immutable(new.at(name), old.at(name), path.child(name)));
    }
    errors.extend(validate_labels(new.at("labels"), &path.child("labels")));
    errors.extend(validate_annotations(new.at("annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(new.items("ownerReferences"), &path.child("ownerReferences")));
    errors.extend(validate_managed_fields(new.items("managedFields"), &path.child("managedFields")));
    errors
}

/// Carries system fields into an update, which may omit them and cannot change them: the generation, a missing uid, the
/// creation time, a pending deletion. Both are `metadata` fields.
pub fn carry_system_fields(old: &Value, new: &mut Value) {
    object_mut(new);
    // Clients no longer set `selfLink`, and no object is stored with one.
    unset(new, "selfLink");
    carry(old, new, "generation");
    if new.text("uid").is_empty() {
        carry(old, new, "uid");
    }
    if old.has("creationTimestamp") {
        carry(old, new, "creationTimestamp");
    }
    if old.has("deletionTimestamp") {
        carry(old, new, "deletionTimestamp");
    }
    if !new.has("deletionGracePeriodSeconds") && old.has("deletionGracePeriodSeconds") {
        set(new, "deletionGracePeriodSeconds", old.at("deletionGracePeriodSeconds").clone());
    }
}

/// Checks the finalizers of a built-in kind: a name without a domain must be one that the system itself uses.
pub fn validate_finalizer_domains(meta: &Value, brand: &Brand, path: &Path) -> FieldErrors {
    let finalizers = path.child("finalizers");
    let unknown = |name: &str| !name.contains('/') && !is_standard_finalizer(name, brand);
    let named =
        meta.items("finalizers").iter().numbered().filter_map(|(at, name)| Some((at, name.as_str()?)));
    named
        .filter(|(_, name)| unknown(name))
        .map(|(at, name)| bare_finalizer(finalizers.index(at), name))
        .collect()
}

/// Whether the system itself uses the finalizer.
pub fn is_standard_finalizer(name: &str, brand: &Brand) -> bool {
    // few: three finalizers are standard.
    [brand.namespace_finalizer, ORPHAN, FOREGROUND].contains(&name)
}

/// The error of a finalizer that is neither standard nor qualified.
pub fn bare_finalizer(path: Path, name: &str) -> FieldError {
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    FieldError::invalid_str(path, name, detail)
}

/// Labels: keys are qualified names, values are label values. Errors have the path of the map, not of the entry.
pub fn validate_labels(labels: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, value) in sorted_entries(labels).into_iter().take_while(|_| count_step()) {
        if errors.is_full() {
            break;
        }
        errors.extend(validate_label_name(key, path));
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid_each(path, value, names::label_value(value)));
    }
    errors
}

/// Checks a label key.
pub fn validate_label_name(key: &str, path: &Path) -> FieldErrors {
    invalid_each(path, key, names::qualified_name(key))
}

/// Annotations: keys are qualified names in any case, values are free, the total is bounded.
pub fn validate_annotations(annotations: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut size = 0;
    for (key, value) in sorted_entries(annotations).into_iter().take_while(|_| count_step()) {
        if errors.is_full() {
            break;
        }
        errors.extend(invalid_each(path, key, names::qualified_name(&key.to_lowercase())));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_SIZE_MAX {
        errors.push(FieldError::too_long(path.clone(), ANNOTATIONS_SIZE_MAX));
    }
    errors
}

/// The error of an immutable field where `new` has another meaning than `old`.
pub fn immutable(new: &Value, old: &Value, path: Path) -> Option<FieldError> {
    if is_unchanged(new, old) {
        return None;
    }
    Some(FieldError::invalid(path, &shown(new), IMMUTABLE))
}

/// Checks that a number is not negative; an absent one passes.
pub fn nonnegative(value: Option<i64>, path: Path) -> Option<FieldError> {
    let value = value.filter(|&value| value < 0)?;
    Some(FieldError::invalid(path, &value.to_string(), "must be greater than or equal to 0"))
}

/// One error for each message about a string value.
pub fn invalid_each(path: &Path, value: &str, messages: Vec<String>) -> FieldErrors {
    messages.iter().map(|message| FieldError::invalid_str(path.clone(), value, message)).collect()
}

fn validate_name(meta: &Value, rule: NameRule, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let generate = meta.text("generateName");
    if !generate.is_empty() {
        let messages = names::check_name(rule, generate, true);
        errors.extend(invalid_each(&path.child("generateName"), generate, messages));
    }
    let name = meta.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
    } else {
        errors.extend(invalid_each(&path.child("name"), name, names::check_name(rule, name, false)));
    }
    errors
}

fn validate_generation(meta: &Value, path: &Path) -> Option<FieldError> {
    nonnegative(meta.int("generation"), path.child("generation"))
}

fn validate_owner_references(references: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut first_controller: Option<String> = None;
    for reference in references {
        if errors.is_full() {
            break;
        }
        // The reference reports these errors without the item's index.
        errors.extend(validate_owner_reference(reference, path));
        if !reference.flag("controller") {
            continue;
        }
        let (kind, name) = (reference.text("kind"), reference.text("name"));
        let this = format!("{}/{}", beginning(kind), beginning(name));
        match &first_controller {
            Some(first) => errors.push(FieldError::invalid(
                path.clone(),
                &shown_items(references),
                &format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                     and {this}"
                ),
            )),
            None => first_controller = Some(this),
        }
    }
    errors
}

fn validate_owner_reference(reference: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let version = reference.text("apiVersion");
    if version.is_empty() || version.matches('/').count() > 1 || version.ends_with('/') {
        errors.push(FieldError::invalid_str(path.child("apiVersion"), version, "version must not be empty"));
    }
    for name in ["kind", "name", "uid"] {
        if reference.text(name).is_empty() {
            errors.push(FieldError::invalid_str(path.child(name), "", "must not be empty"));
        }
    }
    if version == "v1" && reference.text("kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid(path.clone(), &shown(reference), detail));
    }
    errors
}

fn validate_finalizers(finalizers: &[Value], path: &Path) -> FieldErrors {
    let named: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
    let mut errors: FieldErrors =
        named.iter().flat_map(|name| invalid_each(path, name, names::qualified_name(name))).collect();
    let has = |name: &str| named.contains(&name); // few: asked twice
    if has(ORPHAN) && has(FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path.clone(), &shown_items(finalizers), &detail));
    }
    errors
}

fn no_new_finalizers(new: &Value, old: &Value, path: &Path) -> Option<FieldError> {
    let before: Distinct<&str> = old.texts("finalizers").into_iter().collect();
    let mut added: Vec<&str> = new.texts("finalizers").into_iter().filter(|name| !before.has(name)).collect();
    if added.is_empty() {
        return None;
    }
    added.sort_unstable();
    added.dedup();
    let listed: Vec<String> = added.into_iter().take(ERRORS_SHOWN_MAX).map(quoted).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        listed.join(", ")
    );
    Some(FieldError::forbidden(path.clone(), &detail))
}

fn validate_managed_fields(entries: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, entry) in entries.iter().numbered() {
        if errors.is_full() {
            break;
        }
        let path = path.index(at);
        match entry.text("operation") {
            "" => errors.push(FieldError::required(path.child("operation"), "must not be empty")),
            "Apply" | "Update" => {}
            other => {
                errors.push(FieldError::not_supported(path.child("operation"), other, &["Apply", "Update"]));
            }
        }
        let fields_type = entry.text("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            let detail = "must be `FieldsV1`";
            errors.push(FieldError::invalid_str(path.child("fieldsType"), fields_type, detail));
        }
        errors.extend(options::validate_field_manager(entry.text("manager"), &path.child("manager")));
        if entry.text("subresource").len() > SUBRESOURCE_LENGTH_MAX {
            errors.push(FieldError::too_long(path.child("subresource"), SUBRESOURCE_LENGTH_MAX));
        }
    }
    errors
}

#[cfg(test)]
mod tests;
