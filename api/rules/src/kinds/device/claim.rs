//! resource/v1 ResourceClaim and ResourceClaimTemplate: a spec that stays, and a status of the allocation.
//!
//! Owns the right to administrator's access, which the namespace's label gives.

use orch_schema::json;
use orch_schema::value::Value;

use super::allocation::{drop_deallocated, first_admin_result, validate_status};
use super::request::{default_requests, validate_claim_spec};
use crate::Action;
use crate::kinds::{Cell, Context, NameRule, NamespaceRequirement, Strategy, age, object_meta};
use crate::validate::metadata::{immutable, validate_annotations, validate_labels};
use crate::validate::tree::{Tree, child_mut, existing_mut, set};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of claims of devices.
#[derive(Debug)]
pub struct ResourceClaim;

/// The rules of templates of such claims.
#[derive(Debug)]
pub struct ResourceClaimTemplate;

impl Strategy for ResourceClaim {
    fn compiles_expressions(&self) -> bool {
        true
    }

    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        default_requests(child_mut(new, "spec"));
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Status {
            for field in ["annotations", "finalizers", "labels", "ownerReferences"] {
                object_meta::keep_metadata(old, new, field);
            }
            drop_deallocated(old, new);
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_claim_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        if context.action == Action::Status {
            let mut errors = object_meta::on_update(context, old, new);
            errors.extend(validate_status(old, new, &Path::new("status")));
            return errors;
        }
        validate_kept_spec(context, old, new)
    }

    fn namespace_requirement(
        &self,
        context: &Context<'_>,
        old: Option<&Value>,
        new: &Value,
    ) -> Option<NamespaceRequirement> {
        if context.action != Action::Status {
            return admin_access(context, old, new.at("spec"));
        }
        let granted = old.and_then(|old| first_admin_result(old.at("status")));
        let at = first_admin_result(new.at("status")).filter(|_| granted.is_none())?;
        let results = Path::new("status").child("allocation").child("devices").child("results");
        Some(admin_requirement(context, results.index(at)))
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(state(object)),
            json!(age::age(object, now)),
        ])
    }
}

impl Strategy for ResourceClaimTemplate {
    fn compiles_expressions(&self) -> bool {
        true
    }

    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        if let Some(spec) = existing_mut(new, "spec") {
            default_requests(child_mut(spec, "spec"));
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        let (spec, path) = (new.at("spec"), Path::new("spec"));
        let (metadata, metadata_path) = (spec.at("metadata"), path.child("metadata"));
        let (labels, annotations) = (metadata.at("labels"), metadata.at("annotations"));
        errors.extend(validate_annotations(annotations, &metadata_path.child("annotations")));
        errors.extend(validate_labels(labels, &metadata_path.child("labels")));
        errors.extend(validate_claim_spec(spec.at("spec"), &path.child("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        validate_kept_spec(context, old, new)
    }

    fn namespace_requirement(
        &self,
        context: &Context<'_>,
        old: Option<&Value>,
        new: &Value,
    ) -> Option<NamespaceRequirement> {
        admin_access(context, old, new.at("spec").at("spec"))
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![object.at("metadata").at("name").clone(), json!(age::age(object, now))])
    }
}

fn validate_kept_spec(context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
    let mut errors = object_meta::whole(context, new, true, NameRule::Dns1123Subdomain);
    errors.extend(object_meta::on_update(context, old, new));
    errors.extend(immutable(new.at("spec"), old.at("spec"), Path::new("spec")));
    errors
}

/// The label that a new claim needs whose requests ask for administrator's access.
fn admin_access(context: &Context<'_>, old: Option<&Value>, spec: &Value) -> Option<NamespaceRequirement> {
    // The spec of a stored claim does not change.
    if old.is_some() {
        return None;
    }
    let requests = spec.at("devices").items("requests");
    // once: one request is looked for.
    let at = requests.iter().position(|request| request.at("exactly").flag("adminAccess"))?;
    Some(admin_requirement(context, Path::new("spec").child("devices").child("requests").index(at)))
}

fn admin_requirement(context: &Context<'_>, path: Path) -> NamespaceRequirement {
    let label = format!("resource.{}", context.brand.label("admin-access"));
    let detail =
        format!("admin access to devices requires the `{label}: true` label on the containing namespace");
    let error = FieldError::forbidden(path.child("adminAccess"), &detail);
    NamespaceRequirement { label, value: "true", error }
}

fn state(claim: &Value) -> String {
    let is_deleted = claim.at("metadata").has("deletionTimestamp");
    let status = claim.at("status");
    let mut states = if is_deleted { vec!["deleted"] } else { Vec::new() };
    if status.has("allocation") {
        states.push("allocated");
        if !status.items("reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !is_deleted {
        states.push("pending");
    }
    states.join(",")
}
