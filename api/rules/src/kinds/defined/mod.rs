//! A kind whose rules are data: those of its definition.
//!
//! Owns the behaviour that the reference gives to every kind without code of its own: the status sub-resource, the generation,
//! the order in which values are checked (schema, scale, embedded objects, list types, rules in expressions), scale by paths,
//! columns by paths, selectable fields by path. It names no kind. Names, verbs, and which fields a write resets stand in the
//! definition ([`ResourceType`]) and are read where those of built-in kinds are.

mod columns;
pub mod described;
mod finalizers;
mod scaled;
pub mod schema;
mod version_order;

use std::fmt;
use std::sync::Arc;

use orch_proto::Brand;
use orch_schema::value::Value;
use orch_schema::{ResourceType, ScalePaths};

use super::{Cell, Context, Strategy, object_meta};
use crate::Action;
use crate::validate::tree::{Tree, carry, child_mut, unset};
use crate::validate::{FieldErrors, Path, validate_object_meta_update};

use columns::Columns;
pub use columns::table_columns;
use schema::Constraints;
pub use version_order::version_order;

/// The strategy of a kind that a definition declares.
#[derive(Debug)]
pub struct DefinedKind {
    /// Only the sub-resource writes the status.
    has_status: bool,
    /// The fields that the kind's scale shows.
    scale: Option<ScalePaths>,
    columns: Columns,
    deprecation: Option<String>,
    constraints: Option<MakeConstraints>,
    /// Called with the evaluation of the rules in expressions, which it carries out and may measure.
    around: Around,
}

/// Carries out some work, which it may measure.
pub type Around = fn(&mut dyn FnMut());

/// Gives the rules of a kind's schema, which it makes when they are first needed.
#[derive(Clone)]
struct MakeConstraints(Arc<dyn Fn() -> Arc<Constraints> + Send + Sync>);

impl fmt::Debug for MakeConstraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MakeConstraints").finish_non_exhaustive()
    }
}

impl DefinedKind {
    /// The strategy of `definition`. `deprecation`: the warning that requests for this version get.
    ///
    /// The columns of `definition` are those that tables show: [`table_columns`] makes them of declared ones.
    pub fn new(definition: &ResourceType, deprecation: Option<String>) -> DefinedKind {
        let part = |action: Action| definition.subresource(action.subresource());
        DefinedKind {
            has_status: part(Action::Status).is_some(),
            scale: part(Action::Scale).and_then(|part| part.scale.clone()),
            columns: Columns::of(&definition.columns),
            deprecation,
            constraints: None,
            around: |work| work(),
        }
    }

    /// The strategy whose rules in expressions are evaluated within `around`.
    #[must_use]
    pub fn evaluated_within(self, around: Around) -> DefinedKind {
        DefinedKind { around, ..self }
    }

    /// The strategy with the rules of the kind's schema. `make` is called for each write: it makes the rules once, when they are
    /// first needed, and gives the same ones then.
    #[must_use]
    pub fn with_constraints(self, make: Arc<dyn Fn() -> Arc<Constraints> + Send + Sync>) -> DefinedKind {
        DefinedKind { constraints: Some(MakeConstraints(make)), ..self }
    }

    /// `errors`, followed by those of a whole object. `old`: the object that it replaces.
    fn validate(&self, mut errors: FieldErrors, old: Option<&Value>, new: &Value) -> FieldErrors {
        let constraints = self.constraints.as_ref().map(|MakeConstraints(make)| make());
        let scale = || self.scale.as_ref().map(|paths| scaled::validate(new, paths)).unwrap_or_default();
        let Some(constraints) = constraints else {
            errors.extend(scale());
            return errors;
        };
        errors.append(constraints.validate(new, old));
        errors.extend(scale());
        errors.extend(constraints.validate_rest(new, old));
        self.validate_expressions(&constraints, new, old, &mut errors);
        errors
    }

    /// See [`Constraints::validate_expressions`].
    fn validate_expressions(
        &self,
        constraints: &Constraints,
        new: &Value,
        old: Option<&Value>,
        errors: &mut FieldErrors,
    ) {
        if constraints.has_expressions() {
            (self.around)(&mut || constraints.validate_expressions(new, old, errors));
        }
    }

    /// `errors`, followed by those of a write of the status. Rules in expressions are those of the whole object.
    fn validate_status(&self, mut errors: FieldErrors, old: &Value, new: &Value) -> FieldErrors {
        let constraints = self.constraints.as_ref().map(|MakeConstraints(make)| make());
        let scale =
            || self.scale.as_ref().map(|paths| scaled::validate_status(new, paths)).unwrap_or_default();
        let Some(constraints) = constraints else {
            errors.extend(scale());
            return errors;
        };
        errors.append(constraints.validate_status(new, old));
        errors.extend(scale());
        errors.extend(constraints.validate_status_rest(new, old));
        self.validate_expressions(&constraints, new, Some(old), &mut errors);
        errors
    }
}

