//! core/v1 Namespace: its name label, its finalizers, and the sub-resources `status` and `finalize`.

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta, value_at};
use crate::validate::metadata::{bare_finalizer, invalid_each};
use crate::validate::tree::{Tree, carry, child_mut, set, set_default_text, unset};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The rules of namespaces.
#[derive(Debug)]
pub struct Namespace;

impl Strategy for Namespace {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let name = new.at("metadata").text("name").to_owned();
        if !name.is_empty() {
            let labels = child_mut(child_mut(new, "metadata"), "labels");
            set(labels, &context.brand.label("metadata.name"), name);
        }
        set_default_text(child_mut(new, "status"), "phase", "Active");
    }

    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        // Defaults ran before the name was generated: a generated name gets its label here.
        self.default(context, new);
        set(new, "status", json!({"phase": "Active"}));
        let ours = context.brand.namespace_finalizer;
        let mut finalizers = new.at("spec").items("finalizers").to_vec();
        // once: one finalizer is looked for.
        if !finalizers.iter().any(|name| name == ours) {
            finalizers.push(json!(ours));
        }
        set(child_mut(new, "spec"), "finalizers", finalizers);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        match context.action {
            Action::Status => carry(old, new, "spec"),
            Action::Finalize => carry(old, new, "status"),
            _ => {
                carry(old.at("spec"), child_mut(new, "spec"), "finalizers");
                carry(old, new, "status");
            }
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_finalizers(context.brand, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        match context.action {
            Action::Status => errors.extend(validate_phase(new)),
            Action::Finalize => {
                let path = Path::new("spec").child("finalizers");
                for (at, name) in new.at("spec").texts("finalizers").into_iter().numbered() {
                    errors.extend(validate_finalizer(context.brand, name, &path.index(at)));
                }
            }
            _ => {
                errors.extend(object_meta::whole(context, new, false, NameRule::Dns1123Label));
                errors.extend(validate_finalizers(context.brand, new));
            }
        }
        errors
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        value_at(object, if name == "name" { "metadata.name" } else { name })
    }

    fn prepare_for_delete(&self, object: &mut Value) {
        set(child_mut(object, "status"), "phase", "Terminating");
        // A namespace is removed when it is empty, not after a grace period.
        unset(child_mut(object, "metadata"), "deletionGracePeriodSeconds");
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        !object.at("spec").items("finalizers").is_empty()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.at("status").text("phase")),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_finalizers(brand: &Brand, namespace: &Value) -> FieldErrors {
    let path = Path::new("spec").child("finalizers");
    let finalizers = namespace.at("spec").texts("finalizers");
    finalizers.into_iter().flat_map(|name| validate_finalizer(brand, name, &path)).collect()
}

fn validate_finalizer(brand: &Brand, name: &str, path: &Path) -> FieldErrors {
    let mut errors = invalid_each(path, name, names::qualified_name(name));
    let standard = [brand.namespace_finalizer, "orphan", "foregroundDeletion"];
    // few: the finalizers of the system.
    if !name.contains('/') && !standard.contains(&name) {
        errors.push(bare_finalizer(path.clone(), name));
    }
    errors
}

fn validate_phase(namespace: &Value) -> Option<FieldError> {
    let path = Path::new("status").child("Phase");
    let phase = namespace.at("status").text("phase");
    let terminating = namespace.at("metadata").has("deletionTimestamp");
    let detail = match (terminating, phase) {
        (false, "Active") | (true, "Terminating") => return None,
        (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
        (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
    };
    Some(FieldError::invalid_str(path, phase, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_hostile, created, updated};

    fn cluster(mut namespace: Value) -> Value {
        set(child_mut(&mut namespace, "metadata"), "namespace", Value::Null);
        namespace
    }

    #[test]
    fn a_new_namespace_is_active_labelled_and_held() {
        let namespace = created(&Namespace, json!({"metadata": {"name": "a"}, "status": {"phase": "Odd"}}));
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
        assert_eq!(namespace["spec"], json!({"finalizers": ["orch"]}));
        assert_eq!(namespace["metadata"]["labels"], json!({"orch.io/metadata.name": "a"}));
    }

    #[test]
    fn each_sub_resource_changes_its_own_part() {
        let old = created(&Namespace, json!({"metadata": {"name": "a"}}));
        let new = json!({"metadata": {"name": "a"}, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}});
        let main = updated(&Namespace, Action::Object, &old, new.clone());
        assert_eq!((&main["spec"], &main["status"]), (&old["spec"], &old["status"]));
        let finalized = updated(&Namespace, Action::Finalize, &old, new.clone());
        assert_eq!((&finalized["spec"], &finalized["status"]), (&json!({"finalizers": []}), &old["status"]));
        let status = updated(&Namespace, Action::Status, &old, new);
        assert_eq!((&status["spec"], &status["status"]["phase"]), (&old["spec"], &json!("Terminating")));
    }

    #[test]
    fn phases_follow_the_deletion() {
        let context = Context { action: Action::Status, ..CONTEXT };
        let old = cluster(created(&Namespace, json!({"metadata": {"name": "a"}})));
        let mut new = old.clone();
        set(child_mut(&mut new, "status"), "phase", "Terminating");
        let errors = Namespace.validate_update(&context, &old, &new);
        assert_eq!(
            errors[0].to_string(),
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
        );
        let mut going = old.clone();
        set(child_mut(&mut going, "metadata"), "deletionTimestamp", CONTEXT.now);
        set(child_mut(&mut going, "status"), "phase", "Terminating");
        assert!(Namespace.validate_update(&context, &going, &going).is_empty());
    }

    #[test]
    fn finalizers_of_the_spec_are_qualified() {
        let namespace =
            created(&Namespace, json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["own"]}}));
        let errors = Namespace.validate_create(&CONTEXT, &namespace);
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].to_string().starts_with("spec.finalizers: Invalid value: \"own\": name is neither")
        );
        check_hostile(&Namespace);
    }
}
