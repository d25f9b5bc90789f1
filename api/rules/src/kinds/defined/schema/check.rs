//! Checks values against the rules of a schema.
//!
//! Owns the order of the checks and the walk, which are those of the reference's validator: type, junctors, text, format, number,
//! items, enumeration, members. On an update a failure is forgiven where the value is as it was.
//!
//! Invariant: a value is visited once for each schema that applies to it, and each visit counts as a step of the request.

use orch_schema::budget::{count_step, count_steps};
use orch_schema::value::{Map, Value};

use super::constraint::{Constraints, Node, Types, Unique};
use super::failure::{Failure, Outcome, Place, unchecked_expressions};
use super::format::Format;
use super::rules::Rules;
use super::sameness::{VISIT_STEPS, Whole, by_keys, keys};
use super::{embedded, junctor, list_type, number, pattern};
use crate::expression::Budget;
use crate::expression::rules::{RULES_COST_MAX, Sameness};
use crate::validate::{Distinct, FieldErrorKind, FieldErrors, Path};

/// Names or values of a schema that are compared in one step.
const PER_STEP: u64 = 8;

impl Constraints {
    /// The errors of `new`, an object of the kind without `apiVersion` and `kind`, after those of its metadata and before those of
    /// its scale: [`Constraints::validate_rest`] comes after these. `old`: the object that it replaces.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> FieldErrors {
        let root = Checker { head: self.head.as_ref(), ..Checker::INNER };
        let mut outcome = root.checked(&self.root, new, Place::Root, old);
        if !outcome.is_valid() && old.is_some_and(|old| self.is_same(new, old)) {
            outcome.forgive();
        }
        outcome.into_errors(None)
    }

    /// Whether the object is as it was, as the reference tells it.
    fn is_same(&self, new: &Value, old: &Value) -> bool {
        match self.head {
            Some(_) => Whole(&self.root).is_same(new, old),
            None => self.root.is_same(new, old),
        }
    }

    /// The errors of embedded objects and of list types.
    pub fn validate_rest(&self, new: &Value, old: Option<&Value>) -> FieldErrors {
        let mut errors = embedded::check(&self.root, new);
        errors.extend(self.unique(new, old));
        errors
    }

    /// The errors of a write of the status of `new`, before those of its scale.
    pub fn validate_status(&self, new: &Value, old: &Value) -> FieldErrors {
        let (Some(status), Some(node)) = (new.get("status"), self.root.property("status")) else {
            return FieldErrors::new();
        };
        let root = Checker { is_status: true, ..Checker::INNER };
        let outcome = root.value(node, status, Place::Root, old.get("status"));
        outcome.into_errors(Some(&Path::new("status")))
    }

    /// The errors of list types in a write of the status.
    pub fn validate_status_rest(&self, new: &Value, old: &Value) -> FieldErrors {
        self.unique(new, Some(old))
    }

    /// Whether there are rules in expressions.
    pub fn has_expressions(&self) -> bool {
        !self.expressions.is_empty()
    }

    /// Adds the errors and warnings of the rules in expressions to `errors`, those of a whole object that were found before; or the
    /// error that they were not checked, where `errors` has one that hinders them.
    pub fn validate_expressions(&self, new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
        if self.expressions.is_empty() {
            return;
        }
        let hinders = |kind: FieldErrorKind| {
            matches!(
                kind,
                FieldErrorKind::NotSupported
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong
                    | FieldErrorKind::TooMany
                    | FieldErrorKind::TypeInvalid
            )
        };
        // few: at most a hundred errors are kept.
        if errors.iter().any(|error| hinders(error.kind)) {
            errors.push(unchecked_expressions());
            return;
        }
        let mut budget = Budget::of(RULES_COST_MAX);
        let shape = Whole(&self.root);
        let verdict = self.expressions.validate(new, old, self.head.as_ref(), Some(&shape), &mut budget);
        errors.extend(verdict.errors);
        errors.warn(verdict.warnings);
    }

    /// Repeated items of sets and keys of maps, unless the old object had some.
    fn unique(&self, new: &Value, old: Option<&Value>) -> FieldErrors {
        let errors = list_type::check(&self.root, new);
        let was_clean = || old.is_none_or(|old| list_type::check(&self.root, old).is_empty());
        if errors.is_empty() || was_clean() { errors } else { FieldErrors::new() }
    }
}