impl Strategy for DefinedKind {
    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        if self.has_status {
            unset(new, "status");
        }
        object_meta::start_generation(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        if context.action == Action::Status {
            return keep_all_but_status(old, new);
        }
        if self.has_status {
            carry(old, new, "status");
        }
        if !is_same_but_metadata(old, new) {
            object_meta::next_generation(old, new);
        }
    }

    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        self.validate(FieldErrors::new(), None, new)
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        // The rules of metadata come once more, as for most built-in kinds (`object_meta`); among these errors, those that hinder
        // rules in expressions count.
        let (metadata, before) = (new.at("metadata"), old.at("metadata"));
        let errors = validate_object_meta_update(metadata, before, &Path::new("metadata"));
        match context.action {
            Action::Status => self.validate_status(errors, old, new),
            _ => self.validate(errors, Some(old), new),
        }
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        finalizers::warnings(context, old, new)
    }

    fn deprecation(&self, _brand: &Brand) -> Option<String> {
        self.deprecation.clone()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(self.columns.row(object, now))
    }
}

/// A write of the status: everything else, the managed fields excepted, is as it was.
fn keep_all_but_status(old: &Value, new: &mut Value) {
    let sent = std::mem::replace(new, old.clone());
    carry(&sent, new, "status");
    carry(sent.at("metadata"), child_mut(new, "metadata"), "managedFields");
}

/// Whether two objects differ in their metadata at most.
fn is_same_but_metadata(old: &Value, new: &Value) -> bool {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else { return old == new };
    let differs = |name: &str| name != "metadata" && before.get(name) != after.get(name);
    // once: the members of one object.
    !before.keys().chain(after.keys()).any(|name| differs(name))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use orch_schema::testing::orch;

    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created, updated};

    /// The definition of deployments, as data.
    fn deployments() -> DefinedKind {
        let of = |resource: &&ResourceType| resource.group == "apps" && resource.plural == "deployments";
        let mut definition = orch().resources().iter().find(of).unwrap().clone();
        definition.columns = table_columns(&[]);
        DefinedKind::new(&definition, None)
    }

    #[test]
    fn only_the_sub_resource_writes_the_status() {
        let kind = deployments();
        let sent = json!({"spec": {"replicas": 1}, "status": {"replicas": 9}});
        let old = created(&kind, sent);
        assert_eq!(old.get("status"), None, "a new object has none");
        assert_eq!(old["metadata"]["generation"], 1);
        let observed =
            json!({"spec": {"replicas": 7}, "status": {"replicas": 1}, "metadata": {"labels": {"a": "b"}}});
        let after = updated(&kind, Action::Status, &old, observed);
        assert_eq!((&after["spec"], &after["status"]), (&old["spec"], &json!({"replicas": 1})));
        assert_eq!(after["metadata"], old["metadata"], "labels belong to the object");
        let mut changed = after.clone();
        changed["spec"]["replicas"] = json!(2);
        changed["status"]["replicas"] = json!(5);
        let changed = updated(&kind, Action::Object, &after, changed);
        assert_eq!(
            (&changed["status"], &changed["metadata"]["generation"]),
            (&json!({"replicas": 1}), &json!(2))
        );
        let mut labelled = changed.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        let labelled = updated(&kind, Action::Object, &changed, labelled);
        assert_eq!(labelled["metadata"]["generation"], 2, "metadata are no new generation");
    }

    #[test]
    fn a_kind_without_a_status_sub_resource_stores_the_status_with_the_rest() {
        let mut definition = orch().resources().iter().find(|of| of.plural == "deployments").unwrap().clone();
        definition.subresources.clear();
        let kind = DefinedKind::new(&definition, Some("old".to_owned()));
        let old = created(&kind, json!({"status": {"a": 1}}));
        assert_eq!(old["status"], json!({"a": 1}));
        let new = updated(&kind, Action::Object, &old, json!({"status": {"a": 2}}));
        assert_eq!(new["metadata"]["generation"], 2);
        assert_eq!(kind.deprecation(CONTEXT.brand).as_deref(), Some("old"));
    }

    #[test]
    fn replicas_are_counts_and_the_selector_is_a_text() {
        let kind = deployments();
        for (spec, expected) in [
            (json!({"replicas": 3}), &[][..]),
            (json!({}), &[]),
            (
                json!({"replicas": -1}),
                &[".spec.replicas: Invalid value: -1: should be a non-negative integer"],
            ),
            (
                json!({"replicas": 2_147_483_648_i64}),
                &[".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"],
            ),
            (
                json!({"replicas": "many"}),
                &[
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: many is of the type string, expected int64",
                ],
            ),
            (
                json!({"replicas": null}),
                &[
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: <nil> is of the type <nil>, expected int64",
                ],
            ),
            (json!({"selector": "a=b"}), &[]),
            (
                json!({"selector": {"a": "b"}}),
                &[
                    ".spec.selector: Invalid value: \"\": .spec.selector accessor error: {\"a\":\"b\"} is of the type map[string]interface {}, expected string",
                ],
            ),
        ] {
            check_create(&kind, json!({"spec": spec}), expected);
        }
        check_update(&kind, json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 2}}), &[]);
    }

    #[test]
    fn no_definition_panics_on_what_no_decoder_lets_through() {
        check_hostile(&deployments());
    }
}
