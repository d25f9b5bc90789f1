//! storage/v1 CSIStorageCapacity: room for volumes of one class in one part of the topology, as a driver reports it.

use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::kinds::{Context, NameRule, Strategy, node_label, object_meta};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::selector::validate_label_selector;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The rules of storage capacities.
#[derive(Debug)]
pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_any(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, true, NameRule::Dns1123Subdomain);
        errors.extend(validate_any(new));
        errors.extend(object_meta::on_update(context, old, new));
        for field in ["nodeTopology", "storageClassName"] {
            errors.extend(immutable(new.at(field), old.at(field), Path::new(field)));
        }
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        node_label::warn_about_selector(context.brand, new.at("nodeTopology"), &Path::new("nodeTopology"))
    }
}

/// The reference checks no sign of `maximumVolumeSize` (vectors/kinds, k-csistoragecapacity).
fn validate_any(capacity: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if capacity.has("nodeTopology") {
        errors.extend(validate_label_selector(capacity.at("nodeTopology"), &Path::new("nodeTopology")));
    }
    let class = capacity.text("storageClassName");
    errors.extend(invalid_each(&Path::new("storageClassName"), class, names::dns1123_subdomain(class)));
    let amount = capacity.text("capacity");
    if Quantity::parse(amount).is_some_and(Quantity::is_negative) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid_str(Path::new("capacity"), amount, detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update};

    #[test]
    fn deprecated_labels_are_warned_of() {
        let capacity = json!({"nodeTopology": {
            "matchLabels": {"beta.orch.io/os": "x", "z": "a"},
            "matchExpressions": [{"key": "z", "operator": "Exists"}, {"key": "beta.orch.io/arch", "operator": "Exists"}],
        }});
        assert_eq!(
            CsiStorageCapacity.warnings(&CONTEXT, None, &capacity),
            [
                "nodeTopology.matchExpressions[1].key: beta.orch.io/arch is deprecated since v1.14; use \"orch.io/arch\" \
                 instead",
                "nodeTopology.matchLabels.beta.orch.io/os: deprecated since v1.14; use \"orch.io/os\" instead",
            ]
        );
    }

    #[test]
    fn class_and_topology_stay_and_the_amount_changes() {
        let whole = json!({"storageClassName": "fast", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"z": "a"}}});
        check_create(&CsiStorageCapacity, whole.clone(), &[]);
        check_create(
            &CsiStorageCapacity,
            json!({"storageClassName": "fast", "capacity": "-1", "maximumVolumeSize": "-1"}),
            &["capacity: Invalid value: \"-1\": must be greater than or equal to 0"],
        );
        check_update(
            &CsiStorageCapacity,
            whole,
            json!({"storageClassName": "slow", "capacity": "2Gi", "nodeTopology": {"matchLabels": {"z": "b"}}}),
            &[
                "nodeTopology: Invalid value: {\"matchLabels\":{\"z\":\"b\"}}: field is immutable",
                "storageClassName: Invalid value: \"slow\": field is immutable",
            ],
        );
        check_hostile(&CsiStorageCapacity);
    }
}
