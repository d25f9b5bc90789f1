//! storage/v1 VolumeAttributesClass: parameters of volumes that may change during their life, by driver.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::storage::class::{validate_parameters, validate_provisioner};
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::tree::{Tree, is_unchanged};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of volume attributes classes.
#[derive(Debug)]
pub struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_any(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
        errors.extend(validate_any(new));
        errors.extend(object_meta::on_update(context, old, new));
        for field in ["driverName", "parameters"] {
            if !is_unchanged(old.at(field), new.at(field)) {
                let detail = format!("updates to {field} are forbidden.");
                errors.push(FieldError::forbidden(Path::new(field), &detail));
            }
        }
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.text("driverName")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_any(class: &Value) -> FieldErrors {
    let mut errors = validate_provisioner(class.text("driverName"), &Path::new("driverName"));
    errors.extend(validate_parameters(class.at("parameters"), &Path::new("parameters")));
    if class.is_empty_at("parameters") {
        let detail = "must contain at least one key/value pair";
        errors.push(FieldError::required(Path::new("parameters"), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn a_class_has_a_driver_and_parameters_that_stay() {
        let class = json!({"driverName": "d.example.com", "parameters": {"iops": "100"}});
        check_create(&VolumeAttributesClass, class.clone(), &[]);
        check_create(
            &VolumeAttributesClass,
            json!({"parameters": {"": "x"}}),
            &["driverName: Required value", "parameters: Invalid value: \"\": field can not be empty."],
        );
        check_create(
            &VolumeAttributesClass,
            json!({"driverName": "d"}),
            &["parameters: Required value: must contain at least one key/value pair"],
        );
        let mut stored = class.clone();
        stored["metadata"] = json!({"namespace": ""});
        check_update(
            &VolumeAttributesClass,
            stored,
            json!({"metadata": {"namespace": ""}, "driverName": "e", "parameters": {"iops": "200"}}),
            &[
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ],
        );
        let class = created(&VolumeAttributesClass, class);
        assert_eq!(
            json!(VolumeAttributesClass.table_row(&class, CONTEXT.now)),
            json!(["n", "d.example.com", "<unknown>"])
        );
        check_hostile(&VolumeAttributesClass);
    }
}
