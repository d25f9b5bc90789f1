//! The status of a claim: the devices that were allocated, what drivers report about them, who may use the claim.

use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::request::{REQUESTS_MAX, RequestNames, TOLERATIONS_MAX, validate_reference, validate_references};
use super::{
    CONFIG_MAX, Stored, quoted_text, validate_binding, validate_configuration, validate_document,
    validate_label, validate_list, validate_pool_name, validate_set, validate_toleration,
};
use crate::kinds::pod::scheduling::validate_node_selector;
use crate::kinds::storage::validate_driver_name;
use crate::validate::conditions::validate_conditions;
use crate::validate::metadata::immutable;
use crate::validate::tree::{Tree, child_mut, set, unset};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Most users of a claim.
const USERS_MAX: usize = 256;
/// Most conditions of an allocated device.
const CONDITIONS_MAX: usize = 8;
/// Most addresses of an allocated device.
const ADDRESSES_MAX: usize = 16;
const INTERFACE_LENGTH_MAX: usize = 256;
const HARDWARE_LENGTH_MAX: usize = 128;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Driver, pool and name of a device, and the share of it.
type DeviceKey<'v> = (&'v str, &'v str, &'v str, &'v str);

pub(super) fn device_key(device: &Value) -> DeviceKey<'_> {
    (device.text("driver"), device.text("pool"), device.text("device"), device.text("shareID"))
}

fn results(status: &Value) -> &[Value] {
    status.at("allocation").at("devices").items("results")
}

/// Devices that a claim had allocated and has no longer.
pub(super) struct Deallocated<'v> {
    before: Distinct<WholeDevice<'v>>,
    after: Distinct<WholeDevice<'v>>,
}

/// Driver, pool and name of a device.
type WholeDevice<'v> = (&'v str, &'v str, &'v str);

fn whole(device: &Value) -> WholeDevice<'_> {
    let (driver, pool, name, _) = device_key(device);
    (driver, pool, name)
}

impl<'v> Deallocated<'v> {
    pub(super) fn between(old: &'v Value, new: &'v Value) -> Deallocated<'v> {
        let allocated = |claim: &'v Value| {
            results(claim.at("status")).iter().take_while(|_| count_step()).map(whole).collect()
        };
        Deallocated { before: allocated(old), after: allocated(new) }
    }

    pub(super) fn has(&self, device: &'v Value) -> bool {
        let key = whole(device);
        self.before.has(&key) && !self.after.has(&key)
    }
}

/// Removes the reports about devices that `old` had allocated and `new` has not.
pub(super) fn drop_deallocated(old: &Value, new: &mut Value) {
    let reported = new.at("status").items("devices");
    if reported.is_empty() {
        return;
    }
    let gone = Deallocated::between(old, new);
    let kept: Vec<Value> =
        reported.iter().take_while(|_| count_step()).filter(|device| !gone.has(device)).cloned().collect();
    let status = child_mut(new, "status");
    if kept.is_empty() {
        unset(status, "devices");
    } else {
        set(status, "devices", kept);
    }
}

/// Rules for a write of the status of a claim.
pub(super) fn validate_status(old: &Value, new: &Value, path: &Path) -> FieldErrors {
    let (before, status) = (old.at("status"), new.at("status"));
    let users = path.child("reservedFor");
    let mut errors = validate_set(
        status.items("reservedFor"),
        USERS_MAX,
        &users,
        validate_user,
        |user| user.text("uid"),
        |user| quoted(user.text("uid")),
    );
    let allocated: Distinct<DeviceKey<'_>> = results(status).iter().map(device_key).collect();
    errors.extend(validate_set(
        status.items("devices"),
        usize::MAX,
        &path.child("devices"),
        |device, path| validate_report(device, &allocated, path),
        device_key,
        |device| quoted(&shown_key(device)),
    ));
    if !status.items("reservedFor").is_empty() {
        if !status.has("allocation") {
            let detail = "may not be specified when `allocated` is not set";
            errors.push(FieldError::forbidden(users, detail));
        } else if new.at("metadata").has("deletionTimestamp") && adds_user(before, status) {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(FieldError::forbidden(users, detail));
        }
    }
    let (allocation, path) = (status.at("allocation"), path.child("allocation"));
    if before.has("allocation") && !allocation.is_null() {
        errors.extend(immutable(allocation, before.at("allocation"), path));
    } else if !allocation.is_null() {
        errors.extend(validate_allocation(allocation, &RequestNames::of(new.at("spec")), &path));
    }
    errors
}

fn shown_key(device: &Value) -> String {
    let (driver, pool, name, share) = device_key(device);
    let share = if share.is_empty() { String::new() } else { format!("/{share}") };
    format!("{driver}/{pool}/{name}{share}")
}

fn adds_user(before: &Value, after: &Value) -> bool {
    let key = |user: &Value| user.to_string();
    let known: Distinct<String> = before.items("reservedFor").iter().map(key).collect();
    // once: one pass over the users.
    after.items("reservedFor").iter().take_while(|_| count_step()).any(|user| !known.has(&key(user)))
}

fn validate_user(user: &Value, path: &Path) -> FieldErrors {
    let missing = ["resource", "name", "uid"].into_iter().filter(|field| user.text(field).is_empty());
    missing.map(|field| FieldError::required(path.child(field), "")).collect()
}

