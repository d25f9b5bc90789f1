//! Rules in the schemas of custom kinds: `x-…-validations`.
//!
//! Owns their way from a schema to a tree of parts with rules ([`build`]) and from a text to a program ([`compile`]), what a
//! definition with them is refused for ([`definition`]), and their evaluation over an object and the object before it
//! ([`evaluate`]): transition rules, messages, and rules that an unchanged part may go on to break. The texts of rules are
//! checked with the definition; the types of the language are `orch_expression`'s.
//!
//! Invariants: a part of a schema without rules in it has no node here, and is not walked; a rule is compiled when it is first
//! evaluated, once; all rules of an object share one budget, in the order of the walk.

mod build;
mod compile;
mod definition;
mod evaluate;
mod field_path;
mod place;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use orch_expression::{PatternLimits, Program};
use orch_proto::Brand;
use orch_schema::value::{SmolStr, Value};

use self::build::Seen;
pub use self::definition::{RuleChecks, check_rules};
pub use self::evaluate::{RULES_COST_MAX, RulePart, Verdict};
pub use self::place::Sameness;

/// Steps of compiling all rules of a definition, and of any one when it is first evaluated: two seconds. The largest known
/// definition takes a tenth of it.
pub const RULE_STEPS_MAX: u64 = 20_000_000;
/// Bounds of the patterns of rules.
const PATTERNS: PatternLimits = PatternLimits::STANDING;

/// The rules of one schema.
#[derive(Debug)]
pub struct SchemaRules {
    root: Option<Node>,
    brand: &'static Brand,
    /// Whether a rule of the whole object reads its `apiVersion` or `kind`, or these have rules.
    reads_head: bool,
}

/// A part of a schema with rules at it or below.
#[derive(Debug)]
struct Node {
    /// `type` of the schema, which errors show instead of a value.
    type_name: Box<str>,
    seen: Seen,
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
    /// `messageExpression`; may be empty.
    message_expression: Box<str>,
    reason: Reason,
    /// The part of the path behind the node's in errors; empty for the node itself.
    field_path: Box<str>,
    /// `optionalOldSelf`.
    has_optional_old: bool,
    compiled: OnceLock<Compiled>,
}

/// The programs of a rule.
#[derive(Debug)]
struct Compiled {
    /// The reason, of a rule that does not compile any more.
    rule: Result<Program, String>,
    message: Option<Program>,
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
    /// The rules of `schema`, the whole schema of a version that was stored. Nothing is compiled yet; a rule that does not
    /// compile any more is an error of each object.
    pub fn of(schema: &Value, brand: &'static Brand) -> SchemaRules {
        build::rules_of(schema, brand)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}
