//! The rules of a schema for values, in a form that takes little memory: most nodes are a type and nothing else.
//!
//! Owns how a schema becomes that form. Checking is in [`super::check`]; what stands in the tables, too, is not repeated here.

use std::sync::Arc;

use orch_schema::value::{SmolStr, Value};

use super::format::Format;
use super::source::{Additional, Source};
use super::tables::{DEPTH_MAX, NODES_MAX};
use super::{CompileError, text};
use crate::expression::rules::SchemaRules;

/// JSON types as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const OBJECT: Types = Types(1);
    pub(super) const ARRAY: Types = Types(2);
    pub(super) const STRING: Types = Types(4);
    pub(super) const INTEGER: Types = Types(8);
    pub(super) const NUMBER: Types = Types(16);
    pub(super) const BOOLEAN: Types = Types(32);
    const INTEGER_OR_STRING: Types = Types(8 | 4);

    /// The types of the node; none where it says nothing.
    fn of(source: Source<'_>) -> Types {
        if source.is_int_or_string() {
            return Types::INTEGER_OR_STRING;
        }
        match source.type_name() {
            "object" => Types::OBJECT,
            "array" => Types::ARRAY,
            "string" => Types::STRING,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "boolean" => Types::BOOLEAN,
            _ => Types(0),
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    /// The only type, if there is one.
    pub(super) fn single(self) -> Option<&'static str> {
        Some(match self {
            Types::OBJECT => "object",
            Types::ARRAY => "array",
            Types::STRING => "string",
            Types::INTEGER => "integer",
            Types::NUMBER => "number",
            Types::BOOLEAN => "boolean",
            _ => return None,
        })
    }

    /// As messages list them.
    pub(super) fn names(self) -> &'static str {
        self.single().unwrap_or("integer,string")
    }
}

/// What is unique in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unique {
    Nothing,
    /// Its items.
    Items,
    /// The keys of its items.
    Keys,
}

/// The rules of one node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) properties: Box<[(SmolStr, Node)]>,
    pub(super) items: Option<Box<Node>>,
    /// Values of a map.
    pub(super) values: Option<Box<Node>>,
    pub(super) rules: Option<Box<Rules>>,
    pub(super) types: Types,
    pub(super) format: Format,
    pub(super) nullable: bool,
    pub(super) unique: Unique,
    /// Objects of another kind stand here.
    pub(super) embedded: bool,
    /// A list here or below has unique items or keys.
    pub(super) has_unique: bool,
    /// Objects of another kind stand here or below.
    pub(super) has_embedded: bool,
}

/// Rules that few nodes have. Bounds are numbers as the reference holds them, which reads them as floats.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) required: Box<[SmolStr]>,
    pub(super) allowed: Arc<[Value]>,
    pub(super) pattern: SmolStr,
    pub(super) format_name: SmolStr,
    pub(super) length_max: Option<i64>,
    pub(super) length_min: Option<i64>,
    pub(super) items_max: Option<i64>,
    pub(super) items_min: Option<i64>,
    pub(super) members_max: Option<i64>,
    pub(super) members_min: Option<i64>,
    pub(super) maximum: Option<f64>,
    pub(super) minimum: Option<f64>,
    pub(super) multiple_of: Option<f64>,
    pub(super) is_maximum_exclusive: bool,
    pub(super) is_minimum_exclusive: bool,
    pub(super) has_unique_items: bool,
    /// Members that are not declared are refused.
    pub(super) is_closed: bool,
    pub(super) list_keys: Box<[SmolStr]>,
    pub(super) junctors: Option<Box<Junctors>>,
}

/// Schemas that a value must match besides.
#[derive(Debug, Default)]
pub(super) struct Junctors {
    pub(super) all_of: Box<[Node]>,
    pub(super) any_of: Box<[Node]>,
    pub(super) one_of: Box<[Node]>,
    pub(super) not: Option<Node>,
}

