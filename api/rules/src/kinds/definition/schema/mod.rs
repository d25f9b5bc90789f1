//! Rules of the schemas in a definition.
//!
//! Owns the judgement of one schema (`Judge`), in the reference's order: the root under a status sub-resource, then the structural
//! rules, then (where these hold) its defaults, then the general rules, which are checked in any case, then (where the structure and
//! the defaults hold) the expressions of its rules, which `expression::rules` compiles: those of parts without another error.
//!
//! - `general`: what no schema may use, exclusions, types of lists and maps (`lists`), rules in expressions (`validations`)
//! - `structural`: every field has a type; `nested` what may stand inside of `allOf` and its like, `completeness` that it is known outside
//! - `defaults`: defaults are valid, have no unknown fields, and keep rules in expressions
//! - `place` paths, `walk` all schemas inside of a schema, `patterns`, `formats`
//!
//! Invariant: a node is visited once by each of these, and a path is made only for an error: a path may be as long as the schema is
//! deep, times the longest name.

mod defaults;
mod formats;
mod general;
mod lists;
mod nested;
mod patterns;
mod place;
mod structural;
mod validations;
mod walk;

use orch_proto::Brand;
use orch_schema::value::Value;

use super::conditions::Condition;
use super::ratchet::Requirements;
use crate::expression::rules::{RULE_STEPS_MAX, RuleChecks, check_rules};
use crate::expression::{Allowance, Exhausted};
use crate::validate::tree::{Tree, is_unchanged, shown};
use crate::validate::{FieldError, FieldErrors, Path};
use defaults::{Rules, UnknownFields};
use general::Hindered;
use patterns::Patterns;
use place::Place;
use walk::has_unsupported;

/// Names of the schema extensions, which carry the product's name.
#[derive(Clone, Debug)]
pub(super) struct Extensions {
    brand: &'static Brand,
    pub(super) preserve_unknown_fields: String,
    pub(super) embedded_resource: String,
    pub(super) int_or_string: String,
    pub(super) list_map_keys: String,
    pub(super) list_type: String,
    pub(super) map_type: String,
    pub(super) validations: String,
}

impl Extensions {
    /// The names under `brand`.
    pub(super) fn of(brand: &'static Brand) -> Extensions {
        let name = |stem: &str| format!("{}{stem}", brand.extension_prefix);
        Extensions {
            brand,
            preserve_unknown_fields: name("preserve-unknown-fields"),
            embedded_resource: name("embedded-resource"),
            int_or_string: name("int-or-string"),
            list_map_keys: name("list-map-keys"),
            list_type: name("list-type"),
            map_type: name("map-type"),
            validations: name("validations"),
        }
    }

    /// Whether `schema` itself uses an extension that only structural schemas may use.
    fn any_of(&self, schema: &Value) -> bool {
        // few: three names.
        [&self.preserve_unknown_fields, &self.list_type, &self.map_type].iter().any(|name| schema.has(name))
            || schema.flag(&self.embedded_resource)
            || schema.flag(&self.int_or_string)
            // few: two names.
            || [&self.list_map_keys, &self.validations].iter().any(|name| !schema.items(name).is_empty())
    }
}

/// Judges the schemas of one definition.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    extensions: &'a Extensions,
    requirements: Requirements,
    /// Schemas are structural.
    is_structural: bool,
    has_defaults: bool,
    patterns: Patterns,
    brand: &'static Brand,
    /// Steps that compiling the rules of all schemas may still take.
    rule_steps: Allowance,
}

