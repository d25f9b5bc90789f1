//! core/v1 PodTemplate: the description of pods that others make of it.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::pod::warnings::warn_about_pod;
use crate::kinds::workload::{
    container_images, container_names, default_template, format_labels, validate_template,
};
use crate::kinds::{Cell, Context, Strategy, object_meta};
use crate::validate::tree::Tree;
use crate::validate::{FieldErrors, Path};

/// The rules of pod templates.
#[derive(Debug)]
pub struct PodTemplate;

impl Strategy for PodTemplate {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        default_template(context, new);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["template"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_template(context, new.at("template"), &Path::new("template")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_template(context, new.at("template"), &Path::new("template")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        if !object_meta::is_new_generation(old, new) {
            return Vec::new();
        }
        warn_about_pod(context, new.at("template"), &Path::new("template"))
    }

    fn table_row(&self, object: &Value, _now: &str) -> Option<Vec<Cell>> {
        let template = object.at("template");
        Some(vec![
            object.at("metadata").at("name").clone(),
            container_names(template.at("spec")),
            container_images(template.at("spec")),
            json!(format_labels(template.at("metadata").at("labels"))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, created, updated};
    use crate::validate::tree::set;

    #[test]
    fn a_template_is_that_of_a_pod() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        check_create(&PodTemplate, json!({"template": template}), &[]);
        check_create(&PodTemplate, json!({}), &["template.spec.containers: Required value"]);
        let old = created(&PodTemplate, json!({"template": template}));
        assert_eq!(old["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(json!(PodTemplate.table_row(&old, CONTEXT.now)), json!(["n", "c", "i", "a=b"]));
        let mut new = old.clone();
        set(&mut new["template"]["spec"]["containers"][0], "image", "j");
        let new = updated(&PodTemplate, crate::Action::Object, &old, new);
        assert_eq!((&old["metadata"]["generation"], &new["metadata"]["generation"]), (&json!(1), &json!(2)));
        check_hostile(&PodTemplate);
    }
}