/// The rules of one version of a kind.
#[derive(Debug)]
pub struct Constraints {
    pub(super) root: Node,
    /// `apiVersion` and `kind` of the objects, which are not among their members; `None`: of a part of an object.
    pub(super) head: Option<(Value, Value)>,
    /// The rules in expressions, which are evaluated only where nothing essential is wrong.
    pub(super) expressions: SchemaRules,
}

impl Constraints {
    pub(super) fn compile(source: Source<'_>, head: Option<(&str, &str)>) -> Result<Self, CompileError> {
        let root = Compiler { depth: 0, nodes: 0 }.node(source)?;
        // Parts of objects, such as defaults, are not held to them.
        let schema = if head.is_some() { source.node() } else { &Value::Null };
        let expressions = SchemaRules::of(schema, source.brand());
        let head = head.map(|(api_version, kind)| (Value::from(api_version), Value::from(kind)));
        Ok(Constraints { root, head, expressions })
    }

    /// Bytes of memory that the rules hold, expressions and compiled patterns excepted.
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.root.held_bytes()
    }
}

struct Compiler {
    depth: usize,
    nodes: usize,
}

impl Compiler {
    fn node(&mut self, source: Source<'_>) -> Result<Node, CompileError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(CompileError::TooLarge { max: NODES_MAX });
        }
        if self.depth == DEPTH_MAX {
            return Err(CompileError::TooDeep { max: DEPTH_MAX });
        }
        self.depth += 1;
        let node = self.open_node(source);
        self.depth -= 1;
        node
    }

    fn open_node(&mut self, source: Source<'_>) -> Result<Node, CompileError> {
        let properties = source.properties().into_iter();
        let properties: Result<Box<[(SmolStr, Node)]>, CompileError> =
            properties.map(|(name, node)| Ok((SmolStr::new(name), self.node(node)?))).collect();
        let properties = properties?;
        let items = self.boxed(source.items())?;
        let values = match source.additional() {
            Additional::Of(node) => self.boxed(Some(node))?,
            Additional::Unsaid | Additional::Forbidden | Additional::Any => None,
        };
        let types = Types::of(source);
        let unique = match source.extension("list-type").as_str() {
            Some("set") => Unique::Items,
            Some("map") => Unique::Keys,
            _ => Unique::Nothing,
        };
        let embedded = source.is_embedded();
        let below =
            || properties.iter().map(|(_, node)| node).chain(items.as_deref()).chain(values.as_deref());
        // once: the nodes below this one.
        let has_unique = unique != Unique::Nothing || below().any(|node| node.has_unique);
        // once: the nodes below this one.
        let has_embedded = embedded || below().any(|node| node.has_embedded);
        let format = Format::of(source.at("format").as_str().unwrap_or_default(), types);
        let rules = self.rules(source, format)?;
        let nullable = source.is_nullable();
        Ok(Node {
            properties,
            items,
            values,
            rules,
            types,
            format,
            nullable,
            unique,
            embedded,
            has_unique,
            has_embedded,
        })
    }

    fn boxed(&mut self, source: Option<Source<'_>>) -> Result<Option<Box<Node>>, CompileError> {
        source.map(|source| self.node(source).map(Box::new)).transpose()
    }

    fn rules(&mut self, source: Source<'_>, format: Format) -> Result<Option<Box<Rules>>, CompileError> {
        let int = |name: &str| source.at(name).as_i64();
        let float = |name: &str| source.at(name).as_f64();
        let flag = |name: &str| source.at(name).as_bool() == Some(true);
        let names = |names: Vec<&str>| names.into_iter().map(SmolStr::new).collect::<Box<[SmolStr]>>();
        let format_name = if format.is_of_text() { text(source.at("format")) } else { SmolStr::default() };
        let rules = Rules {
            required: names(source.required()),
            allowed: source.at("enum").as_array().into_iter().flatten().cloned().collect(),
            pattern: text(source.at("pattern")),
            format_name,
            length_max: int("maxLength"),
            length_min: int("minLength"),
            items_max: int("maxItems"),
            items_min: int("minItems"),
            members_max: int("maxProperties"),
            members_min: int("minProperties"),
            maximum: float("maximum"),
            minimum: float("minimum"),
            multiple_of: float("multipleOf"),
            is_maximum_exclusive: flag("exclusiveMaximum"),
            is_minimum_exclusive: flag("exclusiveMinimum"),
            has_unique_items: flag("uniqueItems"),
            is_closed: matches!(source.additional(), Additional::Forbidden),
            list_keys: names(source.list_keys()),
            junctors: self.junctors(source)?,
        };
        Ok(if rules.is_empty() { None } else { Some(Box::new(rules)) })
    }

    fn junctors(&mut self, source: Source<'_>) -> Result<Option<Box<Junctors>>, CompileError> {
        let mut nodes = |name: &str| -> Result<Box<[Node]>, CompileError> {
            source.schemas(name).into_iter().map(|node| self.node(node)).collect()
        };
        let (all_of, any_of, one_of) = (nodes("allOf")?, nodes("anyOf")?, nodes("oneOf")?);
        let not = source.schema("not").map(|node| self.node(node)).transpose()?;
        let is_none = all_of.is_empty() && any_of.is_empty() && one_of.is_empty() && not.is_none();
        Ok(if is_none { None } else { Some(Box::new(Junctors { all_of, any_of, one_of, not })) })
    }
}

