//! From a schema to its rules.
//!
//! Owns the walk over the structural part of a schema, with what each rule's place says: the types of `self` and `oldSelf`,
//! how often the part may be there, and whether its old value can be found.

use std::sync::Arc;

use orch_expression::environments::{OldSelf, rule_scope};
use orch_expression::schema::{Cardinality, Declared, Keywords, Root, SchemaSizes, SchemaTypes};
use orch_expression::{Ast, CompileError, Program, Type};
use orch_proto::Brand;
use orch_schema::value::{SmolStr, Value};

use super::definition::Report;
use super::{Children, Node, OldUse, PATTERNS, Reason, Rule, field_path};
use crate::expression::{Charge, Exhausted};
use crate::validate::Path;
use crate::validate::tree::Tree;

/// Levels of a schema that are walked, as for the types of the language.
const LEVELS_MAX: usize = 100;

pub(super) struct Builder<'b> {
    brand: &'static Brand,
    keywords: Keywords,
    names: Names,
    charge: &'b mut dyn Charge,
    report: Option<&'b mut Report>,
    types: Arc<SchemaTypes>,
}

/// Names of the extensions that are read here.
struct Names {
    validations: String,
    list_type: String,
    list_map_keys: String,
}

/// Where a part of a schema stands.
#[derive(Clone)]
struct Place {
    path: Path,
    cardinality: Cardinality,
    /// The list in which old values cannot be found.
    uncorrelatable: Option<Path>,
    levels: usize,
}

/// The parts of a compiled rule that a definition is judged by.
pub(super) struct Compiled {
    pub(super) rule: Result<Program, String>,
    pub(super) message: Option<Result<Program, String>>,
    pub(super) rule_cost: u64,
    pub(super) message_cost: u64,
    pub(super) uses_old: bool,
}

