//! The status of a claim, as the controllers that grow and modify volumes write it.
//!
//! Owns the rules for the amounts and the states of a resize. Never looks at the spec.

use orch_proto::Brand;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::kinds::pod::resources::is_native;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// States of a resize, in the order in which errors list them.
const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Rules for the amounts and the states of a resize.
pub(super) fn validate_status(brand: &Brand, status: &Value) -> FieldErrors {
    let path = Path::new("status");
    let capacity = path.child("capacity");
    let amounts = status.entries("capacity").into_iter();
    let mut errors: FieldErrors =
        amounts.filter_map(|(name, amount)| negative_amount(amount, &capacity.key(name))).collect();
    let states = path.child("allocatedResourceStatuses");
    for (name, state) in status.entries("allocatedResourceStatuses") {
        errors.extend(validate_resource(brand, name, &states));
        // few: five states. The reference shows the resource in place of its state.
        if !RESIZE_STATUSES.contains(&state.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported(states.clone(), name, &RESIZE_STATUSES));
        }
    }
    let allocated = path.child("allocatedResources");
    for (name, amount) in status.entries("allocatedResources") {
        let refused = validate_resource(brand, name, &allocated);
        if refused.is_empty() {
            errors.extend(negative_amount(amount, &allocated.key(name)));
        }
        errors.extend(refused);
    }
    errors
}

/// The error of an amount below zero.
fn negative_amount(amount: &Value, path: &Path) -> Option<FieldError> {
    let quantity = Quantity::parse(amount.as_str()?).filter(|quantity| quantity.is_negative())?;
    let shown = quantity.units().unwrap_or(i64::MIN).to_string();
    Some(FieldError::invalid(path.clone(), &shown, "must be a valid resource quantity"))
}

/// Checks the name of a resource that a claim's storage allots: of the system's own ones, only storage.
fn validate_resource(brand: &Brand, name: &str, path: &Path) -> FieldErrors {
    let mut errors = invalid_each(path, name, names::qualified_name(name));
    if errors.is_empty() && is_native(brand, name) && name != "storage" {
        errors.push(FieldError::not_supported(path.clone(), name, &["storage"]));
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use crate::Action;
    use crate::kinds::Context;
    use crate::kinds::testing::{CONTEXT, check_update_in};
    use crate::kinds::volume_claim::PersistentVolumeClaim;
    use crate::kinds::volume_claim::tests::claim;
    use crate::validate::tree::set;

    #[test]
    fn a_status_allots_storage_only() {
        let context = Context { action: Action::Status, ..CONTEXT };
        let states = "supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \
                      \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"";
        let unknown = format!("status.allocatedResourceStatuses: Unsupported value: \"storage\": {states}");
        for (status, expected) in [
            (
                json!({
                    "allocatedResources": {"storage": "2Gi", "example.com/x": "1"},
                    "allocatedResourceStatuses": {"storage": "NodeResizePending"},
                }),
                &[][..],
            ),
            (
                json!({"capacity": {"storage": "-1"}, "allocatedResources": {"cpu": "1", "storage": "-1"}}),
                &[
                    "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                    "status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"",
                    "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
                ],
            ),
            (json!({"allocatedResourceStatuses": {"storage": "Odd"}}), &[unknown.as_str()]),
        ] {
            let mut new = claim("1Gi");
            set(&mut new, "status", status);
            check_update_in(&context, &PersistentVolumeClaim, claim("1Gi"), new, expected);
        }
    }
}
