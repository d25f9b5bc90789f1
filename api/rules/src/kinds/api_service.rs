//! apiregistration/v1 APIService: who serves a group and version, this server or a service in the cluster.
//!
//! Owns the rules of these objects, the condition of those that this server serves itself, and the name of an object. Whether a
//! service is available is the loop's of aggregation to say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::invalid_each;
use crate::validate::names::{dns1035_label, dns1123_subdomain, path_segment, port_number};
use crate::validate::tree::{Tree, existing_mut, set, set_default};
use crate::validate::{FieldError, FieldErrors, Path};

/// Port of a service that names none.
pub const SERVICE_PORT: i64 = 443;
/// The type of the condition that says whether requests can be handed over.
pub const AVAILABLE: &str = "Available";
const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// The rules of API services.
#[derive(Debug)]
pub struct ApiService;

/// The name of the object of a group and version.
pub fn name_of(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

/// The condition of a group and version that this server serves itself, since `now`.
pub fn local_condition(now: &str) -> Value {
    json!({
        "type": AVAILABLE, "status": "True", "lastTransitionTime": now,
        "reason": "Local", "message": "Local APIServices are always available",
    })
}

/// The condition that says whether requests can be handed over; null without one.
pub fn available(object: &Value) -> &Value {
    let conditions = object.at("status").items("conditions");
    // few: the conditions of one object.
    conditions.iter().find(|condition| condition.text("type") == AVAILABLE).unwrap_or(&Value::Null)
}

impl Strategy for ApiService {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        let spec = existing_mut(new, "spec");
        if let Some(service) = spec.and_then(|spec| existing_mut(spec, "service")) {
            set_default(service, "port", SERVICE_PORT);
        }
    }

    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({}));
        if new.at("spec").at("service").is_null() {
            set(new, "status", json!({"conditions": [local_condition(context.now)]}));
        }
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Status {
            object_meta::keep_client_metadata(old, new);
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_name(new));
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            let path = Path::new("status").child("conditions");
            for (at, condition) in new.at("status").items("conditions").iter().numbered() {
                let status = condition.text("status");
                // few: three values.
                if !STATUSES.contains(&status) {
                    let path = path.index(at).child("status");
                    errors.push(FieldError::not_supported(path, status, &STATUSES));
                }
            }
            return errors;
        }
        errors.extend(validate_name(new));
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let service = match object.at("spec").at("service") {
            Value::Null => "Local".to_owned(),
            service => format!("{}/{}", service.text("namespace"), service.text("name")),
        };
        let condition = available(object);
        let available = match (condition.text("status"), condition.text("reason")) {
            ("", _) => "Unknown".to_owned(),
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        };
        let name = object.at("metadata").at("name").clone();
        Some(vec![name, service.into(), available.into(), age::age(object, now).into()])
    }
}

/// The name is made of group and version. The server compares them once the name is one that a path can have.
fn validate_name(new: &Value) -> Option<FieldError> {
    let (name, spec) = (new.at("metadata").text("name"), new.at("spec"));
    let required = name_of(spec.text("group"), spec.text("version"));
    if name.is_empty() || name == required || !path_segment(name).is_empty() {
        return None;
    }
    let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quoted(&required));
    Some(FieldError::invalid_str(Path::new("metadata").child("name"), name, &detail))
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (group, version) = (spec.text("group"), spec.text("version"));
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(path.child("group"), detail));
    }
    if !group.is_empty() {
        errors.extend(invalid_each(&path.child("group"), group, dns1123_subdomain(group)));
    }
    errors.extend(invalid_each(&path.child("version"), version, dns1035_label(version)));
    for (field, max) in
        [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)]
    {
        let priority = spec.int(field).unwrap_or_default();
        if !(1..=max).contains(&priority) {
            let detail = format!("must be positive and less than {max}");
            errors.push(FieldError::invalid(path.child(field), &priority.to_string(), &detail));
        }
    }
    match spec.at("service") {
        Value::Null => errors.extend(validate_local(spec, path)),
        service => {
            errors.extend(validate_service(service, &path.child("service")));
            if spec.flag("insecureSkipTLSVerify") && !spec.text("caBundle").is_empty() {
                let path = path.child("insecureSkipTLSVerify");
                errors.push(FieldError::invalid(path, "true", "may not be true if caBundle is present"));
            }
        }
    }
    errors
}

