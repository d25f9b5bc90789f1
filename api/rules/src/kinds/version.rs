//! Versions of a kind that are not the stored one.
//!
//! Owns the table of them: under which group and version objects are served in another form than the stored one, and how
//! they are converted. Rules, selectable fields and tables are those of the stored form.

use orch_proto::Brand;
use orch_schema::value::Value;

use super::{autoscaler, event};

/// Converts an object between a version and the stored form.
pub type Convert = fn(&Brand, &Value) -> Value;

/// A version of objects that are stored in another form.
#[derive(Clone, Copy, Debug)]
pub struct OtherForm {
    /// Plural name and group without its domain: `events.events`.
    resource: &'static str,
    version: &'static str,
    /// Storage resource, shared with the version that is stored.
    pub storage: &'static str,
    /// Group of the stored version, which validation errors name. No such group has the brand's domain yet.
    pub stored_group: &'static str,
    /// Name of the stored type in the schema.
    pub stored_type: &'static str,
    /// Converts from the stored form.
    pub from_stored: Convert,
    /// Converts to the stored form.
    pub to_stored: Convert,
    /// The stored field that a field selector names; `None` for an unknown one.
    pub stored_field: fn(&str) -> Option<&'static str>,
}

static FORMS: [OtherForm; 2] = [
    OtherForm {
        resource: "events.events",
        version: "v1",
        storage: "events",
        stored_group: "",
        stored_type: "core.v1.Event",
        from_stored: |_, stored| event::to_events_v1(stored),
        to_stored: |_, event| event::from_events_v1(event),
        stored_field: event::stored_field_label,
    },
    OtherForm {
        resource: "horizontalpodautoscalers.autoscaling",
        version: "v1",
        storage: "horizontalpodautoscalers.autoscaling",
        stored_group: "autoscaling",
        stored_type: "autoscaling.v2.HorizontalPodAutoscaler",
        from_stored: autoscaler::to_v1,
        to_stored: autoscaler::from_v1,
        stored_field: autoscaler::stored_field_label,
    },
];

/// The form of `resource` (plural name and group without its domain) in `version`; `None` if objects are stored so.
pub fn other_form(resource: &str, version: &str) -> Option<&'static OtherForm> {
    // few: the versions that are not stored.
    FORMS.iter().find(|form| form.resource == resource && form.version == version)
}
