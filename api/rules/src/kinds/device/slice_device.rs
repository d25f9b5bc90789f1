//! The devices of a slice: attributes, capacities, taints, counters, and where each is.

use orch_schema::budget::count_step;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use super::capacity::validate_capacity;
use super::slice::LIST_VALUES;
use super::{
    EFFECTS, validate_binding, validate_label, validate_list, validate_qualified_name, validate_set,
};
use crate::kinds::pod::scheduling::validate_node_selector;
use crate::validate::metadata::{invalid_each, validate_label_name};
use crate::validate::tree::{Tree, is_unchanged, items_mut, set_default, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Most attributes and capacities of a device together.
const ENTRIES_MAX: usize = 32;
/// Most values of all attributes of a device together.
const VALUES_MAX: usize = 48;
/// Longest text or version of an attribute, in bytes.
const TEXT_LENGTH_MAX: usize = 64;
/// Longest key of an attribute in a path; a longer one is shown without its middle.
const SHOWN_KEY_LENGTH_MAX: usize = 63 + 1 + 32;
/// Most taints of a device.
const TAINTS_MAX: usize = 16;
/// Most sets of counters that a device consumes from.
const CONSUMPTIONS_MAX: usize = 2;
/// Most counters of one set, and of what a device consumes of one.
const COUNTERS_MAX: usize = 32;
/// Resources of a node that devices may provide.
const NODE_RESOURCES: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];

/// Dates taints and fills in multipliers.
pub(super) fn default_devices(spec: &mut Value, now: &str) {
    for device in items_mut(spec, "devices").iter_mut().take_while(|_| count_step()) {
        for taint in items_mut(device, "taints") {
            set_default(taint, "timeAdded", now);
        }
        let mappings = device.get_mut("nodeAllocatableResourceMappings").and_then(Value::as_object_mut);
        for (_, mapping) in mappings.into_iter().flat_map(|mappings| mappings.iter_mut()) {
            set_default(mapping, "allocationMultiplier", "1");
        }
    }
}

/// Rules for a device. Capacities and taints that `old`, the slice before, had are not checked again.
pub(super) fn validate_device(
    old: Option<&Value>,
    device: &Value,
    per_device: bool,
    path: &Path,
) -> FieldErrors {
    let mut errors = validate_label(device.text("name"), &path.child("name"));
    let (attributes, capacities) = (device.entries("attributes"), device.entries("capacity"));
    errors.extend(validate_totals(&attributes, capacities.len(), path));
    errors.extend(validate_map(&attributes, &path.child("attributes"), validate_attribute));
    let before = old.and_then(|old| {
        // few: a stored slice has at most 128 devices.
        old.items("devices").iter().find(|before| count_step() && before.text("name") == device.text("name"))
    });
    let is_kept = |field: &str| before.is_some_and(|before| is_unchanged(before.at(field), device.at(field)));
    if !is_kept("capacity") {
        let is_shared = device.flag("allowMultipleAllocations");
        errors.extend(validate_map(&capacities, &path.child("capacity"), |capacity, path| {
            validate_capacity(capacity, is_shared, path)
        }));
    }
    if !is_kept("taints") {
        let taints = path.child("taints");
        errors.extend(validate_list(device.items("taints"), TAINTS_MAX, &taints, validate_taint));
    }
    errors.extend(validate_set(
        device.items("consumesCounters"),
        CONSUMPTIONS_MAX,
        &path.child("consumesCounters"),
        |consumption, path| validate_counters(consumption, "counterSet", path),
        |consumption| consumption.text("counterSet"),
        |consumption| quoted(consumption.text("counterSet")),
    ));
    errors.extend(validate_place(device, per_device, path));
    errors.extend(validate_binding(device, path));
    errors.extend(validate_mappings(device, &path.child("nodeAllocatableResourceMappings")));
    errors
}

/// Rules for a set of counters that devices share.
pub(super) fn validate_counter_set(set: &Value, path: &Path) -> FieldErrors {
    validate_counters(set, "name", path)
}