/// A group and version that this server serves itself names no trust.
fn validate_local(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let bundle = spec.text("caBundle");
    if !bundle.is_empty() {
        let bytes = STANDARD.decode(bundle).map_or(0, |bundle| bundle.len());
        let (path, shown) = (path.child("caBundle"), format!("{bytes} bytes"));
        errors.push(FieldError::invalid_str(path, &shown, "local APIServices may not have a caBundle"));
    }
    if spec.flag("insecureSkipTLSVerify") {
        let path = path.child("insecureSkipTLSVerify");
        let detail = "local APIServices may not have insecureSkipTLSVerify";
        errors.push(FieldError::invalid(path, "true", detail));
    }
    errors
}

fn validate_service(service: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["namespace", "name"] {
        if service.text(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    let port = service.int("port").unwrap_or_default();
    let faults = port_number(port);
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(","));
        errors.push(FieldError::invalid(path.child("port"), &port.to_string(), &detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, check_update, created, updated};

    fn service(spec: Value) -> Value {
        let mut spec = spec;
        for (field, value) in [("groupPriorityMinimum", 1000), ("versionPriority", 15)] {
            crate::validate::tree::set_default(&mut spec, field, value);
        }
        let name = name_of(spec.text("group"), spec.text("version"));
        json!({"metadata": {"name": name}, "spec": spec})
    }

    fn remote() -> Value {
        json!({"group": "a.example.com", "version": "v1", "service": {"namespace": "ns", "name": "s"}})
    }

    fn with(field: &str, value: impl Into<Value>) -> Value {
        let mut spec = remote();
        set(&mut spec, field, value);
        service(spec)
    }

    #[test]
    fn a_local_one_is_available_and_others_are_not_said_to_be() {
        let local = created(&ApiService, service(json!({"group": "", "version": "v1"})));
        assert_eq!(available(&local)["reason"], "Local");
        let other = created(&ApiService, service(remote()));
        assert_eq!((&other["status"], &other["spec"]["service"]["port"]), (&json!({}), &json!(443)));
        let row =
            |object: &Value| ApiService.table_row(object, "2026-01-02T03:04:05Z").unwrap()[1..3].to_vec();
        assert_eq!(row(&local), [json!("Local"), json!("True")]);
        assert_eq!(row(&other), [json!("ns/s"), json!("Unknown")]);
        let mut away = other.clone();
        let condition = json!({"type": "Available", "status": "False", "reason": "MissingEndpoints"});
        set(&mut away, "status", json!({"conditions": [condition]}));
        assert_eq!(row(&away)[1], json!("False (MissingEndpoints)"));
        let changed = updated(&ApiService, Action::Status, &other, away);
        assert_eq!(available(&changed)["status"], "False");
        let mut renamed = changed.clone();
        set(&mut renamed, "status", json!({}));
        let kept = updated(&ApiService, Action::Object, &changed, renamed);
        assert_eq!(available(&kept)["status"], "False", "only the sub-resource changes the status");
        assert!(kept["metadata"]["generation"].is_null());
    }

    #[test]
    fn rules_have_the_words_of_the_reference() {
        let check = |object: Value, expected: &[&str]| check_create(&ApiService, object, expected);
        check(service(remote()), &[]);
        check(service(json!({"group": "", "version": "v1"})), &[]);
        let mut other = service(remote());
        set(&mut other, "metadata", json!({"name": "other"}));
        check(
            other,
            &[
                "metadata.name: Invalid value: \"other\": must be `spec.version+\".\"+spec.group`: \"v1.a.example.com\"",
            ],
        );
        check(
            with("service", json!({"port": 70000})),
            &[
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
            ],
        );
        check(
            with("groupPriorityMinimum", 20_001),
            &["spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"],
        );
        check(
            with("versionPriority", -1),
            &["spec.versionPriority: Invalid value: -1: must be positive and less than 1000"],
        );
        let trust = json!({
            "group": "a.example.com", "version": "v1", "caBundle": "bm9wZQ==", "insecureSkipTLSVerify": true,
        });
        check(
            service(trust),
            &[
                "spec.caBundle: Invalid value: \"4 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ],
        );
        let mut both = with("caBundle", "bm9wZQ==");
        set(existing_mut(&mut both, "spec").unwrap(), "insecureSkipTLSVerify", true);
        check(
            both,
            &["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"],
        );
        check(
            service(json!({"group": "", "version": "v2"})),
            &["spec.group: Required value: only v1 may have an empty group and it better be legacy kube"],
        );
        check_update(&ApiService, service(remote()), with("versionPriority", 16), &[]);
    }

    #[test]
    fn hostile_objects_are_looked_at_without_harm() {
        check_hostile(&ApiService);
    }
}
