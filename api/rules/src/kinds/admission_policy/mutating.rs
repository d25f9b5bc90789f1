//! MutatingAdmissionPolicy: how objects are changed.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::matching::MUTABLE_OPERATIONS;
use super::{default_policy, policy_row, validate_head, validate_variables};
use crate::expression::policy::{Place, Wanted};
use crate::kinds::admission_rule::{Compiling, validate_conditions};
use crate::kinds::{Cell, Context, Strategy, object_meta};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const REINVOCATIONS: [&str; 2] = ["IfNeeded", "Never"];

/// The rules of mutating policies.
#[derive(Debug)]
pub struct MutatingAdmissionPolicy;

impl Strategy for MutatingAdmissionPolicy {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        default_policy(new);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_spec(context, new));
        errors
    }

    fn compiles_expressions(&self) -> bool {
        true
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(policy_row(object, "mutations", now))
    }
}

fn validate_spec(context: &Context<'_>, new: &Value) -> FieldErrors {
    let (spec, path) = (new.at("spec"), Path::new("spec"));
    let mut compiling = Compiling::mutating(context.brand, spec);
    let mut errors = validate_head(spec, &MUTABLE_OPERATIONS, &path);
    errors.extend(validate_conditions(spec, &mut compiling, &path));
    errors.extend(validate_variables(spec, &mut compiling, &path));
    let mutations = spec.items("mutations");
    if mutations.is_empty() {
        let detail = "mutations must contain at least one item";
        errors.push(FieldError::required(path.child("mutations"), detail));
    }
    for (at, mutation) in mutations.iter().numbered() {
        errors.extend(validate_mutation(mutation, &mut compiling, &path.child("mutations").index(at)));
    }
    let (reinvocation, path) = (spec.text("reinvocationPolicy"), path.child("reinvocationPolicy"));
    if reinvocation.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !REINVOCATIONS.contains(&reinvocation) {
        errors.push(FieldError::not_supported(path, reinvocation, &REINVOCATIONS));
    }
    errors
}

fn validate_mutation(mutation: &Value, compiling: &mut Compiling<'_>, path: &Path) -> FieldErrors {
    let (set, unset, wanted) = match mutation.text("patchType") {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Wanted::Configuration),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Wanted::Patch),
        "" => return FieldError::required(path.child("patchType"), "").into(),
        other => return FieldError::not_supported(path.child("patchType"), other, &PATCH_TYPES).into(),
    };
    let kind = mutation.text("patchType");
    let mut errors = FieldErrors::new();
    if mutation.has(unset) {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid_str(path.child(unset), &format!("{{{unset}}}"), &detail));
    }
    let path = path.child(set);
    if !mutation.has(set) {
        let detail = format!("must be specified when patchType is {kind}");
        errors.push(FieldError::required(path, &detail));
        return errors;
    }
    let (expression, path) = (mutation.at(set).text("expression").trim(), path.child("expression"));
    if expression.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        errors.extend(compiling.check(expression, Place::Mutation, &wanted, &path));
    }
    errors
}
