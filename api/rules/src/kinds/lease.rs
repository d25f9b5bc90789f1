//! coordination/v1 Lease: a positive duration, and transitions that are not negative.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, Strategy, age};
use crate::validate::tree::{Tree, child_mut, unset};
use crate::validate::{FieldError, FieldErrors, Path, validate_object_meta_update};

/// The rules of leases.
#[derive(Debug)]
pub struct Lease;

impl Strategy for Lease {
    // Coordinated leader election is off, as it is by default in the reference.
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        unset(spec, "strategy");
        unset(spec, "preferredHolder");
    }

    fn prepare_for_update(&self, context: &Context<'_>, _old: &Value, new: &mut Value) {
        self.prepare_for_create(context, new);
    }

    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        validate_spec(new.at("spec"), &Path::new("spec"))
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let path = Path::new("metadata");
        let mut errors = validate_object_meta_update(new.at("metadata"), old.at("metadata"), &path);
        errors.extend(self.validate_create(context, new));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.at("spec").text("holderIdentity")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (duration, transitions) = (spec.int("leaseDurationSeconds"), spec.int("leaseTransitions"));
    if let Some(duration) = duration.filter(|&seconds| seconds <= 0) {
        let path = path.child("leaseDurationSeconds");
        errors.push(FieldError::invalid(path, &duration.to_string(), "must be greater than 0"));
    }
    if let Some(transitions) = transitions.filter(|&count| count < 0) {
        let path = path.child("leaseTransitions");
        errors.push(FieldError::invalid(
            path,
            &transitions.to_string(),
            "must be greater than or equal to 0",
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, check_update};

    #[test]
    fn durations_and_counts() {
        check_create(&Lease, json!({"spec": {"leaseDurationSeconds": 15, "leaseTransitions": 0}}), &[]);
        check_create(
            &Lease,
            json!({"spec": {"leaseDurationSeconds": -1, "leaseTransitions": -2}}),
            &[
                "spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -2: must be greater than or equal to 0",
            ],
        );
        check_update(
            &Lease,
            json!({}),
            json!({"spec": {"leaseDurationSeconds": 0}}),
            &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        );
        check_hostile(&Lease);
    }
}
