//! flowcontrol/v1: FlowSchema and PriorityLevelConfiguration.
//!
//! Owns what both share: the life of spec and status, conditions, and the fixed specs of the mandatory objects, without
//! which a request could match no schema or no level.

mod flow_schema;
mod priority_level;

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

pub use self::flow_schema::{FlowSchema, mandatory_flow_schema};
pub use self::priority_level::{PriorityLevelConfiguration, mandatory_priority_level};
use crate::Action;
use crate::kinds::{Context, NameRule, object_meta};
use crate::validate::tree::{Tree, carry, child_mut};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Name of the schema and the level that no limit applies to.
pub const EXEMPT: &str = "exempt";

/// Name of the schema and the level for requests that match nothing else.
pub const CATCH_ALL: &str = "catch-all";

/// Prepares an update. A write of the status keeps the metadata, too, as in the reference; managed fields, which record
/// the write itself, stay.
fn prepare_update(context: &Context<'_>, old: &Value, new: &mut Value) {
    if context.action == Action::Status {
        let managed = new.at("metadata").at("managedFields").clone();
        carry(old, new, "metadata");
        if !managed.is_null() {
            crate::validate::tree::set(child_mut(new, "metadata"), "managedFields", managed);
        }
    }
    object_meta::update_spec_or_status(context, old, new);
}

/// Rules for the spec of the object of a name, at a path.
type SpecRules = fn(name: &str, spec: &Value, path: &Path) -> FieldErrors;

/// Rules for a new object whose spec follows `rules`.
fn validate_create(context: &Context<'_>, new: &Value, rules: SpecRules) -> FieldErrors {
    let mut errors = object_meta::on_create(context, new);
    errors.extend(validate_whole(new, rules));
    errors
}

/// Rules for an update: of a write of the status, for the status alone.
fn validate_update(context: &Context<'_>, new: &Value, rules: SpecRules) -> FieldErrors {
    if context.action == Action::Status {
        return validate_status(new.at("status"), &Path::new("status"));
    }
    let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
    errors.extend(validate_whole(new, rules));
    errors
}

fn validate_whole(new: &Value, rules: SpecRules) -> FieldErrors {
    let mut errors = rules(new.at("metadata").text("name"), new.at("spec"), &Path::new("spec"));
    errors.extend(validate_status(new.at("status"), &Path::new("status")));
    errors
}

/// Rules for the conditions in a status.
fn validate_status(status: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, condition) in status.items("conditions").iter().numbered() {
        let (kind, path) = (condition.text("type"), path.child("conditions").index(at).child("type"));
        if seen.is_repeated(kind) {
            errors.push(FieldError::duplicate(path.clone(), &quoted(kind)));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(path, "must not be empty"));
        }
    }
    errors
}
