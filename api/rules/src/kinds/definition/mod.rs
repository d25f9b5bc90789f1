//! apiextensions/v1 CustomResourceDefinition: a kind that clients add to the API.
//!
//! Owns everything about a definition that follows from the object alone: defaults, the fields that the server sets, the rules
//! for it and for the schemas in it, warnings, and the texts of its conditions. It compiles no table of objects
//! (`kinds::defined` does) and knows no other definition: the loop of definitions hands in the names in use.
//!
//! - `defaults`: absent names, the conversion, stored versions; what create and update set
//! - `spec`: rules of the specification but for schemas, with `version`, `conversion`, `subresources`, `columns`,
//!   `selectable_fields`; `hoist` the paths in messages; `stored_versions`; `ratchet` rules that an old definition breaks
//! - `schema`: rules of a schema
//! - `names`, `conditions`, `approval`: pure functions for the loop; `settled`: whether it has nothing to do

mod approval;
mod columns;
pub mod conditions;
mod conversion;
#[cfg(test)]
mod corpus;
mod defaults;
mod deletion;
mod hoist;
pub mod names;
mod ratchet;
mod schema;
mod selectable_fields;
pub mod settled;
mod spec;
mod stored_versions;
mod subresources;
#[cfg(test)]
mod tests;
mod version;

use orch_schema::json;
use orch_schema::value::Value;

pub use approval::approval;
pub use conversion::has_unreadable_ca_bundle;
pub use deletion::finalizer;
pub use schema::non_structural;

use crate::Action;
use crate::kinds::{Cell, Context, Strategy};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, validate_object_meta_update};

/// The rules of definitions.
#[derive(Debug)]
pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        defaults::fill(new);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        defaults::prepare_for_create(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        match context.action {
            // The reference lets a write of the status change metadata, too.
            Action::Status => crate::validate::tree::carry(old, new, "spec"),
            _ => defaults::prepare_for_update(old, new),
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        errors.extend(name_of_resource(new));
        errors.extend(spec::validate_whole(context, None, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        // Finalizers without a domain are the cluster's own, too.
        let metadata = Path::new("metadata");
        let mut errors = validate_object_meta_update(new.at("metadata"), old.at("metadata"), &metadata);
        match context.action {
            Action::Status => {
                let accepted = Path::new("status").child("acceptedNames");
                errors.extend(spec::validate_names(new.at("status").at("acceptedNames"), &accepted));
            }
            _ => errors.extend(spec::validate_whole(context, Some(old), new)),
        }
        errors
    }

    fn mark_deleted(&self, context: &Context<'_>, old: &Value) -> Option<Value> {
        deletion::marked(context, old)
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        match context.action {
            Action::Status => Vec::new(),
            _ => schema::warnings(old, new),
        }
    }

    fn table_row(&self, object: &Value, _now: &str) -> Option<Vec<Cell>> {
        let metadata = object.at("metadata");
        Some(vec![json!(metadata.text("name")), metadata.at("creationTimestamp").clone()])
    }
}

/// The errors of a definition whose name is not that of its resource. What a name would be generated from is held to be one, too.
fn name_of_resource(definition: &Value) -> FieldErrors {
    let spec = definition.at("spec");
    let (plural, group) = (spec.at("names").text("plural"), spec.text("group"));
    let detail = r#"must be spec.names.plural+"."+spec.group"#;
    let fault = |field: &str| {
        let name = definition.at("metadata").text(field);
        let is_own = name.strip_prefix(plural).and_then(|rest| rest.strip_prefix('.')) == Some(group);
        let path = || Path::new("metadata").child(field);
        (!is_own && !name.is_empty()).then(|| FieldError::invalid_str(path(), name, detail))
    };
    ["generateName", "name"].into_iter().filter_map(fault).collect()
}
