//! Answers in which a mirror may differ from the built-in kind, each with the reason.
//!
//! Owns the two tables: parts of every answer, and single steps. An excused step that matches is an error of the table.

use serde_json::{Map, Value, json};

/// Steps of a scenario whose answers differ.
struct Excuse {
    /// `AREA/NAME` of the scenario.
    scenario: &'static str,
    /// Counted from 0, as in the recording.
    steps: &'static [usize],
    reason: &'static str,
}

const VALIDATION: &str = "a rule of the built-in kind that its schema does not tell";
const UNCONDITIONAL: &str =
    "an update without a version is refused, and what follows finds the object as it was";
const DECODING: &str = "a schema judges texts and types after they were read: 422 instead of 400, times in any form of their format, and no value for null";
const EMPTY: &str = "an empty object that was written is kept and recorded";
const STRATEGIC: &str =
    "a strategic merge patch is refused with 415, and what follows finds the object as it was";
const SELECTOR: &str =
    "a definition names a text as the selector of its scale, and that of a deployment is none";
const SCALE: &str =
    "the scale of a custom kind refuses counts and methods with its own texts and has its own columns";
const STATUS: &str = "the path of a status that a kind does not have is known, and no object is there";
const COLUMNS: &str = "the columns of a built-in kind are made by code";
const DEFAULT: &str = "the default depends on another field";
const TWIN: &str = "events of the older group are stored as those of the newer one";

/// The excused steps.
const STEPS: [Excuse; 34] = [
    Excuse { scenario: "crud/configmap-labels", steps: &[3], reason: VALIDATION },
    Excuse { scenario: "crud/configmap-immutable", steps: &[3, 4], reason: VALIDATION },
    Excuse { scenario: "delete/finalizer-names", steps: &[1], reason: VALIDATION },
    Excuse { scenario: "errors/too-large", steps: &[1], reason: VALIDATION },
    Excuse { scenario: "events/event-required", steps: &[2, 3, 4, 5, 6, 7], reason: VALIDATION },
    Excuse { scenario: "events/event-types", steps: &[1, 3], reason: VALIDATION },
    Excuse { scenario: "events/event-series", steps: &[1], reason: VALIDATION },
    Excuse { scenario: "events/event-immutable", steps: &[2, 3, 4], reason: VALIDATION },
    Excuse { scenario: "events/event-namespace", steps: &[2], reason: VALIDATION },
    Excuse { scenario: "subresources/sub-status-workloads", steps: &[3], reason: VALIDATION },
    Excuse { scenario: "types/mini-deployments", steps: &[2], reason: VALIDATION },
    Excuse { scenario: "crud/configmap-immutable", steps: &[2], reason: UNCONDITIONAL },
    Excuse { scenario: "events/event-immutable", steps: &[5], reason: UNCONDITIONAL },
    Excuse { scenario: "fieldvalidation/json-ignore", steps: &[3], reason: UNCONDITIONAL },
    Excuse { scenario: "fieldvalidation/json-warn", steps: &[3], reason: UNCONDITIONAL },
    Excuse { scenario: "subresources/sub-status-workloads", steps: &[2, 4], reason: UNCONDITIONAL },
    Excuse { scenario: "errors/wrong-types", steps: &[4, 5, 6], reason: DECODING },
    Excuse { scenario: "events/event-time-formats", steps: &[1, 2, 3, 4, 5], reason: DECODING },
    Excuse { scenario: "fieldvalidation/json-ignore", steps: &[5], reason: EMPTY },
    Excuse { scenario: "fieldvalidation/json-warn", steps: &[5], reason: EMPTY },
    Excuse { scenario: "selectors/labels", steps: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], reason: EMPTY },
    Excuse { scenario: "types/mini-deployments", steps: &[4, 5], reason: EMPTY },
    Excuse { scenario: "fieldvalidation/json-ignore", steps: &[6], reason: STRATEGIC },
    Excuse { scenario: "fieldvalidation/json-warn", steps: &[6], reason: STRATEGIC },
    Excuse { scenario: "fieldvalidation/json-strict", steps: &[6], reason: STRATEGIC },
    Excuse { scenario: "patch/strategic-deployment", steps: &[3, 4, 5], reason: STRATEGIC },
    Excuse { scenario: "subresources/sub-scale-deployment", steps: &[12, 13, 18], reason: STRATEGIC },
    Excuse {
        scenario: "subresources/sub-scale-deployment",
        steps: &[3, 4, 8, 10, 11, 15, 17],
        reason: SELECTOR,
    },
    Excuse { scenario: "subresources/sub-scale-deployment", steps: &[6, 19, 20, 21], reason: SCALE },
    Excuse { scenario: "subresources/sub-status-none", steps: &[3, 4], reason: STATUS },
    Excuse { scenario: "table/events", steps: &[2], reason: COLUMNS },
    Excuse { scenario: "types/mini-deployments", steps: &[3], reason: COLUMNS },
    Excuse { scenario: "types/mini-deployments", steps: &[1], reason: DEFAULT },
    Excuse { scenario: "events/event-core-twin", steps: &[2], reason: TWIN },
];

/// Fields that a built-in kind always has, and a custom one if they were written.
const ALWAYS: [&str; 4] =
    ["status", "deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"];

/// The reason for which these steps are excused.
pub(super) fn reason(scenario: &str, step: usize) -> Option<&'static str> {
    // few: some dozen rows.
    let row = STEPS.iter().find(|excuse| excuse.scenario == scenario && excuse.steps.contains(&step));
    row.map(|excuse| excuse.reason)
}

/// `answer` without the parts that every custom kind has otherwise:
///
/// - `metadata.generation` of kinds without a status: a custom kind counts its changes, config maps and events do not;
/// - the entry `.` of records of managers, outside of config maps: structures of a built-in kind are there before the first write, those
///   of a custom kind come with it;
/// - the fields of [`ALWAYS`] without a value;
/// - an empty `continue` of a list: that of a custom kind is always there.
pub(super) fn without_shape(answer: &Value) -> Value {
    let mut answer = answer.clone();
    strip(&mut answer);
    answer
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(fields) => {
            let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_empty = |field: &Value| field.is_null() || *field == json!({});
            // few: four names.
            fields.retain(|name, field| !(ALWAYS.contains(&name.as_str()) && is_empty(field)));
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                strip_metadata(&kind, metadata);
            }
            fields.values_mut().for_each(strip);
        }
        _ => {}
    }
}

fn strip_metadata(kind: &str, metadata: &mut Map<String, Value>) {
    if kind == "ConfigMap" || kind == "Event" {
        metadata.remove("generation");
    }
    if kind.ends_with("List") && metadata.get("continue").is_some_and(|token| token == "") {
        metadata.remove("continue");
    }
    if kind != "ConfigMap"
        && let Some(records) = metadata.get_mut("managedFields").and_then(Value::as_array_mut)
    {
        records.iter_mut().filter_map(|record| record.get_mut("fieldsV1")).for_each(without_dots);
    }
}

fn without_dots(fields: &mut Value) {
    if let Some(fields) = fields.as_object_mut() {
        fields.remove(".");
        fields.values_mut().for_each(without_dots);
    }
}