impl<'a> Judge<'a> {
    /// The judge of the schemas of `spec`.
    pub(super) fn new(
        extensions: &'a Extensions,
        brand: &'static Brand,
        spec: &Value,
        requirements: Requirements,
    ) -> Judge<'a> {
        let (mut has_defaults, mut has_extensions) = (false, false);
        for version in spec.items("versions") {
            walk::each(version.at("schema").at("openAPIV3Schema"), &mut |schema| {
                has_defaults |= schema.has("default");
                has_extensions |= extensions.any_of(schema);
            });
        }
        let prunes = !spec.flag("preserveUnknownFields");
        Judge {
            extensions,
            requirements,
            is_structural: requirements.structural || prunes || has_defaults || has_extensions,
            has_defaults,
            patterns: Patterns::new(),
            brand,
            rule_steps: Allowance::of(RULE_STEPS_MAX),
        }
    }

    /// Whether any schema of the definition has a default.
    pub(super) fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// Rules for `schema`, which `path` holds as `openAPIV3Schema`. `old`: that of the version in the stored definition.
    /// `has_status`: objects have a status sub-resource.
    pub(super) fn validate(
        &mut self,
        schema: &Value,
        old: Option<&Value>,
        path: &Path,
        has_status: bool,
    ) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if schema.is_null() {
            return errors;
        }
        let root_path = path.child("openAPIV3Schema");
        let root = Place::root(&root_path);
        if has_status {
            errors.extend(validate_root_with_status(schema, &root, self.extensions));
        }
        if schema.flag("nullable") {
            errors.push(FieldError::forbidden(
                root.child("nullable").path(),
                "nullable cannot be true at the root",
            ));
        }
        let (general, hindered) = general::validate(schema, &root, self.extensions, self.requirements);
        // A schema that was stored before a structural rule existed passes as it is.
        let is_forgiven = !self.requirements.structural && old.is_some_and(|old| is_unchanged(old, schema));
        let is_structural = self.is_structural && !is_forgiven;
        let is_unsupported = has_unsupported(schema, self.extensions);
        if is_structural && !is_unsupported {
            let found = structural::validate(schema, &root, self.extensions, &mut self.patterns);
            if found.is_empty() {
                errors.extend(self.beyond_structure(schema, old, &root_path, general, &hindered));
                return errors;
            }
            errors.extend(found);
        }
        errors.extend(general);
        if is_structural && is_unsupported && errors.is_empty() {
            // The one field that structural schemas have no place for and that no general rule refuses.
            let detail = "OpenAPIV3Schema 'schema' is not supported";
            errors.push(FieldError::invalid_str(root.path(), "", detail));
        }
        errors
    }

    /// The errors of a schema that is structural: those of defaults, then `general`, then, where no default has one, those of expressions.
    fn beyond_structure(
        &mut self,
        schema: &Value,
        old: Option<&Value>,
        path: &Path,
        general: FieldErrors,
        hindered: &Hindered,
    ) -> FieldErrors {
        // Expressions of a stored schema were read. All are compiled within the bound before any is evaluated.
        let is_new = old != Some(schema);
        let told = is_new.then(|| self.expressions(schema, path, hindered)).transpose();
        let mut errors = FieldErrors::new();
        if self.has_defaults {
            let unknown_fields = match self.requirements.pruned_defaults {
                true => UnknownFields::Refused,
                false => UnknownFields::Allowed,
            };
            let rules = if matches!(told, Ok(Some(_))) { Rules::Evaluated } else { Rules::Unread };
            errors = defaults::validate(schema, &Place::root(path), self.extensions, unknown_fields, rules);
        }
        let has_wrong_defaults = !errors.is_empty();
        errors.extend(general);
        match told {
            Ok(told) if !has_wrong_defaults => errors.extend(told.unwrap_or_default()),
            Ok(_) => {}
            Err(Exhausted) => {
                errors.push(FieldError::forbidden(path.clone(), "the rules take too long to compile"));
            }
        }
        errors
    }

    /// The errors of expressions in `schema`.
    fn expressions(
        &mut self,
        schema: &Value,
        path: &Path,
        hindered: &Hindered,
    ) -> Result<FieldErrors, Exhausted> {
        let checks = RuleChecks { is_judged: &|rules| !hindered.has(rules), charge: &mut self.rule_steps };
        check_rules(schema, path, self.brand, checks)
    }

    /// Whether `schema` uses what structural ones have no place for.
    pub(super) fn has_unsupported(&self, schema: &Value) -> bool {
        has_unsupported(schema, self.extensions)
    }
}

/// The fields that the root of a schema may have where objects have a status, in the names and the order of the reference.
const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
                           Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                           XPreserveUnknownFields XValidations]";

/// The fields that it may not have, in the reference's order; extensions follow.
const ROOT_FIELDS_REFUSED: [&str; 17] = [
    "id",
    "$schema",
    "$ref",
    "nullable",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
];

