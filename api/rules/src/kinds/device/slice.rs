//! resource/v1 ResourceSlice: devices of one pool that a driver offers on one node, on some, or on all.

use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use super::slice_device::{default_devices, validate_counter_set, validate_device};
use super::{validate_pool_name, validate_set};
use crate::kinds::pod::scheduling::validate_node_selector;
use crate::kinds::storage::validate_driver_name;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::{Tree, existing_mut, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Most devices of a slice.
const DEVICES_MAX: usize = 128;
/// Most devices of a slice of which one has taints, consumes counters, or has attributes with several values.
const ADVANCED_DEVICES_MAX: usize = 64;
/// Most sets of counters of a slice.
const COUNTER_SETS_MAX: usize = 8;
pub(super) const LIST_VALUES: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// The rules of slices of resources.
#[derive(Debug)]
pub struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        if let Some(spec) = existing_mut(new, "spec") {
            default_devices(spec, context.now);
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(None, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_spec(Some(old.at("spec")), new.at("spec"), &Path::new("spec")));
        errors
    }

    fn warnings(&self, _context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        let driver = new.at("spec").text("driver");
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let shown = quoted(driver);
        vec![format!("spec.driver: driver names should be lowercase; {shown} contains uppercase characters")]
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.text("nodeName")),
            json!(spec.text("driver")),
            json!(spec.at("pool").text("name")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_spec(old: Option<&Value>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_driver_name(spec.text("driver"), &path.child("driver"));
    errors.extend(validate_pool(spec.at("pool"), &path.child("pool")));
    if let Some(old) = old {
        let (pool, pool_path) = (spec.at("pool"), path.child("pool"));
        errors.extend(immutable(pool.at("name"), old.at("pool").at("name"), pool_path.child("name")));
        for field in ["driver", "nodeName"] {
            errors.extend(immutable(spec.at(field), old.at(field), path.child(field)));
        }
    }
    errors.extend(validate_place(spec, path));
    let (devices, counters) = (spec.items("devices"), spec.items("sharedCounters"));
    // An empty list is one, too.
    if spec.has("sharedCounters") && spec.has("devices") {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(FieldError::invalid_str(path.clone(), "", detail));
    }
    // once: one pass over the devices.
    let most = if devices.iter().any(is_advanced) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let name = |item: &Value| quoted(item.text("name"));
    let per_device = spec.flag("perDeviceNodeSelection");
    errors.extend(validate_set(
        devices,
        most,
        &path.child("devices"),
        |device, path| validate_device(old, device, per_device, path),
        |device| device.text("name"),
        name,
    ));
    errors.extend(validate_set(
        counters,
        COUNTER_SETS_MAX,
        &path.child("sharedCounters"),
        validate_counter_set,
        |set| set.text("name"),
        name,
    ));
    errors
}

fn is_advanced(device: &Value) -> bool {
    // few: four lists.
    let has_lists = |attribute: &Value| LIST_VALUES.into_iter().any(|list| attribute.has(list));
    !device.items("taints").is_empty()
        || !device.items("consumesCounters").is_empty()
        // once: one pass over the attributes.
        || device.entries("attributes").into_iter().any(|(_, attribute)| has_lists(attribute))
}

fn validate_pool(pool: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_pool_name(pool.text("name"), &path.child("name"));
    let slices = pool.int("resourceSliceCount").unwrap_or(0);
    if slices <= 0 {
        let detail = "must be greater than zero";
        errors.push(FieldError::invalid(path.child("resourceSliceCount"), &slices.to_string(), detail));
    }
    let generation = pool.int("generation").unwrap_or(0);
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(path.child("generation"), &generation.to_string(), detail));
    }
    errors
}

/// Exactly one field says where the devices are.
fn validate_place(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut places = Vec::new();
    if let Some(name) = spec.at("nodeName").as_str() {
        let path = path.child("nodeName");
        if name.is_empty() {
            let detail = "must be either unset or set to a non-empty string";
            errors.push(FieldError::invalid_str(path, name, detail));
        } else {
            places.push("`nodeName`");
            errors.extend(invalid_each(&path, name, names::dns1123_subdomain(name)));
        }
    }
    if spec.has("nodeSelector") {
        places.push("`nodeSelector`");
        let (selector, path) = (spec.at("nodeSelector"), path.child("nodeSelector"));
        errors.extend(validate_node_selector(selector, &path));
        if selector.items("nodeSelectorTerms").len() != 1 {
            let terms = shown(selector.at("nodeSelectorTerms"));
            let detail = "must have exactly one node selector term";
            errors.push(FieldError::invalid(path.child("nodeSelectorTerms"), &terms, detail));
        }
    }
    for (field, place) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match spec.at(field).as_bool() {
            Some(true) => places.push(place),
            Some(false) => {
                let detail = "must be either unset or set to true";
                errors.push(FieldError::invalid(path.child(field), "false", detail));
            }
            None => {}
        }
    }
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match places.len() {
        0 => errors.push(FieldError::required(path.clone(), ONE)),
        1 => {}
        _ => {
            let (shown, detail) =
                (format!("{{{}}}", places.join(", ")), format!("{ONE}, but multiple fields are set"));
            errors.push(FieldError::invalid_str(path.clone(), &shown, &detail));
        }
    }
    errors
}
