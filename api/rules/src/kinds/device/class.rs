//! resource/v1 DeviceClass: selectors and configurations that requests refer to by name.

use orch_schema::json;
use orch_schema::value::Value;

use super::selector::{ObjectAllowance, validate_selectors};
use super::{CONFIG_MAX, Stored, validate_configuration, validate_list};
use crate::kinds::pod::resources::is_extended;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::tree::{Tree, is_unchanged};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of device classes.
#[derive(Debug)]
pub struct DeviceClass;

impl Strategy for DeviceClass {
    fn compiles_expressions(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context, None, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
        errors.extend(object_meta::on_update(context, old, new));
        errors.extend(validate_spec(context, Some(old.at("spec")), new.at("spec"), &Path::new("spec")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![object.at("metadata").at("name").clone(), json!(age::age(object, now))])
    }
}

fn validate_spec(context: &Context<'_>, old: Option<&Value>, spec: &Value, path: &Path) -> FieldErrors {
    let stored = |field: &str| match old {
        Some(old) if is_unchanged(old.at(field), spec.at(field)) => Stored::Yes,
        _ => Stored::No,
    };
    let (selectors, allowance) = (path.child("selectors"), ObjectAllowance::default());
    let mut errors = validate_selectors(spec.items("selectors"), stored("selectors"), &allowance, &selectors);
    let config = stored("config");
    errors.extend(validate_list(spec.items("config"), CONFIG_MAX, &path.child("config"), |entry, path| {
        validate_configuration(entry, config, path)
    }));
    if let Some(name) = spec.at("extendedResourceName").as_str()
        && !is_extended(context.brand, name)
    {
        let detail = "must be a valid extended resource name";
        errors.push(FieldError::invalid_str(path.child("extendedResourceName"), name, detail));
    }
    errors
}