/// The schema of the status is taken out of that of the object: the root may say nothing that would be lost.
fn validate_root_with_status(
    schema: &Value,
    root: &Place<'_>,
    extensions: &Extensions,
) -> Option<FieldError> {
    let (kind, before_type) = (schema.text("type"), ["id", "$schema", "$ref"]);
    // few: three names, which the reference meets before the type.
    let is_said_before = before_type.iter().any(|name| walk::is_present(schema, name));
    if !is_said_before && !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid_str(root.child("type").path(), kind, detail));
    }
    let more = [
        &extensions.embedded_resource,
        &extensions.int_or_string,
        &extensions.list_map_keys,
        &extensions.list_type,
        &extensions.map_type,
    ];
    let mut refused = ROOT_FIELDS_REFUSED.into_iter().chain(more.into_iter().map(String::as_str));
    // few: two dozen names.
    if !refused.any(|name| walk::is_said(schema, name)) {
        return None;
    }
    let detail = format!(
        "only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled"
    );
    Some(FieldError::invalid(root.path(), &shown(schema), &detail))
}

/// Rules that a stored schema breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Breaches {
    pub(super) unknown_types: bool,
    pub(super) not_structural: bool,
    pub(super) unpruned_defaults: bool,
    pub(super) set_items: bool,
    pub(super) map_keys: bool,
}

impl Breaches {
    /// The rules that `schema` breaks.
    pub(super) fn of(schema: &Value, extensions: &Extensions) -> Breaches {
        let mut found = Breaches::default();
        let path = Path::new("");
        let root = Place::root(&path);
        walk::each(schema, &mut |schema| {
            found.unknown_types |= general::unknown_type(schema, &root).is_some();
            found.set_items |= lists::item_of_set(schema, &root, extensions).is_some();
            found.map_keys |= !lists::complete_keys(schema, &root, extensions).is_empty();
        });
        let mut patterns = Patterns::new();
        found.not_structural = has_unsupported(schema, extensions)
            || !structural::validate(schema, &root, extensions, &mut patterns).is_empty();
        found.unpruned_defaults = !found.not_structural && defaults::has_unpruned(schema, extensions);
        found
    }

    /// Adds those of another schema of the definition.
    pub(super) fn add(&mut self, other: &Breaches) {
        self.unknown_types |= other.unknown_types;
        self.not_structural |= other.not_structural;
        self.unpruned_defaults |= other.unpruned_defaults;
        self.set_items |= other.set_items;
        self.map_keys |= other.map_keys;
    }
}

/// The warnings about the schemas of `new`: formats that mean nothing. What `old` has, too, was told before.
pub(super) fn warnings(old: Option<&Value>, new: &Value) -> Vec<String> {
    let is_same = |old: &Value| is_unchanged(old.at("spec").at("versions"), new.at("spec").at("versions"));
    if old.is_some_and(is_same) { Vec::new() } else { formats::warnings(old, new) }
}

/// The condition of a stored definition whose schemas are not structural; `None` where all are. The first schema that uses what structural
/// ones have no place for is told alone.
pub fn non_structural(brand: &'static Brand, definition: &Value) -> Option<Condition> {
    let spec = definition.at("spec");
    let extensions = Extensions::of(brand);
    let mut patterns = Patterns::new();
    let mut errors = FieldErrors::new();
    let path = Path::new("spec");
    if spec.flag("preserveUnknownFields") {
        let detail = "must be false";
        errors.push(FieldError::invalid(path.child("preserveUnknownFields"), "true", detail));
    }
    let versions = path.child("versions");
    for (at, version) in spec.items("versions").iter().enumerate() {
        let schema = version.at("schema").at("openAPIV3Schema");
        if let Some(fault) = walk::first_unsupported(schema, &extensions) {
            let name = version.text("name");
            let told = format!("failed to check validation schema for version {name}: {fault}");
            return Some(Condition::unchecked_structure(told));
        }
        if !schema.is_null() {
            let path = versions.index(at).child("schema").child("openAPIV3Schema");
            errors.extend(structural::validate(schema, &Place::root(&path), &extensions, &mut patterns));
        }
    }
    aggregate(&errors).map(Condition::non_structural)
}

/// All of `errors` in one text, as the reference joins them; `None`: there are none.
fn aggregate(errors: &FieldErrors) -> Option<String> {
    let texts: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