/// The errors of `value` against a node, at `path`.
pub(super) fn of_part(node: &Node, value: &Value, path: &Path) -> FieldErrors {
    Checker::INNER.value(node, value, Place::Root, None).into_errors(Some(path))
}

/// A walk over a value and its schema.
#[derive(Clone, Copy)]
pub(super) struct Checker<'c> {
    /// `apiVersion` and `kind` of the value, which are not among its members.
    head: Option<&'c (Value, Value)>,
    /// The value is a whole status: as in the reference, its members `apiVersion` and `kind` are taken for those of an object.
    is_status: bool,
}

impl Checker<'_> {
    /// A walk over values below the root.
    pub(super) const INNER: Checker<'static> = Checker { head: None, is_status: false };

    /// Checks `value`, and forgives its failures where it is as `old`.
    fn value(self, node: &Node, value: &Value, place: Place<'_>, old: Option<&Value>) -> Outcome {
        let mut outcome = self.checked(node, value, place, old);
        if !outcome.is_valid() && old.is_some_and(|old| node.is_same(value, old)) {
            outcome.forgive();
        }
        outcome
    }

    /// Checks `value` against `node`. Failures in parts that are as those of `old` are forgiven.
    pub(super) fn checked(
        self,
        node: &Node,
        value: &Value,
        place: Place<'_>,
        old: Option<&Value>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if !count_steps(VISIT_STEPS) {
            return outcome;
        }
        let rules = node.rules();
        if value.is_null() {
            outcome.merge(of_null(node, place));
            outcome.merge(allowed(rules, value, place));
            return outcome;
        }
        let mut apply = |part: Outcome| {
            outcome.merge(part);
            outcome.matches += 1;
        };
        if !node.types.is_empty() || node.format != Format::None {
            apply(of_type(node, value, place));
        }
        apply(junctor::check(self, rules, value, place));
        match value {
            Value::String(text) => {
                apply(text_rules(rules, text, place));
                if node.format.is_of_text() {
                    apply(format_rule(node, text, place));
                }
            }
            Value::Number(value) => apply(number::check(node, value, place)),
            Value::Array(items) => apply(list(node, items, place, old)),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        apply(allowed(rules, value, place));
        if let Value::Object(map) = value {
            apply(self.object(node, map, place, old));
        }
        outcome.matches += 1;
        outcome
    }

    fn object(self, node: &Node, map: &Map, place: Place<'_>, old: Option<&Value>) -> Outcome {
        let mut outcome = Outcome::default();
        let head = self.head.map_or(0, |_| 2);
        let count = i64::try_from(map.len() + head).unwrap_or(i64::MAX);
        if let Some(rules) = node.rules() {
            members(rules, count, place, &mut outcome);
            if rules.is_closed {
                closed(node, map, place, &mut outcome);
            }
        }
        let required = node.rules().map_or(0, |rules| rules.required.len());
        if !count_steps((node.properties.len() + required) as u64 / PER_STEP) {
            return outcome;
        }
        let old = old.and_then(Value::as_object);
        let is_forgiven = |name: &str| !(self.is_status && matches!(name, "apiVersion" | "kind"));
        let old_of = |name: &str| old.filter(|_| is_forgiven(name))?.get(name);
        if let Some(values) = &node.values {
            // each: one step is counted for each value.
            for (key, value) in map.iter().filter(|(key, _)| node.property(key).is_none()) {
                outcome.merge(Checker::INNER.value(values, value, Place::Key(&place, key), old_of(key)));
            }
        }
        for (name, property) in &node.properties {
            if let Some((value, old)) = self.member(map, name, old_of(name)) {
                outcome.merge(Checker::INNER.value(property, value, Place::Property(&place, name), old));
            }
        }
        for name in node.rules().map(|rules| &*rules.required).unwrap_or_default() {
            if self.member(map, name, None).is_none() {
                outcome.push(Failure::required(place, name));
            }
        }
        outcome
    }

    /// The member `name`, with its old value: `apiVersion` and `kind` have none, since both objects have the same.
    fn member<'v>(
        &'v self,
        map: &'v Map,
        name: &str,
        old: Option<&'v Value>,
    ) -> Option<(&'v Value, Option<&'v Value>)> {
        match (self.head, name) {
            (Some((api_version, _)), "apiVersion") => Some((api_version, None)),
            (Some((_, kind)), "kind") => Some((kind, None)),
            _ => map.get(name).map(|value| (value, old)),
        }
    }
}

