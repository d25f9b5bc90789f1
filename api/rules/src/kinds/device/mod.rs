//! Kinds of the group `resource`: claims of devices, their templates, classes of devices, slices of what drivers offer.
//!
//! Owns the rules that several of them share: names of drivers, pools, attributes and capacities, lists with a bound,
//! parameters of drivers, conditions of binding.

mod allocation;
mod authority;
mod capacity;
mod claim;
mod class;
mod request;
mod selector;
mod slice;
mod slice_device;

pub use authority::{StatusChange, allocated_node};
pub use claim::{ResourceClaim, ResourceClaimTemplate};
pub use class::DeviceClass;
pub use slice::ResourceSlice;

use std::hash::Hash;

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::kinds::storage::validate_driver_name;
use crate::validate::metadata::{invalid_each, validate_label_name};
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

/// Longest name of an attribute or capacity below its domain, in bytes.
const ID_LENGTH_MAX: usize = 32;
/// Longest name of a pool, in bytes.
const POOL_LENGTH_MAX: usize = 253;
/// Most entries of one list of configurations of a claim or class.
const CONFIG_MAX: usize = 32;
/// Most bytes of the parameters of one configuration, and of the data of one allocated device.
const PARAMETERS_BYTES_MAX: usize = 10 << 10;
/// Most conditions that a device waits for, and most that end the wait.
const BINDING_CONDITIONS_MAX: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Whether parts that an update leaves as they were are checked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// The part is new or changed.
    No,
    /// The part is stored already: bounds that came later do not apply to it.
    Yes,
}

/// Rules for each item of a list of at most `most` items. A longer list is not looked into.
fn validate_list(
    items: &[Value],
    most: usize,
    path: &Path,
    validate: impl Fn(&Value, &Path) -> FieldErrors,
) -> FieldErrors {
    if items.len() > most {
        return FieldError::too_many(path.clone(), items.len(), most).into();
    }
    items.iter().numbered().flat_map(|(at, item)| validate(item, &path.index(at))).collect()
}

/// [`validate_list`] for a list without duplicates. `key` tells items apart, `show` gives the text of a repeated one.
fn validate_set<'v, K: Hash + Eq>(
    items: &'v [Value],
    most: usize,
    path: &Path,
    validate: impl Fn(&Value, &Path) -> FieldErrors,
    key: impl Fn(&'v Value) -> K,
    show: impl Fn(&Value) -> String,
) -> FieldErrors {
    let mut errors = validate_list(items, most, path, validate);
    if items.len() > most {
        return errors;
    }
    let mut seen = Distinct::new();
    for (at, item) in items.iter().numbered() {
        if seen.is_repeated(key(item)) {
            errors.push(FieldError::duplicate(path.index(at), &show(item)));
        }
    }
    errors
}

/// A text item as duplicates show it.
fn quoted_text(item: &Value) -> String {
    quoted(item.as_str().unwrap_or_default())
}

/// Rules for the name of a pool: subdomains with slashes between them.
fn validate_pool_name(name: &str, path: &Path) -> FieldErrors {
    if name.is_empty() {
        return FieldError::required(path.clone(), "").into();
    }
    let mut errors = FieldErrors::new();
    if name.len() > POOL_LENGTH_MAX {
        errors.push(FieldError::too_long(path.clone(), POOL_LENGTH_MAX));
    }
    for part in name.split('/') {
        errors.extend(invalid_each(path, part, names::dns1123_subdomain(part)));
    }
    errors
}

/// Rules for the name of an attribute or capacity: an identifier, with a driver's domain before it where it is another's.
fn validate_qualified_name(name: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => errors.extend(validate_identifier(id, path)),
        [domain, id] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid_str(path.clone(), "", "the domain must not be empty"));
            } else {
                errors.extend(validate_driver_name(domain, path));
            }
            if id.is_empty() {
                errors.push(FieldError::invalid_str(path.clone(), "", "the name must not be empty"));
            } else {
                errors.extend(validate_identifier(id, path));
            }
        }
        _ => {
            let detail = "must not contain more than one slash";
            errors.push(FieldError::invalid_str(path.clone(), name, detail));
        }
    }
    errors
}

/// [`validate_qualified_name`] for a name that needs its domain.
fn validate_full_name(name: &str, path: &Path) -> FieldErrors {
    let mut errors = validate_qualified_name(name, path);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid_str(path.clone(), name, detail));
    }
    errors
}

