//! scheduling/v1 PriorityClass: values that never change, and the classes of the system.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::pod::scheduling::validate_preemption_policy;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::tree::{Tree, set_default_text};
use crate::validate::{FieldError, FieldErrors, Path};

const SYSTEM_PREFIX: &str = "system-";
const USER_VALUE_MAX: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The rules of priority classes.
#[derive(Debug)]
pub struct PriorityClass;

impl Strategy for PriorityClass {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        set_default_text(new, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        let name = new.at("metadata").text("name");
        if name.starts_with(SYSTEM_PREFIX) {
            errors.extend(validate_system_class(name, new));
        } else if new.int("value").unwrap_or(0) > USER_VALUE_MAX {
            let detail = format!("maximum allowed value of a user defined priority is {USER_VALUE_MAX}");
            errors.push(FieldError::forbidden(Path::new("value"), &detail));
        }
        errors.extend(validate_preemption_policy(new, &Path::default()));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if old.int("value").unwrap_or(0) != new.int("value").unwrap_or(0) {
            errors.push(FieldError::forbidden(Path::new("value"), "may not be changed in an update."));
        }
        let policy = new.text("preemptionPolicy");
        if old.text("preemptionPolicy") != policy {
            errors.push(FieldError::invalid_str(Path::new("preemptionPolicy"), policy, "field is immutable"));
        }
        errors
    }

    fn forbids_deletion(&self, name: &str) -> Option<&'static str> {
        let known = SYSTEM_CLASSES.iter().any(|(system, _)| *system == name);
        known.then_some("this is a system priority class and cannot be deleted")
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.int("value").unwrap_or(0)),
            json!(object.flag("globalDefault")),
            json!(age::age(object, now)),
            json!(object.text("preemptionPolicy")),
        ])
    }
}

fn validate_system_class(name: &str, class: &Value) -> Option<FieldError> {
    let problem = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, value)) if class.int("value") != Some(*value) => {
            format!("value of {name} PriorityClass must be {value}")
        }
        Some(_) if class.flag("globalDefault") => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => return None,
    };
    let detail = format!(
        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
    );
    Some(FieldError::forbidden(Path::new("metadata").child("name"), &detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, check_update, created};

    #[test]
    fn names_and_values() {
        let class = created(&PriorityClass, json!({"value": 1000}));
        assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
        assert_eq!(class["metadata"]["generation"], 1);
        check_create(&PriorityClass, json!({"value": 1000}), &[]);
        check_create(
            &PriorityClass,
            json!({"metadata": {"name": "system-x"}, "value": 1000}),
            &[
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
               error: system-x is not a known system priority class",
            ],
        );
        check_create(
            &PriorityClass,
            json!({"value": 1_000_000_001, "preemptionPolicy": "Maybe"}),
            &[
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
                "preemptionPolicy: Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ],
        );
        check_hostile(&PriorityClass);
    }

    #[test]
    fn the_value_stays() {
        check_update(
            &PriorityClass,
            json!({"value": 1}),
            json!({"value": 2, "preemptionPolicy": "Never"}),
            &[
                "value: Forbidden: may not be changed in an update.",
                "preemptionPolicy: Invalid value: \"Never\": field is immutable",
            ],
        );
    }
}
