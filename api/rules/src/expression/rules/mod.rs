//! Rules in the schemas of custom kinds: `x-…-validations`.
//!
//! Owns their way from a schema to programs ([`build`]), what a definition with them is refused for ([`definition`]), and
//! their evaluation over an object and the object before it ([`evaluate`]): transition rules, messages, and rules that an
//! unchanged part may go on to break. The texts of rules are checked with the definition; the types of the language are
//! `orch_expression`'s.
//!
//! Invariants: a part of a schema without rules in it has no node here, and is not walked; all rules of an object share
//! one budget, in the order of the walk.

mod build;
mod definition;
mod evaluate;
mod field_path;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use orch_expression::schema::Declared;
use orch_expression::{PatternLimits, Program};
use orch_proto::Brand;
use orch_schema::value::{SmolStr, Value};

pub use self::definition::check_rules;
pub use self::evaluate::{RULES_COST_MAX, Verdict};
use crate::expression::{Charge, Exhausted};

/// The rules of one schema.
#[derive(Debug, Default)]
pub struct SchemaRules {
    root: Option<Node>,
}

/// A part of a schema with rules at it or below.
#[derive(Debug)]
struct Node {
    /// `type` of the schema, which errors show instead of a value.
    type_name: Box<str>,
    declared: Option<Arc<Declared>>,
    rules: Box<[Rule]>,
    children: Children,
}

#[derive(Debug)]
enum Children {
    None,
    /// By name, in order.
    Properties(Box<[(SmolStr, Node)]>),
    /// Of a map.
    Values(Box<Node>),
    /// Of a list, with the properties that identify an item if it has such.
    Items(Box<Node>, Option<Box<[SmolStr]>>),
}

/// A rule.
#[derive(Debug)]
struct Rule {
    /// The text, trimmed.
    text: Box<str>,
    /// `message`, trimmed; may be empty.
    message: Box<str>,
    /// The reason, of a rule that does not compile any more.
    program: Result<Program, String>,
    message_program: Option<Program>,
    reason: Reason,
    /// What comes behind the node's path in errors; empty for the node itself.
    field_path: Box<str>,
    old: OldUse,
}

/// How a rule uses the value before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldUse {
    /// Not at all.
    Never,
    /// It is skipped without one.
    Required,
    /// It is evaluated without one, too.
    Optional,
}

/// The class of the error of a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

impl Reason {
    fn of(text: Option<&str>) -> Reason {
        match text {
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            _ => Reason::Invalid,
        }
    }
}

impl SchemaRules {
    /// The rules of `schema`, the whole schema of a version that was stored. A rule that does not compile any more is an
    /// error of each object.
    ///
    /// # Errors
    /// The steps are not left.
    pub fn compile(
        schema: &Value,
        brand: &'static Brand,
        charge: &mut dyn Charge,
    ) -> Result<SchemaRules, Exhausted> {
        let root = build::Builder::new(brand, charge, None).whole(schema)?;
        Ok(SchemaRules { root })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

/// Bounds of the patterns of rules.
const PATTERNS: PatternLimits = PatternLimits::STANDING;