fn validate_counters(holder: &Value, name_field: &str, path: &Path) -> FieldErrors {
    let (name, name_path) = (holder.text(name_field), path.child(name_field));
    let mut errors = if name.is_empty() {
        FieldErrors::from(FieldError::required(name_path, ""))
    } else {
        validate_label(name, &name_path)
    };
    let (counters, path) = (holder.entries("counters"), path.child("counters"));
    if counters.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if counters.len() > COUNTERS_MAX {
        errors.push(FieldError::too_many(path, counters.len(), COUNTERS_MAX));
    } else {
        errors.extend(counters.into_iter().flat_map(|(name, _)| validate_label(name, &path)));
    }
    errors
}

fn validate_totals(attributes: &[(&str, &Value)], capacities: usize, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let entries = attributes.len() + capacities;
    if entries > ENTRIES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {ENTRIES_MAX}");
        errors.push(FieldError::invalid(path.clone(), &entries.to_string(), &detail));
    }
    let values_of = |attribute: &Value| LIST_VALUES.iter().map(|list| attribute.items(list).len()).sum();
    let values: usize = attributes.iter().map(|(_, attribute)| Ord::max(values_of(attribute), 1)).sum();
    if values > VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {VALUES_MAX}");
        errors.push(FieldError::invalid(path.clone(), &values.to_string(), &detail));
    }
    errors
}

/// Rules for the keys, which are qualified names, and the values of a map.
fn validate_map(
    entries: &[(&str, &Value)],
    path: &Path,
    validate: impl Fn(&Value, &Path) -> FieldErrors,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, value) in entries.iter().take_while(|_| count_step()) {
        if errors.is_full() {
            break;
        }
        errors.extend(validate_qualified_name(key, path));
        errors.extend(validate(value, &path.key(&without_middle(key))));
    }
    errors
}

fn without_middle(key: &str) -> String {
    if key.len() <= SHOWN_KEY_LENGTH_MAX {
        return key.to_owned();
    }
    let rest = SHOWN_KEY_LENGTH_MAX - 3;
    let (mut start, mut end) = (rest.div_ceil(2), key.len() - rest / 2);
    while !key.is_char_boundary(start) {
        start -= 1;
    }
    while !key.is_char_boundary(end) {
        end += 1;
    }
    format!("{}...{}", &key[..start], &key[end..])
}

fn validate_attribute(attribute: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let single = ["bool", "int", "string", "version"];
    let given = single.into_iter().chain(LIST_VALUES).filter(|field| attribute.has(field)).count();
    let text = |value: &Value, path: &Path| validate_text(value.as_str().unwrap_or_default(), path);
    let version = |value: &Value, path: &Path| validate_version(value.as_str().unwrap_or_default(), path);
    if attribute.has("string") {
        errors.extend(text(attribute.at("string"), &path.child("string")));
    }
    if attribute.has("version") {
        errors.extend(version(attribute.at("version"), &path.child("version")));
    }
    errors.extend(validate_list(attribute.items("strings"), VALUES_MAX, &path.child("strings"), text));
    errors.extend(validate_list(attribute.items("versions"), VALUES_MAX, &path.child("versions"), version));
    if given != 1 {
        let value = if given == 0 { "\"\"".to_owned() } else { shown(attribute) };
        errors.push(FieldError::invalid(path.clone(), &value, "exactly one value must be specified"));
    }
    errors
}

fn validate_text(text: &str, path: &Path) -> FieldErrors {
    let is_long = text.len() > TEXT_LENGTH_MAX;
    is_long.then(|| FieldError::too_long(path.clone(), TEXT_LENGTH_MAX)).into_iter().collect()
}

fn validate_version(version: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !is_version(version) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid_str(path.clone(), version, detail));
    }
    errors.extend(validate_text(version, path));
    errors
}