fn validate_identifier(id: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if id.len() > ID_LENGTH_MAX {
        errors.push(FieldError::too_long(path.clone(), ID_LENGTH_MAX));
    }
    errors.extend(invalid_each(path, id, names::c_identifier(id)));
    errors
}

/// Rules for a DNS label: names of requests, devices and counters.
fn validate_label(name: &str, path: &Path) -> FieldErrors {
    invalid_each(path, name, names::dns1123_label(name))
}

/// Rules for the opaque parameters that `holder` has for a driver.
fn validate_configuration(holder: &Value, stored: Stored, path: &Path) -> FieldErrors {
    let (opaque, path) = (holder.at("opaque"), path.child("opaque"));
    if opaque.is_null() {
        return FieldError::required(path, "").into();
    }
    let mut errors = validate_driver_name(opaque.text("driver"), &path.child("driver"));
    errors.extend(validate_document(opaque.at("parameters"), stored, &path.child("parameters")));
    errors
}

/// Rules for a document of a driver: a JSON object of bounded size.
fn validate_document(document: &Value, stored: Stored, path: &Path) -> FieldErrors {
    if document.is_null() {
        return FieldError::required(path.clone(), "").into();
    }
    if stored == Stored::No && exceeds(document, PARAMETERS_BYTES_MAX) {
        return FieldError::too_long(path.clone(), PARAMETERS_BYTES_MAX).into();
    }
    if !document.is_object() {
        return FieldError::invalid_str(path.clone(), "<value omitted>", "must be a valid JSON object")
            .into();
    }
    FieldErrors::new()
}

/// Whether the compact JSON of `document` has more than `most` bytes.
fn exceeds(document: &Value, most: usize) -> bool {
    let mut json = Vec::new();
    orch_schema::write_value(document, &mut json);
    json.len() > most
}

/// Rules for the conditions under which a device is bound: both lists or none, and nothing in both.
fn validate_binding(holder: &Value, path: &Path) -> FieldErrors {
    let (waits, fails) = (holder.items("bindingConditions"), holder.items("bindingFailureConditions"));
    let (waits_path, fails_path) = (path.child("bindingConditions"), path.child("bindingFailureConditions"));
    let label = |item: &Value, path: &Path| validate_label_name(item.as_str().unwrap_or_default(), path);
    let text = |item: &Value| item.as_str().unwrap_or_default().to_owned();
    let mut errors = validate_set(waits, BINDING_CONDITIONS_MAX, &waits_path, label, text, quoted_text);
    errors.extend(validate_set(fails, BINDING_CONDITIONS_MAX, &fails_path, label, text, quoted_text));
    let known: Distinct<&str> = waits.iter().filter_map(Value::as_str).collect();
    for (at, name) in fails.iter().filter_map(Value::as_str).numbered() {
        if known.has(&name) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(FieldError::invalid_str(fails_path.index(at), name, detail));
        }
    }
    if waits.is_empty() && !fails.is_empty() {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        errors.push(FieldError::invalid(waits_path, &shown(holder.at("bindingConditions")), detail));
    }
    if fails.is_empty() && !waits.is_empty() {
        let detail = "bindingFailureConditions are required to use bindingConditions";
        errors.push(FieldError::invalid(fails_path, &shown(holder.at("bindingFailureConditions")), detail));
    }
    errors
}

/// Rules for a toleration of taints of devices.
fn validate_toleration(toleration: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (key, value) = (toleration.text("key"), toleration.text("value"));
    if !key.is_empty() {
        errors.extend(validate_label_name(key, &path.child("key")));
    }
    match toleration.text("operator") {
        "Exists" if !value.is_empty() => {
            let detail = "must be empty for operator `Exists`";
            errors.push(FieldError::invalid_str(path.child("value"), value, detail));
        }
        "Exists" => {}
        "Equal" => errors.extend(invalid_each(&path.child("value"), value, names::label_value(value))),
        "" => errors.push(FieldError::required(path.child("operator"), "")),
        other => {
            errors.push(FieldError::not_supported(path.child("operator"), other, &["Equal", "Exists"]));
        }
    }
    let effect = toleration.text("effect");
    // few: three effects.
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(path.child("effect"), effect, &EFFECTS));
    }
    errors
}

#[cfg(test)]
mod tests;