impl Rules {
    fn is_empty(&self) -> bool {
        let Rules { required, allowed, pattern, format_name, list_keys, junctors, .. } = self;
        let has_lists = !(required.is_empty() && allowed.is_empty() && list_keys.is_empty());
        let has_texts = has_lists || !(pattern.is_empty() && format_name.is_empty());
        let counts = [
            self.length_max,
            self.length_min,
            self.items_max,
            self.items_min,
            self.members_max,
            self.members_min,
        ];
        let bounds = [self.maximum, self.minimum, self.multiple_of];
        // few: nine bounds.
        let has_bounds = counts.iter().any(Option::is_some) || bounds.iter().any(Option::is_some);
        !(has_texts || has_bounds || self.has_unique_items || self.is_closed || junctors.is_some())
    }

    fn held_bytes(&self) -> usize {
        let texts = |texts: &[SmolStr]| size_of_val(texts) + texts.iter().map(text_bytes).sum::<usize>();
        let nodes = |nodes: &[Node]| -> usize {
            nodes.iter().map(|node| size_of::<Node>() + node.held_bytes()).sum()
        };
        let junctors = self.junctors.as_deref().map_or(0, |of| {
            let not = of.not.as_ref().map_or(0, Node::held_bytes);
            size_of::<Junctors>() + not + nodes(&of.all_of) + nodes(&of.any_of) + nodes(&of.one_of)
        });
        let allowed: usize = size_of_val(&*self.allowed);
        texts(&self.required) + texts(&self.list_keys) + allowed + text_bytes(&self.pattern) + junctors
    }
}

/// Bytes of a text beside its place.
fn text_bytes(text: &SmolStr) -> usize {
    if text.is_heap_allocated() { text.len() } else { 0 }
}

impl Node {
    /// The schema of the member `name`.
    pub(super) fn property(&self, name: &str) -> Option<&Node> {
        let found = self.properties.binary_search_by(|(property, _)| property.as_str().cmp(name));
        found.ok().map(|at| &self.properties[at].1)
    }

    /// The rules, empty ones where there are none.
    pub(super) fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// Bytes of memory beside the node itself.
    fn held_bytes(&self) -> usize {
        let properties: usize = self
            .properties
            .iter()
            .map(|(name, node)| size_of::<(SmolStr, Node)>() + text_bytes(name) + node.held_bytes())
            .sum();
        let boxed = |node: &Option<Box<Node>>| {
            node.as_deref().map_or(0, |node| size_of::<Node>() + node.held_bytes())
        };
        let rules = self.rules().map_or(0, |rules| size_of::<Rules>() + rules.held_bytes());
        properties + boxed(&self.items) + boxed(&self.values) + rules
    }
}
