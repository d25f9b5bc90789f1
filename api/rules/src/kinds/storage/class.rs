//! storage/v1 StorageClass: a provisioner with its parameters, which stay as they are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use orch_proto::brand::{KUBERNETES, ORCH};
use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, node_label, object_meta};
use crate::validate::metadata::{immutable, invalid_each, validate_label_name};
use crate::validate::tree::{Tree, set_default_text};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const RECLAIM_POLICIES: [&str; 2] = ["Delete", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

/// Most parameters of a class.
const PARAMETERS_MAX: usize = 512;
/// Most warnings about one class: the header that carries them is bounded, too.
const WARNINGS_MAX: usize = 32;
/// Most bytes of all names and values of parameters.
const PARAMETERS_BYTES_MAX: usize = 256 << 10;

/// The rules of storage classes.
#[derive(Debug)]
pub struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        set_default_text(new, "reclaimPolicy", "Delete");
        set_default_text(new, "volumeBindingMode", "Immediate");
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_any(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
        errors.extend(validate_any(new));
        errors.extend(object_meta::on_update(context, old, new));
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            errors.extend(immutable(new.at(field), old.at(field), Path::new(field)));
        }
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        let path = Path::new("allowedTopologies");
        let terms = new.items("allowedTopologies").iter().numbered();
        let keys = terms.flat_map(|(at, term)| {
            let path = path.index(at).child("matchLabelExpressions");
            let requirements = term.items("matchLabelExpressions").iter().numbered();
            requirements.map(move |(at, requirement)| (requirement.text("key"), path.index(at).child("key")))
        });
        let deprecated = keys.filter_map(|(key, path)| {
            Some(format!("{path}: {}", node_label::deprecation(context.brand, key)?))
        });
        deprecated.take(WARNINGS_MAX).collect()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let name = object.at("metadata").text("name");
        Some(vec![
            if is_default(object) { json!(format!("{name} (default)")) } else { json!(name) },
            json!(object.text("provisioner")),
            json!(object.text("reclaimPolicy")),
            json!(object.text("volumeBindingMode")),
            json!(object.flag("allowVolumeExpansion")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_any(class: &Value) -> FieldErrors {
    let mut errors = validate_provisioner(class.text("provisioner"), &Path::new("provisioner"));
    errors.extend(validate_parameters(class.at("parameters"), &Path::new("parameters")));
    for (field, supported) in [("reclaimPolicy", RECLAIM_POLICIES), ("volumeBindingMode", BINDING_MODES)] {
        let value = class.text(field);
        // few: two values.
        if !value.is_empty() && !supported.contains(&value) {
            errors.push(FieldError::not_supported(Path::new(field), value, &supported));
        }
    }
    errors.extend(validate_topologies(class.items("allowedTopologies"), &Path::new("allowedTopologies")));
    errors
}

/// Whether the class is marked as the default one, under either brand: a table is printed without a brand.
fn is_default(class: &Value) -> bool {
    let annotations = class.at("metadata").at("annotations");
    let is_marked =
        |stem: &str, domain: &str| annotations.text(&format!("{stem}.{domain}/is-default-class")) == "true";
    let is_of = |domain: &str| is_marked("storageclass", domain) || is_marked("storageclass.beta", domain);
    is_of(ORCH.label_domain) || is_of(KUBERNETES.label_domain)
}

/// Rules for the name of a provisioner or driver of a class.
pub(super) fn validate_provisioner(name: &str, path: &Path) -> FieldErrors {
    if name.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), ""));
    }
    let name = name.to_lowercase();
    invalid_each(path, &name, names::qualified_name(&name))
}

/// Rules for the parameters of a class.
pub(super) fn validate_parameters(parameters: &Value, path: &Path) -> FieldErrors {
    let Some(parameters) = parameters.as_object() else { return FieldErrors::new() };
    if parameters.len() > PARAMETERS_MAX {
        return FieldErrors::from(FieldError::too_long(path.clone(), PARAMETERS_MAX));
    }
    let mut errors = FieldErrors::new();
    let mut bytes = 0_usize;
    for (name, value) in parameters.iter() {
        if name.is_empty() {
            errors.push(FieldError::invalid_str(path.clone(), name, "field can not be empty."));
        }
        bytes = bytes.saturating_add(name.len() + value.as_str().unwrap_or_default().len());
    }
    if bytes > PARAMETERS_BYTES_MAX {
        errors.push(FieldError::too_long(path.clone(), PARAMETERS_BYTES_MAX));
    }
    errors
}