fn validate_allocation(allocation: &Value, known: &RequestNames<'_>, path: &Path) -> FieldErrors {
    let (devices, devices_path) = (allocation.at("devices"), path.child("devices"));
    let mut errors = validate_list(
        devices.items("results"),
        REQUESTS_MAX,
        &devices_path.child("results"),
        |result, path| validate_result(result, known, path),
    );
    errors.extend(validate_list(
        devices.items("config"),
        2 * CONFIG_MAX,
        &devices_path.child("config"),
        |config, path| {
            let mut errors = validate_source(config.text("source"), path.child("source"));
            errors.extend(validate_references(config.items("requests"), known, &path.child("requests")));
            errors.extend(validate_configuration(config, Stored::No, path));
            errors
        },
    ));
    if allocation.has("nodeSelector") {
        let path = path.child("nodeSelector");
        errors.extend(validate_node_selector(allocation.at("nodeSelector"), &path));
    }
    errors
}

fn validate_source(source: &str, path: Path) -> FieldErrors {
    match source {
        "" => FieldError::required(path, "").into(),
        "FromClaim" | "FromClass" => FieldErrors::new(),
        other => FieldError::not_supported(path, other, &SOURCES).into(),
    }
}

fn validate_result(result: &Value, known: &RequestNames<'_>, path: &Path) -> FieldErrors {
    let mut errors = validate_reference(result.text("request"), known, &path.child("request"));
    errors.extend(validate_device_name(result, path));
    errors.extend(validate_binding(result, path));
    errors.extend(validate_list(
        result.items("tolerations"),
        TOLERATIONS_MAX,
        &path.child("tolerations"),
        validate_toleration,
    ));
    errors
}

/// Rules for driver, pool, name and share of a device.
fn validate_device_name(device: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_driver_name(device.text("driver"), &path.child("driver"));
    errors.extend(validate_pool_name(device.text("pool"), &path.child("pool")));
    errors.extend(validate_label(device.text("device"), &path.child("device")));
    if let Some(share) = device.at("shareID").as_str() {
        errors.extend(validate_uid(share, path.child("shareID")));
    }
    errors
}

fn validate_uid(uid: &str, path: Path) -> Option<FieldError> {
    const FORM: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if uid.len() != FORM.len() {
        let detail = format!("error validating uid: invalid UUID length: {}", uid.len());
        return Some(FieldError::invalid_str(path, uid, &detail));
    }
    let fits = |(c, form): (u8, u8)| if form == b'x' { c.is_ascii_hexdigit() } else { c == form };
    if !uid.bytes().zip(FORM.bytes()).all(fits) {
        return Some(FieldError::invalid_str(path, uid, "error validating uid: invalid UUID format"));
    }
    let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                  hexadecimal characters";
    // once: one pass over a text.
    uid.bytes().any(|c| c.is_ascii_uppercase()).then(|| FieldError::invalid_str(path, uid, detail))
}

/// Rules for what a driver reports about an allocated device.
fn validate_report(device: &Value, allocated: &Distinct<DeviceKey<'_>>, path: &Path) -> FieldErrors {
    let mut errors = validate_device_name(device, path);
    if !allocated.has(&device_key(device)) {
        let detail = "must be an allocated device in the claim";
        errors.push(FieldError::invalid_str(path.clone(), &shown_key(device), detail));
    }
    let (conditions, conditions_path) = (device.items("conditions"), path.child("conditions"));
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(conditions_path.clone(), conditions.len(), CONDITIONS_MAX));
    }
    errors.extend(validate_conditions(conditions, &conditions_path));
    if device.has("data") {
        errors.extend(validate_document(device.at("data"), Stored::No, &path.child("data")));
    }
    errors.extend(validate_network(device.at("networkData"), &path.child("networkData")));
    errors
}

fn validate_network(network: &Value, path: &Path) -> FieldErrors {
    let bounds = [("interfaceName", INTERFACE_LENGTH_MAX), ("hardwareAddress", HARDWARE_LENGTH_MAX)];
    let too_long = bounds.into_iter().filter(|(field, most)| network.text(field).len() > *most);
    let mut errors: FieldErrors =
        too_long.map(|(field, most)| FieldError::too_long(path.child(field), most)).collect();
    errors.extend(validate_set(
        network.items("ips"),
        ADDRESSES_MAX,
        &path.child("ips"),
        |address, path| validate_interface_address(address.as_str().unwrap_or_default(), path),
        |address| address.as_str().unwrap_or_default(),
        quoted_text,
    ));
    errors
}

/// An address of an interface with the length of its network's prefix: `10.1.2.3/24`.
fn validate_interface_address(text: &str, path: &Path) -> FieldErrors {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: std::net::IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_number = length.bytes().all(|c| c.is_ascii_digit());
        let length = length.parse::<u8>().ok().filter(|length| is_number && *length <= most)?;
        Some(format!("{address}/{length}"))
    });
    match parsed {
        None => {
            let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
            FieldError::invalid_str(path.clone(), text, detail).into()
        }
        Some(canonical) if canonical != text => {
            let detail = format!("must be in canonical form (\"{canonical}\")");
            FieldError::invalid_str(path.clone(), text, &detail).into()
        }
        Some(_) => FieldErrors::new(),
    }
}

/// Indexes of the results with access as administrator.
pub(super) fn first_admin_result(status: &Value) -> Option<usize> {
    // once: one result is looked for.
    results(status).iter().numbered().find(|(_, result)| result.flag("adminAccess")).map(|(at, _)| at)
}
