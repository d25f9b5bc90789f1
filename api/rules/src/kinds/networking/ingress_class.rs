//! networking/v1 IngressClass: the controller of ingresses, which stays, and an object with its parameters.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::prefixed_path::validate_domain_prefixed_path;
use crate::validate::tree::{Tree, existing_mut, set_default};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Longest name of a controller, in bytes.
const CONTROLLER_LENGTH_MAX: usize = 250;
const SCOPES: [&str; 2] = ["Cluster", "Namespace"];

/// The rules of ingress classes.
#[derive(Debug)]
pub struct IngressClass;

impl Strategy for IngressClass {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        if let Some(parameters) = existing_mut(new, "spec").and_then(|spec| existing_mut(spec, "parameters"))
        {
            set_default(parameters, "scope", "Cluster");
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        let (before, after) = (old.at("spec").at("controller"), new.at("spec").at("controller"));
        errors.extend(immutable(after, before, Path::new("spec").child("controller")));
        errors.extend(object_meta::whole(context, new, false, NameRule::Dns1123Subdomain));
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.text("controller")),
            json!(format_parameters(spec.at("parameters"))),
            json!(age::age(object, now)),
        ])
    }
}

/// `Kind.group/name`; `<none>` for an absent reference.
fn format_parameters(parameters: &Value) -> String {
    if parameters.is_null() {
        return "<none>".to_owned();
    }
    let (kind, name) = (parameters.text("kind"), parameters.text("name"));
    match parameters.at("apiGroup").as_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    let (controller, controller_path) = (spec.text("controller"), path.child("controller"));
    let mut errors = FieldErrors::new();
    if controller.len() > CONTROLLER_LENGTH_MAX {
        errors.push(FieldError::too_long(controller_path.clone(), CONTROLLER_LENGTH_MAX));
    }
    errors.extend(validate_domain_prefixed_path(controller, &controller_path));
    if spec.has("parameters") {
        errors.extend(validate_parameters(spec.at("parameters"), &path.child("parameters")));
    }
    errors
}

fn validate_parameters(parameters: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(group) = parameters.at("apiGroup").as_str() {
        errors.extend(invalid_each(&path.child("apiGroup"), group, names::dns1123_subdomain(group)));
    }
    for field in ["kind", "name"] {
        let (value, path) = (parameters.text(field), path.child(field));
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else {
            errors.extend(invalid_each(&path, value, names::path_segment(value)));
        }
    }
    errors.extend(validate_scope(parameters, path));
    errors
}

fn validate_scope(parameters: &Value, path: &Path) -> FieldErrors {
    let (namespace, namespace_path) = (parameters.at("namespace").as_str(), path.child("namespace"));
    match (parameters.at("scope").as_str(), namespace) {
        (None, _) => FieldError::required(path.child("scope"), "").into(),
        (Some("Cluster"), None) => FieldErrors::new(),
        (Some("Cluster"), Some(_)) => {
            FieldError::forbidden(namespace_path, "`parameters.scope` is set to 'Cluster'").into()
        }
        (Some("Namespace"), None) => {
            FieldError::required(namespace_path, "`parameters.scope` is set to 'Namespace'").into()
        }
        (Some("Namespace"), Some(name)) => invalid_each(&namespace_path, name, names::dns1123_label(name)),
        (Some(other), _) => FieldError::not_supported(path.child("scope"), other, &SCOPES).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn a_class_names_its_controller_and_parameters() {
        let object = json!({"spec": {"controller": "a.io/b", "parameters": {"apiGroup": "g.io", "kind": "K", "name": "p"}}});
        check_create(&IngressClass, object.clone(), &[]);
        let object = created(&IngressClass, object);
        assert_eq!(object["spec"]["parameters"]["scope"], "Cluster");
        assert_eq!(
            json!(IngressClass.table_row(&object, CONTEXT.now)),
            json!(["n", "a.io/b", "K.g.io/p", "<unknown>"])
        );
        check_hostile(&IngressClass);
    }

    #[test]
    fn controllers_are_paths_below_a_domain() {
        for (controller, expected) in [
            ("", vec!["spec.controller: Required value".to_owned()]),
            (
                "plain",
                vec![
                    "spec.controller: Invalid value: \"plain\": must be a domain-prefixed path (such as \"acme.io/foo\")"
                        .to_owned(),
                ],
            ),
            (
                "a.io/b c",
                vec![
                    "spec.controller: Invalid value: \"b c\": Invalid path (regex used for validation is \
                     '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
                        .to_owned(),
                ],
            ),
        ] {
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check_create(&IngressClass, json!({"spec": {"controller": controller}}), &expected);
        }
    }

    #[test]
    fn the_scope_says_whether_there_is_a_namespace() {
        let class = |scope: &str, namespace: Option<&str>| {
            let mut parameters = json!({"kind": "K", "name": "p", "scope": scope});
            if let Some(namespace) = namespace {
                parameters["namespace"] = json!(namespace);
            }
            json!({"spec": {"controller": "a.io/b", "parameters": parameters}})
        };
        check_create(&IngressClass, class("Namespace", Some("ns")), &[]);
        check_create(
            &IngressClass,
            class("Namespace", None),
            &["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        );
        check_create(
            &IngressClass,
            class("Cluster", Some("ns")),
            &["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
        );
        check_create(
            &IngressClass,
            json!({"spec": {"controller": "a.io/b", "parameters": {}}}),
            &["spec.parameters.kind: Required value", "spec.parameters.name: Required value"],
        );
        check_create(
            &IngressClass,
            class("Odd", None),
            &[
                "spec.parameters.scope: Unsupported value: \"Odd\": supported values: \"Cluster\", \"Namespace\"",
            ],
        );
        let mut stored = class("Cluster", None);
        stored["metadata"] = json!({"namespace": ""});
        check_update(
            &IngressClass,
            stored,
            json!({"metadata": {"namespace": ""}, "spec": {"controller": "a.io/c"}}),
            &["spec.controller: Invalid value: \"a.io/c\": field is immutable"],
        );
    }
}