impl<'b> Builder<'b> {
    pub(super) fn new(
        brand: &'static Brand,
        charge: &'b mut dyn Charge,
        report: Option<&'b mut Report>,
    ) -> Builder<'b> {
        let name = |stem: &str| format!("{}{stem}", brand.extension_prefix);
        let names = Names {
            validations: name("validations"),
            list_type: name("list-type"),
            list_map_keys: name("list-map-keys"),
        };
        let keywords = Keywords::with_prefix(brand.extension_prefix);
        Builder { brand, keywords, names, charge, report, types: Arc::default() }
    }

    /// The node of a whole schema.
    pub(super) fn whole(mut self, schema: &Value) -> Result<Option<Node>, Exhausted> {
        let declared = self.keywords.declare(schema, Root::Resource);
        self.types = Arc::new(declared.as_ref().map(SchemaTypes::of).unwrap_or_default());
        let path = self.report.as_ref().map_or_else(Path::default, |report| report.path.clone());
        let place = Place { path, cardinality: Cardinality::ROOT, uncorrelatable: None, levels: LEVELS_MAX };
        self.node(schema, declared, &place)
    }

    fn node(
        &mut self,
        schema: &Value,
        declared: Option<Arc<Declared>>,
        place: &Place,
    ) -> Result<Option<Node>, Exhausted> {
        let Some(levels) = place.levels.checked_sub(1) else { return Ok(None) };
        let place = &Place { levels, ..place.clone() };
        let rules = self.rules(schema, declared.as_ref(), place)?;
        let children = self.children(schema, declared.as_ref(), place)?;
        if rules.is_empty() && matches!(children, Children::None) {
            return Ok(None);
        }
        let type_name = schema.text("type").into();
        Ok(Some(Node { type_name, declared, rules: rules.into(), children }))
    }

    /// The declaration of a part, on its own where the one around does not show it.
    fn declared(&self, schema: &Value, shown: Option<&Arc<Declared>>) -> Option<Arc<Declared>> {
        shown.cloned().or_else(|| self.keywords.declare(schema, Root::Part))
    }

    fn children(
        &mut self,
        schema: &Value,
        declared: Option<&Arc<Declared>>,
        place: &Place,
    ) -> Result<Children, Exhausted> {
        let element = declared.and_then(|declared| declared.element());
        if schema.at("items").is_object() {
            return self.items(schema, element, place);
        }
        if schema.at("additionalProperties").is_object() {
            let values = schema.at("additionalProperties");
            let place = Place {
                path: place.path.child("additionalProperties"),
                cardinality: place.cardinality.of_element(bound(schema, "maxProperties")),
                ..place.clone()
            };
            let declared = self.declared(values, element);
            let node = self.node(values, declared, &place)?;
            return Ok(node.map_or(Children::None, |node| Children::Values(Box::new(node))));
        }
        let mut nodes = Vec::new();
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            let shown = declared.and_then(|declared| declared.property(name));
            let place = Place { path: place.path.child("properties").key(name), ..place.clone() };
            let declared = self.declared(property, shown);
            if let Some(node) = self.node(property, declared, &place)? {
                nodes.push((name.clone(), node));
            }
        }
        nodes.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(if nodes.is_empty() { Children::None } else { Children::Properties(nodes.into()) })
    }

    fn items(
        &mut self,
        schema: &Value,
        element: Option<&Arc<Declared>>,
        place: &Place,
    ) -> Result<Children, Exhausted> {
        let keys = (schema.text(&self.names.list_type) == "map").then(|| {
            let keys = schema.items(&self.names.list_map_keys).iter();
            keys.filter_map(Value::as_str).map(SmolStr::from).collect::<Box<[SmolStr]>>()
        });
        let uncorrelatable = place.uncorrelatable.clone();
        let place = Place {
            path: place.path.child("items"),
            cardinality: place.cardinality.of_element(bound(schema, "maxItems")),
            uncorrelatable: uncorrelatable.or_else(|| keys.is_none().then(|| place.path.clone())),
            ..place.clone()
        };
        let items = schema.at("items");
        let declared = self.declared(items, element);
        let node = self.node(items, declared, &place)?;
        Ok(node.map_or(Children::None, |node| Children::Items(Box::new(node), keys)))
    }

    fn rules(
        &mut self,
        schema: &Value,
        declared: Option<&Arc<Declared>>,
        place: &Place,
    ) -> Result<Vec<Rule>, Exhausted> {
        let path = place.path.child(&self.names.validations);
        let mut rules = Vec::new();
        for (at, rule) in schema.items(&self.names.validations).iter().enumerate() {
            // A rule without a text is refused with the definition.
            if rule.text("rule").trim().is_empty() {
                continue;
            }
            let compiled = self.compile(rule, declared, place)?;
            if let Some(report) = &mut self.report {
                report.judge(rule, &compiled, &path.index(at), place.uncorrelatable.as_ref());
                continue;
            }
            rules.push(Builder::rule(rule, compiled));
        }
        // A report is about rules; it needs no programs.
        Ok(rules)
    }

    fn compile(
        &mut self,
        rule: &Value,
        declared: Option<&Arc<Declared>>,
        place: &Place,
    ) -> Result<Compiled, Exhausted> {
        let refused = |reason: String| Compiled {
            rule: Err(reason),
            message: None,
            rule_cost: 0,
            message_cost: 0,
            uses_old: false,
        };
        let Some(declared) = declared else {
            return Ok(refused("the type of the schema has no rules".to_owned()));
        };
        let old = if rule.flag("optionalOldSelf") { OldSelf::Optional } else { OldSelf::Value };
        let scope = rule_scope(&self.types, declared, old, self.brand.name);
        let mut check = |text: &str| Ast::check(text, &scope, &mut *self.charge);
        let sizes = SchemaSizes(declared);
        let ast = match check(rule.text("rule"))? {
            Ok(ast) => ast,
            Err(error) => return Ok(refused(failed(&error))),
        };
        let uses_old = ast.names_variable("oldSelf");
        let rule_cost = ast.estimate(&sizes).max.saturating_mul(place.cardinality.times(declared));
        let expression = rule.text("messageExpression");
        let message = if expression.trim().is_empty() { None } else { Some(check(expression)?) };
        let message_cost = match &message {
            Some(Ok(message)) => message.estimate(&sizes).max,
            _ => 0,
        };
        let message = match message {
            None => None,
            Some(Ok(ast)) if *ast.result() == Type::String => {
                let program = self.program(ast)?;
                Some(program.map_err(|reason| format!("messageExpression {reason}")))
            }
            Some(Ok(_)) => Some(Err("messageExpression must evaluate to a string".to_owned())),
            Some(Err(error)) => Some(Err(format!("messageExpression {}", failed(&error)))),
        };
        let rule = match *ast.result() {
            Type::Bool => self.program(ast)?,
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        };
        Ok(Compiled { rule, message, rule_cost, message_cost, uses_old })
    }

    fn rule(rule: &Value, compiled: Compiled) -> Rule {
        let message_program = compiled.message.and_then(Result::ok);
        let old = match (compiled.uses_old, rule.flag("optionalOldSelf")) {
            (false, _) => OldUse::Never,
            (true, false) => OldUse::Required,
            (true, true) => OldUse::Optional,
        };
        Rule {
            text: rule.text("rule").trim().into(),
            message: rule.text("message").trim().into(),
            program: compiled.rule,
            message_program,
            reason: Reason::of(rule.at("reason").as_str()),
            field_path: field_path::normalized(rule.text("fieldPath")).into(),
            old,
        }
    }

    fn program(&mut self, ast: Ast) -> Result<Result<Program, String>, Exhausted> {
        let program = ast.program(PATTERNS, &mut *self.charge)?;
        Ok(match program.pattern_fault() {
            Some(fault) => Err(failed(&fault)),
            None => Ok(program),
        })
    }
}

/// The text of a fault of compiling.
fn failed(error: &CompileError) -> String {
    format!("compilation failed: {error}")
}

/// A bound of a schema; negative ones count as zero.
fn bound(schema: &Value, name: &str) -> Option<u64> {
    let bound = schema.at(name).as_i64()?;
    Some(u64::try_from(bound).unwrap_or(0))
}