/// Three numbers, then pre-release identifiers behind `-` and those of a build behind `+`.
fn is_version(version: &str) -> bool {
    let (version, build) = match version.split_once('+') {
        Some((version, build)) => (version, Some(build)),
        None => (version, None),
    };
    let (core, before) = match version.split_once('-') {
        Some((core, before)) => (core, Some(before)),
        None => (version, None),
    };
    let is_number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        digits && (part == "0" || !part.starts_with('0'))
    };
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    let is_before =
        |part: &str| is_word(part) && (is_number(part) || !part.bytes().all(|c| c.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && before.is_none_or(|before| before.split('.').all(is_before))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

fn validate_taint(taint: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_label_name(taint.text("key"), &path.child("key"));
    let value = taint.text("value");
    errors.extend(invalid_each(&path.child("value"), value, names::label_value(value)));
    let effect = taint.text("effect");
    // few: three effects.
    match EFFECTS.contains(&effect) {
        true => {}
        false if effect.is_empty() => errors.push(FieldError::required(path.child("effect"), "")),
        false => errors.push(FieldError::not_supported(path.child("effect"), effect, &EFFECTS)),
    }
    errors
}

/// Where the device is, if the slice leaves that to its devices.
fn validate_place(device: &Value, per_device: bool, path: &Path) -> FieldErrors {
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    let mut errors = FieldErrors::new();
    if !per_device {
        // few: three fields.
        if fields.into_iter().any(|field| device.has(field)) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is \
                          set to true in the ResourceSlice spec";
            errors.push(FieldError::invalid(path.clone(), "null", detail));
        }
        return errors;
    }
    let mut places = Vec::new();
    if let Some(name) = device.at("nodeName").as_str() {
        let path = path.child("nodeName");
        if name.is_empty() {
            errors.push(FieldError::invalid_str(path, name, "must not be empty"));
        } else {
            places.push("`nodeName`");
            errors.extend(invalid_each(&path, name, names::dns1123_subdomain(name)));
        }
    }
    if device.has("nodeSelector") {
        places.push("`nodeSelector`");
        errors.extend(validate_node_selector(device.at("nodeSelector"), &path.child("nodeSelector")));
    }
    match device.at("allNodes").as_bool() {
        Some(true) => places.push("`allNodes`"),
        Some(false) => {
            let detail = "must be either unset or set to true";
            errors.push(FieldError::invalid(path.child("allNodes"), "false", detail));
        }
        None => {}
    }
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                  `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match places.len() {
        0 => errors.push(FieldError::required(path.clone(), detail)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", places.join(", "));
            errors.push(FieldError::invalid_str(path.clone(), &shown, detail));
        }
    }
    errors
}

/// Rules for the resources of its node that a device provides.
fn validate_mappings(device: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (resource, mapping) in device.entries("nodeAllocatableResourceMappings") {
        let path = path.key(resource);
        // few: three resources.
        if !NODE_RESOURCES.contains(&resource) && !resource.starts_with("hugepages-") {
            let detail = "must be a node allocatable resource name";
            errors.push(FieldError::invalid_str(path.clone(), resource, detail));
        }
        if let Some(key) = mapping.at("capacityKey").as_str() {
            let path = path.child("capacityKey");
            if key.is_empty() {
                let detail = "capacityKey must not be an empty string";
                errors.push(FieldError::invalid_str(path, "", detail));
            } else if !device.at("capacity").has(key) {
                errors.push(FieldError::not_found(path, &json!(key).to_string()));
            }
        }
        let multiplier = mapping.text("allocationMultiplier");
        if Quantity::parse(multiplier).is_some_and(|amount| amount <= Quantity::ZERO) {
            let path = path.child("allocationMultiplier");
            errors.push(FieldError::invalid_str(path, multiplier, "must be positive"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for version in ["0.0.0", "1.2.3", "1.2.3-alpha.1", "1.2.3-0a+build.5", "1.2.3+001", "1.0.0-a-b"] {
            assert!(is_version(version), "{version}");
        }
        for version in
            ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3", "1.2.x"]
        {
            assert!(!is_version(version), "{version}");
        }
    }

    #[test]
    fn long_keys_lose_their_middle_between_characters() {
        assert_eq!(without_middle("a/b"), "a/b");
        let shown = without_middle(&"é".repeat(200));
        assert!(shown.len() <= SHOWN_KEY_LENGTH_MAX && shown.contains("..."), "{shown}");
    }
}
