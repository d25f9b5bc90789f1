//! Checks that an applied configuration matches its type.
//!
//! Owns the errors of a configuration that cannot be merged: undeclared fields, values of another JSON type, list items
//! without a path element. All other rules are left to validation, after the merge.

use std::collections::BTreeSet;
use std::fmt::Write;

use orch_rules::validate::errors::ERRORS_SHOWN_MAX;
use orch_rules::validate::tree::shown;
use orch_schema::budget::count_step;
use orch_schema::excerpt::beginning;
use orch_schema::types::{Applied, Scalar, Schema, TypeId, ValueType};
use orch_schema::value::Value;

use super::element::PathElement;
use super::shape::{Shape, Slot, element_of_item};

/// The errors of `config` as an object of the type `root`, as `.path: message` lines; empty if it matches.
pub(super) fn check(schema: &Schema, root: TypeId, config: &Value) -> Vec<String> {
    let mut checker = Checker { schema, path: Vec::with_capacity(16), errors: Vec::new() };
    checker.object(root, config);
    checker.errors
}

struct Checker<'s, 'v> {
    schema: &'s Schema,
    path: Vec<Step<'v>>,
    errors: Vec<String>,
}

/// A step of the path, formatted only for an error.
enum Step<'v> {
    Name(&'v str),
    Element(PathElement),
}

impl<'s, 'v> Checker<'s, 'v> {
    fn refuse(&mut self, message: &str) {
        if self.errors.len() >= ERRORS_SHOWN_MAX {
            return;
        }
        let mut error = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) => write!(error, ".{}", beginning(name)),
                Step::Element(element) => write!(error, "{element}"),
            }
            .expect("writing to a string cannot fail");
        }
        let separator = if self.path.is_empty() { "" } else { ": " };
        self.errors.push(error + separator + message);
    }

    /// Runs `check` below a step, and returns the step.
    fn at(&mut self, step: Step<'v>, check: impl FnOnce(&mut Self)) -> Option<Step<'v>> {
        self.path.push(step);
        check(self);
        self.path.pop()
    }

    fn value(&mut self, slot: Slot<'s>, value: &'v Value) {
        if value.is_null() {
            return;
        }
        let slot = slot.of_value(Some(value));
        match slot.value_type() {
            _ if slot.applied() == Applied::Nothing => self.refuse("field not declared in schema"),
            // A format of texts takes the place of the type.
            ValueType::Scalar(_) if slot.applied() == Applied::Scalars => {
                self.scalar(&Scalar::IntOrString, value);
            }
            ValueType::Scalar(scalar) => self.scalar(scalar, value),
            ValueType::Object(id) => self.object(*id, value),
            ValueType::List { item, .. } => self.list(slot, Slot::of(item), value),
            ValueType::Map { value: inner, .. } => match value {
                Value::Object(map) => {
                    for (name, value) in map.iter().take_while(|_| count_step()) {
                        self.at(Step::Name(name), |this| this.value(Slot::of(inner), value));
                    }
                }
                other => self.refuse(&format!("expected map, got {}", shown(other))),
            },
            ValueType::Member(member) => self.value(Slot::of(&member.value), value),
            ValueType::Untyped if slot.applied() == Applied::Objects && !value.is_object() => {
                self.refuse(&format!("expected map, got {}", shown(value)));
            }
            ValueType::Untyped => {}
        }
    }

    fn object(&mut self, id: TypeId, value: &'v Value) {
        let ty = self.schema.get(id);
        let map = match value {
            Value::Object(map) => map,
            Value::Null => return,
            other => return self.refuse(&format!("expected map, got {}", shown(other))),
        };
        for (name, value) in map.iter().take_while(|_| count_step()) {
            let inner = Slot::in_object(ty, name);
            self.at(Step::Name(name), |this| match inner {
                Some(inner) => this.value(inner, value),
                None => this.refuse("field not declared in schema"),
            });
        }
    }

    fn list(&mut self, slot: Slot<'s>, item: Slot<'s>, value: &'v Value) {
        let Value::Array(items) = value else {
            return self.refuse(&format!("expected list, got {}", shown(value)));
        };
        let shape = slot.shape(self.schema, None);
        let mut seen: BTreeSet<PathElement> = BTreeSet::new();
        for (at, value) in items.iter().take_while(|_| count_step()).enumerate() {
            if matches!(shape, Shape::Atomic) {
                let place = PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX));
                self.at(Step::Element(place), |this| this.value(item, value));
                continue;
            }
            match element_of_item(self.schema, shape, value) {
                Ok(element) => {
                    let step = self.at(Step::Element(element), |this| this.value(item, value));
                    if let Some(Step::Element(element)) = step {
                        // set: `seen` is one.
                        if seen.contains(&element) {
                            self.refuse(&format!("duplicate entries for key {element}"));
                        }
                        seen.insert(element);
                    }
                }
                Err(error) => return self.refuse(&format!("element {at}: {error}")),
            }
        }
    }

    fn scalar(&mut self, scalar: &Scalar, value: &Value) {
        let expected = match scalar {
            Scalar::Int32 | Scalar::Int64 | Scalar::Double if !value.is_number() => "numeric (int or float)",
            Scalar::Bool if !value.is_boolean() => "boolean",
            Scalar::String(_) | Scalar::Bytes | Scalar::Time | Scalar::MicroTime if !value.is_string() => {
                "string"
            }
            Scalar::Quantity | Scalar::IntOrString if value.is_object() || value.is_array() => "any scalar",
            Scalar::Int32
            | Scalar::Int64
            | Scalar::Double
            | Scalar::Bool
            | Scalar::String(_)
            | Scalar::Bytes
            | Scalar::Time
            | Scalar::MicroTime
            | Scalar::Quantity
            | Scalar::IntOrString => return,
        };
        self.refuse(&format!("expected {expected}, got {}", shown(value)));
    }
}
