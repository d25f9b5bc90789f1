//! RoleBinding and ClusterRoleBinding: one role, which never changes, and its subjects.

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, child_mut, is_unchanged, items_mut, set_default_text, shown};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The rules of role bindings.
#[derive(Debug)]
pub struct RoleBinding;

/// The rules of cluster role bindings.
#[derive(Debug)]
pub struct ClusterRoleBinding;

const IN_NAMESPACE: &[&str] = &["Role", "ClusterRole"];
const IN_CLUSTER: &[&str] = &["ClusterRole"];

impl Strategy for RoleBinding {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        fill_groups(context, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_binding(context, new, IN_NAMESPACE));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        validate_change(context, old, new, IN_NAMESPACE)
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(row(object, now))
    }
}

impl Strategy for ClusterRoleBinding {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        fill_groups(context, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_binding(context, new, IN_CLUSTER));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        validate_change(context, old, new, IN_CLUSTER)
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(row(object, now))
    }
}

fn rbac_group(context: &Context<'_>) -> String {
    context.brand.group("rbac.authorization")
}

fn fill_groups(context: &Context<'_>, binding: &mut Value) {
    let group = rbac_group(context);
    set_default_text(child_mut(binding, "roleRef"), "apiGroup", &group);
    for subject in items_mut(binding, "subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            set_default_text(subject, "apiGroup", &group);
        }
    }
}

fn validate_change(context: &Context<'_>, old: &Value, new: &Value, kinds: &[&str]) -> FieldErrors {
    let namespaced = kinds == IN_NAMESPACE;
    let mut errors = object_meta::whole(context, new, namespaced, NameRule::PathSegment);
    errors.extend(validate_binding(context, new, kinds));
    errors.extend(object_meta::on_update(context, old, new));
    if !is_unchanged(old.at("roleRef"), new.at("roleRef")) {
        let role = shown(new.at("roleRef"));
        errors.push(FieldError::invalid(Path::new("roleRef"), &role, "cannot change roleRef"));
    }
    errors
}

fn validate_binding(context: &Context<'_>, binding: &Value, kinds: &[&str]) -> FieldErrors {
    let group = rbac_group(context);
    let (role, path) = (binding.at("roleRef"), Path::new("roleRef"));
    let mut errors = FieldErrors::new();
    if role.text("apiGroup") != group {
        errors.push(FieldError::not_supported(path.child("apiGroup"), role.text("apiGroup"), &[&group]));
    }
    // few: two kinds.
    if !kinds.contains(&role.text("kind")) {
        errors.push(FieldError::not_supported(path.child("kind"), role.text("kind"), kinds));
    }
    let name = role.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    } else {
        errors.extend(invalid_each(&path.child("name"), name, names::path_segment(name)));
    }
    let subjects = Path::new("subjects");
    for (at, subject) in binding.items("subjects").iter().numbered() {
        errors.extend(validate_subject(&group, subject, kinds == IN_NAMESPACE, &subjects.index(at)));
    }
    errors
}

fn validate_subject(group: &str, subject: &Value, namespaced: bool, path: &Path) -> FieldErrors {
    let (name, own_group) = (subject.text("name"), subject.text("apiGroup"));
    let mut errors = FieldErrors::new();
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(invalid_each(&path.child("name"), name, names::dns1123_subdomain(name)));
            }
            if !own_group.is_empty() {
                errors.push(FieldError::not_supported(path.child("apiGroup"), own_group, &[""]));
            }
            if !namespaced && subject.text("namespace").is_empty() {
                errors.push(FieldError::required(path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if own_group != group {
                errors.push(FieldError::not_supported(path.child("apiGroup"), own_group, &[group]));
            }
        }
        kind => {
            let known = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(path.child("kind"), kind, &known));
        }
    }
    errors
}

fn row(binding: &Value, now: &str) -> Vec<Cell> {
    let role = binding.at("roleRef");
    let subjects = |kind: &str| {
        let of_kind = binding.items("subjects").iter().filter(|subject| subject.text("kind") == kind);
        let names: Vec<String> = of_kind
            .map(|subject| match kind {
                // The slash stays where the namespace is empty.
                "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
                _ => subject.text("name").to_owned(),
            })
            .collect();
        json!(names.join(", "))
    };
    vec![
        binding.at("metadata").at("name").clone(),
        json!(format!("{}/{}", role.text("kind"), role.text("name"))),
        json!(age::age(binding, now)),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    fn binding(role: &str) -> Value {
        json!({
            "roleRef": {"kind": "Role", "name": role},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "sa", "namespace": "d"}]
        })
    }

    #[test]
    fn groups_are_filled_in() {
        let binding = created(&RoleBinding, binding("x"));
        assert_eq!(binding["roleRef"]["apiGroup"], "rbac.authorization.orch.io");
        assert_eq!(binding["subjects"][0]["apiGroup"], "rbac.authorization.orch.io");
        assert!(binding["subjects"][1].get("apiGroup").is_none());
        let cells = RoleBinding.table_row(&binding, CONTEXT.now).unwrap_or_default();
        assert_eq!(json!(cells), json!(["n", "Role/x", "<unknown>", "u", "", "d/sa"]));
        let bare = json!({"subjects": [{"kind": "ServiceAccount", "name": "sa"}]});
        assert_eq!(row(&bare, CONTEXT.now)[5], json!("/sa"), "an account of no namespace");
    }

    #[test]
    fn references_and_subjects_are_known() {
        check_create(&RoleBinding, binding("x"), &[]);
        check_create(
            &RoleBinding,
            json!({"roleRef": {"kind": "Thing", "name": "", "apiGroup": ""}, "subjects": [{"kind": "Robot", "name": ""}]}),
            &[
                "roleRef.kind: Unsupported value: \"Thing\": supported values: \"Role\", \"ClusterRole\"",
                "roleRef.name: Required value",
                "subjects[0].name: Required value",
                "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \
                 \"Group\"",
            ],
        );
        check_create(
            &RoleBinding,
            json!({"roleRef": {"kind": "Role", "name": "a/b", "apiGroup": "x"}, "subjects": [
                {"kind": "ServiceAccount", "name": "A", "apiGroup": "g"}, {"kind": "Group", "apiGroup": "g"},
                {"kind": "User"}
            ]}),
            &[
                "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.orch.io\"",
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
                &format!("subjects[0].name: Invalid value: \"A\": {}", names::dns1123_subdomain("A")[0]),
                "subjects[0].apiGroup: Unsupported value: \"g\": supported values: \"\"",
                "subjects[1].name: Required value",
                "subjects[1].apiGroup: Unsupported value: \"g\": supported values: \"rbac.authorization.orch.io\"",
                "subjects[2].name: Required value",
            ],
        );
    }

    #[test]
    fn cluster_bindings_bind_cluster_roles() {
        let object = json!({
            "roleRef": {"kind": "Role", "name": "x", "apiGroup": "rbac.authorization.orch.io"},
            "subjects": [{"kind": "ServiceAccount", "name": "sa"}]
        });
        let errors = ClusterRoleBinding.validate_create(&CONTEXT, &object);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[0].namespace: Required value"
            ]
        );
        check_hostile(&ClusterRoleBinding);
    }

    #[test]
    fn the_role_never_changes() {
        check_update(
            &RoleBinding,
            binding("x"),
            binding("other"),
            &["roleRef: Invalid value: {\"kind\":\"Role\",\"name\":\"other\",\"apiGroup\":\
               \"rbac.authorization.orch.io\"}: cannot change roleRef"],
        );
        check_hostile(&RoleBinding);
    }
}
