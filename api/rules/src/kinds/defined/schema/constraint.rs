//! The rules of a schema for values, in a form that takes little memory: most nodes are a type and nothing else, and those that are the
//! same are kept once.
//!
//! Owns how a schema becomes that form. Checking is in [`super::check`]; what stands in the tables, too, is not repeated here.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use orch_schema::value::{SmolStr, Value};

use super::format::Format;
use super::rules::{Bound, Junctors, Rest, Rules};
use super::sharing::Shared;
use super::source::{Additional, Source};
use super::tables::{DEPTH_MAX, NODES_MAX};
use super::{CompileError, text};
use crate::expression::rules::SchemaRules;

/// JSON types as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The part of items that is unique in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub(super) properties: Box<[(SmolStr, Arc<Node>)]>,
    pub(super) items: Option<Arc<Node>>,
    /// Values of a map.
    pub(super) values: Option<Arc<Node>>,
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
        let root = Compiler { depth: 0, nodes: 0, shared: Shared::new() }.node(source)?;
        // Parts of objects, such as defaults, are not held to them.
        let schema = if head.is_some() { source.node() } else { &Value::Null };
        let expressions = SchemaRules::of(schema, source.brand());
        let head = head.map(|(api_version, kind)| (Value::from(api_version), Value::from(kind)));
        Ok(Constraints { root, head, expressions })
    }

    /// Bytes of memory that the rules hold, expressions and compiled patterns excepted.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.root.held_bytes(&mut std::collections::HashSet::new())
    }
}

struct Compiler {
    depth: usize,
    nodes: usize,
    /// The nodes below the root, each by itself.
    shared: Shared<Arc<Node>>,
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
        let properties: Result<Box<[(SmolStr, Arc<Node>)]>, CompileError> =
            properties.map(|(name, node)| Ok((SmolStr::new(name), self.shared_node(node)?))).collect();
        let properties = properties?;
        let items = source.items().map(|node| self.shared_node(node)).transpose()?;
        let values = match source.additional() {
            Additional::Of(node) => Some(self.shared_node(node)?),
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
            || properties.iter().map(|(_, node)| &**node).chain(items.as_deref()).chain(values.as_deref());
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

    /// The node of `source`, or an equal one that was made before.
    fn shared_node(&mut self, source: Source<'_>) -> Result<Arc<Node>, CompileError> {
        let node = self.node(source)?;
        let hash = self.shared.hash_of(&node);
        if let Some(same) = self.shared.find(hash, |made| made.is_alike(&node)) {
            return Ok(same);
        }
        let node = Arc::new(node);
        self.shared.add(hash, node.clone());
        Ok(node)
    }

    fn rules(&mut self, source: Source<'_>, format: Format) -> Result<Option<Box<Rules>>, CompileError> {
        let count = |name: &str, of: fn(i64) -> Bound| source.at(name).as_i64().map(of);
        let number = |name: &str, of: fn(f64) -> Bound| source.at(name).as_f64().map(of);
        let flag = |name: &str| source.at(name).as_bool() == Some(true);
        let names = |names: Vec<&str>| names.into_iter().map(SmolStr::new).collect::<Box<[SmolStr]>>();
        let bounds = [
            count("maxLength", Bound::LengthMax),
            count("minLength", Bound::LengthMin),
            count("maxItems", Bound::ItemsMax),
            count("minItems", Bound::ItemsMin),
            count("maxProperties", Bound::MembersMax),
            count("minProperties", Bound::MembersMin),
            number("maximum", Bound::Maximum),
            number("minimum", Bound::Minimum),
            number("multipleOf", Bound::MultipleOf),
        ];
        let allowed = source.at("enum").as_array().filter(|allowed| !allowed.is_empty());
        let rest = Rest {
            pattern: text(source.at("pattern")),
            format_name: if format.is_of_text() { text(source.at("format")) } else { SmolStr::default() },
            list_keys: names(source.list_keys()),
            allowed: allowed.map(|allowed| allowed.iter().cloned().collect()),
            junctors: self.junctors(source)?,
        };
        let rules = Rules {
            required: names(source.required()),
            is_maximum_exclusive: flag("exclusiveMaximum"),
            is_minimum_exclusive: flag("exclusiveMinimum"),
            has_unique_items: flag("uniqueItems"),
            is_closed: matches!(source.additional(), Additional::Forbidden),
            ..Rules::default()
        };
        Ok(rules.with(bounds.into_iter().flatten(), rest))
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

impl Node {
    /// The schema of the member `name`.
    pub(super) fn property(&self, name: &str) -> Option<&Node> {
        let found = self.properties.binary_search_by(|(property, _)| property.as_str().cmp(name));
        found.ok().map(|at| &*self.properties[at].1)
    }

    /// The rules, empty ones where there are none.
    pub(super) fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// The constraints of the node by itself.
    fn own(&self) -> (Types, Format, bool, Unique, bool) {
        (self.types, self.format, self.nullable, self.unique, self.embedded)
    }

    /// The nodes below, by their places.
    fn below(&self) -> impl Iterator<Item = *const Node> {
        let properties = self.properties.iter().map(|(_, node)| Arc::as_ptr(node));
        properties.chain(self.items.iter().chain(&self.values).map(Arc::as_ptr))
    }

    /// Whether `other`, which is made of the same shared nodes, says the same.
    fn is_alike(&self, other: &Node) -> bool {
        let names = |of: &Node| of.properties.len();
        let are_named_alike = || {
            let pairs = self.properties.iter().zip(&other.properties);
            pairs.into_iter().all(|((one, _), (other, _))| one == other)
        };
        let rules = match (&self.rules, &other.rules) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_alike(other),
            _ => false,
        };
        rules
            && self.own() == other.own()
            && (names(self), self.items.is_some()) == (names(other), other.items.is_some())
            && self.below().eq(other.below())
            && are_named_alike()
    }

    /// Bytes of memory beside the node itself, without what `met` has already.
    #[cfg(test)]
    fn held_bytes(&self, met: &mut std::collections::HashSet<*const Node>) -> usize {
        let rules = self.rules().map_or(0, Rules::held_bytes);
        let mut bytes = size_of_val(&*self.properties) + rules;
        let nodes = self.properties.iter().map(|(_, node)| node).chain(&self.items).chain(&self.values);
        for node in nodes {
            if met.insert(Arc::as_ptr(node)) {
                bytes += 2 * size_of::<usize>() + size_of::<Node>() + node.held_bytes(met);
            }
        }
        bytes
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.own().hash(state);
        self.properties.iter().for_each(|(name, _)| name.hash(state));
        self.below().for_each(|node| node.hash(state));
        self.rules().hash(state);
    }
}
