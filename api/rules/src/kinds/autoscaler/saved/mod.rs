//! Values of the annotations in which v1 keeps metrics, current metrics, conditions and behavior.
//!
//! Owns their JSON, byte for byte as the reference writes it: metrics and conditions in the form of v1, the behavior
//! under the names of the reference's own structs.

mod read;
mod write;

pub(super) use read::{read_behavior, read_conditions, read_current_metrics, read_metrics};
pub(super) use write::{write_behavior, write_conditions, write_current_metrics, write_metrics};

use orch_schema::json;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, set};

/// How one source of metrics is written in v1.
struct Source {
    /// Name of the member in both versions.
    field: &'static str,
    /// Name of the selector in v1; sources without a selector have a resource's name.
    selector: Option<&'static str>,
}

const SOURCES: [Source; 5] = [
    Source { field: "object", selector: Some("selector") },
    Source { field: "pods", selector: Some("selector") },
    Source { field: "resource", selector: None },
    Source { field: "containerResource", selector: None },
    Source { field: "external", selector: Some("metricSelector") },
];

/// A reference to an object, with the fields that are always written.
pub(super) fn reference(object: &Value) -> Value {
    let mut out = json!({"kind": object.text("kind"), "name": object.text("name")});
    if !object.text("apiVersion").is_empty() {
        set(&mut out, "apiVersion", object.text("apiVersion"));
    }
    out
}
