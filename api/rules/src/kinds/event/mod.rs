//! Event, one stored object under two spellings: core v1 and events v1.
//!
//! The stored form is that of core v1; `convert` maps the other spelling to it and back. Owns the rules of both: core
//! v1 keeps the tolerance that old clients need, events v1 is strict about new events and lets an update
//! change only the series. Messages use the stored field names, but for the reporting controller.

mod convert;

pub use convert::{from_events_v1, stored_field_label, to_events_v1};

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta, value_at};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::{Tree, is_unchanged};
use crate::validate::{FieldError, FieldErrors, Path, names};

const TEXT_LENGTH_MAX: usize = 128;
const NOTE_LENGTH_MAX: usize = 1024;
const NAMESPACE_MISMATCH: &str = "does not match event.namespace";

/// The rules of events.
#[derive(Debug)]
pub struct Event;

impl Strategy for Event {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = validate_any(context, new);
        if is_core(context) {
            return errors;
        }
        errors.extend(validate_name(new.at("metadata")));
        errors.extend(object_meta::on_create(context, new));
        errors.extend(validate_series(new));
        if !new.has("eventTime") {
            errors.push(FieldError::required(Path::new("eventTime"), ""));
        }
        let kind = new.text("type");
        if kind != "Normal" && kind != "Warning" {
            errors.push(FieldError::invalid_str(
                Path::new("type"),
                "",
                &format!("has invalid value: {kind}"),
            ));
        }
        let deprecated =
            ["firstTimestamp", "lastTimestamp", "count"].into_iter().filter(|f| !new.is_empty_at(f));
        // few: two fields.
        let source = ["component", "host"].into_iter().any(|f| !new.at("source").text(f).is_empty());
        for field in deprecated.chain(source.then_some("source")) {
            errors.push(FieldError::invalid_str(Path::new(field), "", "needs to be unset"));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = validate_any(context, new);
        if is_core(context) {
            return errors;
        }
        errors.extend(object_meta::on_update(context, old, new));
        if !is_unchanged(old.at("series"), new.at("series")) {
            errors.extend(validate_series(new));
        }
        errors.extend(validate_unchanged(old, new));
        errors
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        match name {
            "source" => match object.at("source").text("component") {
                "" => object.text("reportingComponent").to_owned(),
                component => component.to_owned(),
            },
            name => value_at(object, name),
        }
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let since = |time: &str| age::since(time, now);
        let first_time = object.text("firstTimestamp");
        let first = since(if first_time.is_empty() { object.text("eventTime") } else { first_time });
        let series = object.at("series");
        let last_time = object.text("lastTimestamp");
        let (last, count) = if series.is_object() {
            (since(series.text("lastObservedTime")), series.int("count").unwrap_or(0))
        } else {
            let last = if last_time.is_empty() { first.clone() } else { since(last_time) };
            (last, object.int("count").filter(|&count| count != 0).unwrap_or(1))
        };
        let involved = object.at("involvedObject");
        Some(vec![
            json!(last),
            json!(object.text("type")),
            json!(object.text("reason")),
            json!(target(involved)),
            json!(involved.text("fieldPath")),
            json!(source(object)),
            json!(object.text("message").trim()),
            json!(first),
            json!(count),
            object.at("metadata").at("name").clone(),
        ])
    }
}

fn is_core(context: &Context<'_>) -> bool {
    context.group.is_empty()
}

// Rules for events of both spellings. An event with an `eventTime` must be complete, in either spelling.
fn validate_any(context: &Context<'_>, event: &Value) -> FieldErrors {
    let namespace = event.at("metadata").text("namespace");
    let involved = event.at("involvedObject").text("namespace");
    if event.text("eventTime").is_empty() {
        let fits = involved == namespace || (involved.is_empty() && namespace == "default");
        return if fits { FieldErrors::new() } else { namespace_mismatch(involved).into() };
    }
    let mut errors = FieldErrors::new();
    if involved.is_empty() && namespace != "default" && namespace != context.brand.system_namespace {
        errors.push(namespace_mismatch(involved));
    }
    let controller = event.text("reportingComponent");
    // Only this field is reported by the name of the request's spelling; all others have their stored names.
    let path = Path::new(if is_core(context) { "reportingComponent" } else { "reportingController" });
    if controller.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    }
    errors.extend(invalid_each(&path, controller, names::qualified_name(controller)));
    for field in ["reportingInstance", "action", "reason"] {
        if event.text(field).is_empty() {
            errors.push(FieldError::required(Path::new(field), ""));
        }
        errors.extend(too_long(event, field, TEXT_LENGTH_MAX));
    }
    errors.extend(too_long(event, "message", NOTE_LENGTH_MAX));
    errors
}

fn namespace_mismatch(involved: &str) -> FieldError {
    FieldError::invalid_str(Path::new("involvedObject").child("namespace"), involved, NAMESPACE_MISMATCH)
}

fn too_long(event: &Value, field: &str, limit: usize) -> Option<FieldError> {
    let detail = format!("can have at most {limit} characters");
    (event.text(field).len() > limit).then(|| FieldError::invalid_str(Path::new(field), "", &detail))
}

fn validate_name(metadata: &Value) -> FieldErrors {
    let rule = NameRule::Dns1123Subdomain;
    let mut errors = FieldErrors::new();
    for (field, prefix) in [("generateName", true), ("name", false)] {
        let name = metadata.text(field);
        if !name.is_empty() {
            let path = Path::new("metadata").child(field);
            errors.extend(invalid_each(&path, name, names::check_name(rule, name, prefix)));
        }
    }
    errors
}

fn validate_series(event: &Value) -> FieldErrors {
    let series = event.at("series");
    let mut errors = FieldErrors::new();
    if series.is_null() {
        return errors;
    }
    if series.int("count").unwrap_or(0) < 2 {
        errors.push(FieldError::invalid_str(Path::new("series.count"), "", "should be at least 2"));
    }
    if series.text("lastObservedTime").is_empty() {
        errors.push(FieldError::required(Path::new("series.lastObservedTime"), ""));
    }
    errors
}

/// Fields that an update must not change, in the order of the reference, which compares `reason` twice.
const UNCHANGING: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
];

fn validate_unchanged(old: &Value, new: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in UNCHANGING {
        let stored = if field == "reportingController" { "reportingComponent" } else { field };
        match field {
            "involvedObject" | "source" | "firstTimestamp" | "lastTimestamp" | "count" | "eventTime"
            | "related" => errors.extend(immutable(new.at(field), old.at(field), Path::new(field))),
            // Absent and empty are the same text.
            _ if new.text(stored) != old.text(stored) => {
                let path = Path::new(field);
                errors.push(FieldError::invalid_str(path, new.text(stored), "field is immutable"));
            }
            _ => {}
        }
    }
    errors
}

fn target(involved: &Value) -> String {
    let (kind, name) = (involved.text("kind").to_lowercase(), involved.text("name"));
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

fn source(event: &Value) -> String {
    let first = |a, b| if str::is_empty(a) { b } else { a };
    let source = event.at("source");
    let component = first(source.text("component"), event.text("reportingComponent"));
    let instance = first(source.text("host"), event.text("reportingInstance"));
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

#[cfg(test)]
mod tests;