fn validate_topologies(terms: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    // How many times each term stood before. The reference counts a term without requirements once for each term.
    let mut seen: BTreeMap<Vec<(&str, Vec<&str>)>, usize> = BTreeMap::new();
    seen.insert(Vec::new(), terms.len());
    for (at, term) in terms.iter().numbered() {
        let path = path.index(at).child("matchLabelExpressions");
        let mut requirements: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (at, requirement) in term.items("matchLabelExpressions").iter().numbered() {
            let (path, key) = (path.index(at), requirement.text("key"));
            errors.extend(validate_requirement(requirement, &path));
            let mut values = requirement.texts("values");
            values.sort_unstable();
            values.dedup();
            if requirements.insert(key, values).is_some() {
                errors.push(FieldError::duplicate(path.child("key"), &quoted(key)));
            }
        }
        match seen.entry(requirements.into_iter().collect()) {
            Entry::Vacant(first) => {
                first.insert(1);
            }
            Entry::Occupied(mut before) => {
                for _ in 0..*before.get() {
                    if !count_step() || errors.is_full() {
                        break;
                    }
                    errors.push(FieldError::duplicate(path.clone(), "\"\""));
                }
                *before.get_mut() += 1;
            }
        }
    }
    errors
}

fn validate_requirement(requirement: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let values = path.child("values");
    if requirement.is_empty_at("values") {
        errors.push(FieldError::required(values.clone(), ""));
    }
    let mut seen = Distinct::new();
    for (at, value) in requirement.texts("values").into_iter().numbered() {
        if seen.is_repeated(value) {
            errors.push(FieldError::duplicate(values.index(at), &quoted(value)));
        }
    }
    errors.extend(validate_label_name(requirement.text("key"), &path.child("key")));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn a_class_deletes_and_binds_at_once_by_default() {
        let mut class = created(&StorageClass, json!({"provisioner": "p.example.com"}));
        assert_eq!(
            (&class["reclaimPolicy"], &class["volumeBindingMode"]),
            (&json!("Delete"), &json!("Immediate"))
        );
        let row = |class: &Value| json!(StorageClass.table_row(class, CONTEXT.now));
        assert_eq!(row(&class), json!(["n", "p.example.com", "Delete", "Immediate", false, "<unknown>"]));
        class["metadata"]["annotations"] = json!({"storageclass.orch.io/is-default-class": "true"});
        assert_eq!(row(&class)[0], "n (default)");
        check_hostile(&StorageClass);
    }

    #[test]
    fn parameters_policies_and_topologies() {
        check_create(&StorageClass, json!({}), &["provisioner: Required value"]);
        let term = |values: Value| json!({"matchLabelExpressions": [{"key": "k", "values": values}]});
        check_create(
            &StorageClass,
            json!({
                "provisioner": "p", "parameters": {"": "x"}, "reclaimPolicy": "Recycle", "volumeBindingMode": "Later",
                "allowedTopologies": [
                    term(json!(["a", "b"])), term(json!(["b", "a"])), term(json!([])), term(json!(["c", "c"])),
                    {"matchLabelExpressions": [{"key": "j", "values": ["a"]}, {"key": "j", "values": ["b"]}]},
                ],
            }),
            &[
                "parameters: Invalid value: \"\": field can not be empty.",
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
                "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
                "allowedTopologies[2].matchLabelExpressions[0].values: Required value",
                "allowedTopologies[3].matchLabelExpressions[0].values[1]: Duplicate value: \"c\"",
                "allowedTopologies[4].matchLabelExpressions[1].key: Duplicate value: \"j\"",
            ],
        );
        let large = "x".repeat(PARAMETERS_BYTES_MAX);
        check_create(
            &StorageClass,
            json!({"provisioner": "p", "parameters": {"k": large}}),
            &["parameters: Too long: may not be more than 262144 bytes"],
        );
    }

    #[test]
    fn topologies_by_deprecated_labels_are_warned_of() {
        let class = json!({"allowedTopologies": [{"matchLabelExpressions": [
            {"key": "topology.orch.io/zone", "values": ["a"]}, {"key": "failure-domain.beta.orch.io/zone", "values": ["a"]},
        ]}]});
        assert_eq!(
            StorageClass.warnings(&CONTEXT, None, &class),
            [
                "allowedTopologies[0].matchLabelExpressions[1].key: deprecated since v1.17; use \"topology.orch.io/zone\" \
                 instead"
            ]
        );
    }

    #[test]
    fn provisioner_and_parameters_are_immutable() {
        check_update(
            &StorageClass,
            json!({"metadata": {"namespace": ""}, "provisioner": "p", "parameters": {"type": "ssd"}}),
            json!({"metadata": {"namespace": "", "uid": "v"}, "provisioner": "q", "parameters": {"type": "hdd"},
                "reclaimPolicy": "Nope", "mountOptions": ["rw"]}),
            &[
                "reclaimPolicy: Unsupported value: \"Nope\": supported values: \"Delete\", \"Retain\"",
                "metadata.uid: Invalid value: \"v\": field is immutable",
                "parameters: Invalid value: {\"type\":\"hdd\"}: field is immutable",
                "provisioner: Invalid value: \"q\": field is immutable",
                "reclaimPolicy: Invalid value: \"Nope\": field is immutable",
            ],
        );
    }
}
