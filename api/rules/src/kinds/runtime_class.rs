//! node/v1 RuntimeClass: the handler of a runtime, and what its pods cost and need.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::pod::resources::{Claims, validate_requirements};
use crate::kinds::pod::scheduling::validate_tolerations;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, node_label, object_meta};
use crate::validate::metadata::{immutable, invalid_each, validate_labels};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The rules of runtime classes.
#[derive(Debug)]
pub struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_class(context, new));
        errors
    }

    // The reference checks the whole object and then the change.
    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
        errors.extend(validate_class(context, new));
        errors.extend(object_meta::on_update(context, old, new));
        errors.extend(immutable(new.at("handler"), old.at("handler"), Path::new("handler")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        let labels = new.at("scheduling").entries("nodeSelector").into_iter();
        let deprecated = labels.filter_map(|(label, _)| node_label::deprecation(context.brand, label));
        // The reference names no label.
        deprecated.map(|text| format!("scheduling.nodeSelector: {text}")).collect()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.text("handler")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_class(context: &Context<'_>, class: &Value) -> FieldErrors {
    let (handler, path) = (class.text("handler"), Path::new("handler"));
    let mut errors = match handler {
        "" => FieldErrors::from(FieldError::required(path, "")),
        _ => invalid_each(&path, handler, names::dns1123_label(handler)),
    };
    if class.has("overhead") {
        // As in the reference, the amounts are checked as the limits of a container.
        let limits = json!({"limits": class.at("overhead").at("podFixed").clone()});
        let path = Path::new("overhead");
        errors.extend(validate_requirements(context.brand, &limits, &Claims::new(&[]), &path));
    }
    let (scheduling, path) = (class.at("scheduling"), Path::new("scheduling"));
    errors.extend(validate_labels(scheduling.at("nodeSelector"), &path.child("nodeSelector")));
    let tolerations = scheduling.items("tolerations");
    errors.extend(validate_tolerations(tolerations, &path.child("tolerations")));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update};

    #[test]
    fn handlers_amounts_and_nodes_are_checked() {
        let good = json!({
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {"nodeSelector": {"k": "v"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
        });
        check_create(&RuntimeClass, good, &[]);
        check_create(&RuntimeClass, json!({}), &["handler: Required value"]);
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
            and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
            '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        check_create(
            &RuntimeClass,
            json!({"handler": "Bad_", "overhead": {"podFixed": {"cpu": "-1"}}, "scheduling": {
                "tolerations": [{"operator": "Odd", "key": "k"}],
            }}),
            &[
                &format!("handler: Invalid value: \"Bad_\": {label}"),
                "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "scheduling.tolerations[0].operator: Unsupported value: \"Odd\": supported values: \"Equal\", \"Exists\"",
            ],
        );
        check_hostile(&RuntimeClass);
    }

    #[test]
    fn the_handler_stays() {
        check_update(
            &RuntimeClass,
            json!({"metadata": {"namespace": ""}, "handler": "a"}),
            json!({"metadata": {"namespace": ""}, "handler": "b", "overhead": {"podFixed": {"cpu": "-1"}}}),
            &[
                "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "handler: Invalid value: \"b\": field is immutable",
            ],
        );
    }

    #[test]
    fn labels_that_were_replaced_are_warned_of() {
        let class = json!({"handler": "h", "scheduling": {"nodeSelector": {
            "beta.orch.io/os": "x", "failure-domain.beta.orch.io/zone": "z", "beta.orch.io/other": "o", "orch.io/os": "x",
        }}});
        assert_eq!(
            RuntimeClass.warnings(&CONTEXT, None, &class),
            [
                "scheduling.nodeSelector: deprecated since v1.14; use \"orch.io/os\" instead",
                "scheduling.nodeSelector: deprecated since v1.17; use \"topology.orch.io/zone\" instead",
            ]
        );
    }
}