/// Checks the number of members.
fn members(rules: &Rules, count: i64, place: Place<'_>, outcome: &mut Outcome) {
    if let Some(min) = rules.members_min().filter(|&min| count < min) {
        let detail = format!("should have at least {min} properties");
        outcome.push(Failure::invalid(place, count.to_string(), &detail));
    }
    if let Some(max) = rules.members_max().filter(|&max| count > max) {
        outcome.push(Failure::too_many(place, count, max, "properties"));
    }
}

/// Refuses members that are not declared.
fn closed(node: &Node, map: &Map, place: Place<'_>, outcome: &mut Outcome) {
    for name in map.keys().filter(|name| node.property(name).is_none()).take_while(|_| count_step()) {
        let path = place.path();
        let text = format!("{path}.{name} in body is a forbidden property");
        outcome.push(Failure::other(place, super::failure::shown_value(&Value::from(name.as_str())), text));
    }
}

/// Checks a list and its items. An item has an old value only in a list of type map, by its keys.
fn list(node: &Node, items: &[Value], place: Place<'_>, old: Option<&Value>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(item) = &node.items {
        let old = old.and_then(Value::as_array).filter(|_| node.unique == Unique::Keys);
        let old = old.map(|old| by_keys(node, old));
        for (index, value) in items.iter().enumerate() {
            let old = old.as_ref().and_then(|old| old.get(&keys(node, value)?).copied());
            outcome.merge(Checker::INNER.value(item, value, Place::Index(&place, index), old));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(rules) = node.rules() {
        if let Some(min) = rules.items_min().filter(|&min| count < min) {
            let detail = format!("should have at least {min} items");
            outcome.push(Failure::invalid(place, count.to_string(), &detail));
        }
        if let Some(max) = rules.items_max().filter(|&max| count > max) {
            outcome.push(Failure::too_many(place, count, max, "items"));
        }
        let mut met = Distinct::new();
        // once: each item is looked up by its hash.
        if rules.has_unique_items && items.iter().any(|item| met.is_repeated(item)) {
            outcome.push(Failure::invalid(place, "\"\"".to_owned(), "shouldn't contain duplicates"));
        }
    }
    outcome.matches += 1;
    outcome
}

/// Null where it may not be.
fn of_null(node: &Node, place: Place<'_>) -> Outcome {
    if node.types.is_empty() || node.nullable {
        return Outcome::passed(1);
    }
    Outcome::of(Failure::wrong_type(place, node.types.names(), "null"))
}

/// Checks the type. A format stands for the type in some messages, and lets every list pass: so does the reference.
fn of_type(node: &Node, value: &Value, place: Place<'_>) -> Outcome {
    let (found, name, form) = match value {
        Value::Bool(_) => (Types::BOOLEAN, "boolean", ""),
        Value::String(_) => (Types::STRING, "string", ""),
        Value::Array(_) => (Types::ARRAY, "array", ""),
        Value::Object(_) => (Types::OBJECT, "object", ""),
        Value::Number(number) if number.as_i64().is_some() => (Types::INTEGER, "integer", "int64"),
        Value::Number(_) => (Types::NUMBER, "number", "float64"),
        Value::Null => return Outcome::default(),
    };
    let is_whole = matches!(value, Value::Number(number) if number.as_f64().is_some_and(number::is_whole));
    let is_of_type = node.types.has(found)
        || (found == Types::NUMBER && is_whole && node.types.has(Types::INTEGER))
        || (found == Types::INTEGER && node.types.has(Types::NUMBER));
    let is_counted = value.is_string() || value.is_array();
    if node.format != Format::None {
        let wanted = format_name(node);
        if !is_counted && !is_of_type && form != wanted {
            return Outcome::of(Failure::wrong_type(place, wanted, form));
        }
        if is_counted && !node.types.has(Types::NUMBER) && !node.types.has(Types::INTEGER) {
            return Outcome::passed(1);
        }
    }
    if is_of_type {
        Outcome::passed(1)
    } else {
        Outcome::of(Failure::wrong_type(place, node.types.names(), name))
    }
}

/// The format as the schema spells it.
pub(super) fn format_name(node: &Node) -> &str {
    node.format
        .number_name()
        .unwrap_or_else(|| node.rules().map(|rules| rules.format_name()).unwrap_or_default())
}

/// Checks length and pattern; of several failures the first is told.
fn text_rules(rules: Option<&Rules>, text: &str, place: Place<'_>) -> Outcome {
    let Some(rules) = rules else { return Outcome::default() };
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = rules.length_max().filter(|&max| length() > max) {
        return Outcome::of(Failure::too_long(place, max));
    }
    let shown = || super::failure::shown_value(&Value::from(text));
    if let Some(min) = rules.length_min().filter(|&min| length() < min) {
        let detail = format!("should be at least {min} chars long");
        return Outcome::of(Failure::invalid(place, shown(), &detail));
    }
    if rules.pattern().is_empty() {
        return Outcome::default();
    }
    match pattern::matches(rules.pattern(), text) {
        Ok(true) => Outcome::default(),
        Ok(false) => {
            Outcome::of(Failure::invalid(place, shown(), &format!("should match '{}'", rules.pattern())))
        }
        Err(fault) => {
            let detail = format!("should match '{}, but pattern is invalid: {fault}'", rules.pattern());
            Outcome::of(Failure::invalid(place, shown(), &detail))
        }
    }
}

fn format_rule(node: &Node, text: &str, place: Place<'_>) -> Outcome {
    if node.format.fits(text) {
        return Outcome::default();
    }
    let name = format_name(node);
    Outcome::of(Failure::wrong_type(place, name, text))
}

/// Checks an enumeration. A value is compared in the type of the listed one, as in the reference: of a number beside an integer its whole
/// part, and of an integer beside a text the character with this number.
fn allowed(rules: Option<&Rules>, value: &Value, place: Place<'_>) -> Outcome {
    let Some(allowed) = rules.and_then(Rules::allowed) else {
        return Outcome::default();
    };
    if !count_steps(allowed.len() as u64 / PER_STEP) {
        return Outcome::default();
    }
    let is_same = |one: &Value| match (one, value) {
        (_, Value::Null) => false,
        (Value::Number(one), Value::Number(value)) => match (one.as_i64(), value.as_i64()) {
            (Some(one), Some(value)) => one == value,
            (Some(one), None) => value.as_f64().and_then(number::whole_part) == Some(one),
            (None, _) => one.as_f64() == value.as_f64(),
        },
        (Value::String(one), Value::Number(value)) => {
            let code = |code: i64| u32::try_from(code).ok().and_then(char::from_u32);
            let letter = value.as_i64().map(|value| code(value).unwrap_or(char::REPLACEMENT_CHARACTER));
            letter.is_some_and(|letter| one.chars().eq([letter]))
        }
        (one, value) => one == value,
    };
    // few: mostly; of a long enumeration the steps are counted above.
    if allowed.iter().any(is_same) {
        Outcome::default()
    } else {
        Outcome::of(Failure::not_allowed(place, value, allowed))
    }
}
