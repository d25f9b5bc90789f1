//! From a schema document to declarations.
//!
//! Owns the keywords that count: `type`, `properties`, `additionalProperties`, `items`, `format`, `nullable`, `required`,
//! `default`, `enum`, the bounds of sizes, and the extensions for lists, embedded resources and int-or-string. A part that
//! has no type of the language is not visible to expressions.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use orch_schema::value::{Map, SmolStr, Value};

use super::names::escape;
use super::sizes::REQUEST_BYTES_MAX;
use super::{Declared, DeclaredField, Kind, ListShape, ObjectShape, Topology};

/// Levels of a schema that are looked at. Deeper parts are not visible; the reference's largest schemas have thirty.
const LEVELS_MAX: usize = 100;
/// Bytes of the name of an object type, which is its path: those of parts with longer paths are numbers, since each of many
/// parts would repeat the path around it.
const NAME_BYTES_MAX: usize = 400;

/// Names of the extensions, which have the brand's prefix.
#[derive(Clone, Debug)]
pub struct Keywords {
    int_or_string: String,
    embedded_resource: String,
    list_type: String,
    list_map_keys: String,
}

/// Whether the schema is that of a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// It has `apiVersion`, `kind` and `metadata`.
    Resource,
    /// It is a part of one.
    Part,
}

impl Keywords {
    /// The extensions with this prefix, such as `x-orch-`.
    pub fn with_prefix(prefix: &str) -> Keywords {
        Keywords {
            int_or_string: format!("{prefix}int-or-string"),
            embedded_resource: format!("{prefix}embedded-resource"),
            list_type: format!("{prefix}list-type"),
            list_map_keys: format!("{prefix}list-map-keys"),
        }
    }

    /// The declaration of the values of `schema`; `None` if they are not visible to expressions.
    pub fn declare(&self, schema: &Value, root: Root) -> Option<Arc<Declared>> {
        let head = Head::Implied;
        Walk { keywords: self, head, root: "self", numbered: Cell::new(0) }
            .node(schema, root, "self", LEVELS_MAX)
    }

    /// The declaration of objects whose published schema is `schema`, with a type that is called `name`; `None` if they are
    /// not visible to expressions.
    pub fn declare_published(&self, schema: &Value, name: &str) -> Option<Arc<Declared>> {
        let head = Head::Published;
        Walk { keywords: self, head, root: name, numbered: Cell::new(0) }.node(
            schema,
            Root::Part,
            name,
            LEVELS_MAX,
        )
    }
}

/// The source of `apiVersion`, `kind` and `metadata` of whole objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// They are there whatever the schema says, and of the metadata only the names.
    Implied,
    /// The schema, which has all of them.
    Published,
}

/// The walk over one schema.
struct Walk<'k> {
    keywords: &'k Keywords,
    head: Head,
    /// The name of the type of the whole.
    root: &'k str,
    /// Types whose names are numbers.
    numbered: Cell<usize>,
}

impl Walk<'_> {
    /// The name of the type of the part `step` of that with the name `path`.
    fn below(&self, path: &str, step: &str) -> String {
        if path.len() + step.len() < NAME_BYTES_MAX {
            return format!("{path}.{step}");
        }
        self.numbered.set(self.numbered.get() + 1);
        format!("{}.@{}", self.root, self.numbered.get())
    }

    fn node(&self, schema: &Value, root: Root, path: &str, levels: usize) -> Option<Arc<Declared>> {
        let levels = levels.checked_sub(1)?;
        let of = schema.as_object()?;
        let is_nullable = is_true(of, "nullable");
        let declared =
            |kind, bytes_min, size_max| Arc::new(Declared { kind, bytes_min, size_max, is_nullable });
        // Published schemas of built-in kinds say so by the format.
        let is_either =
            self.head == Head::Published && of.get("format").and_then(Value::as_str) == Some("int-or-string");
        if is_either || is_true(of, &self.keywords.int_or_string) {
            let size = characters_max(of).map_or(REQUEST_BYTES_MAX - 2, |most| most.saturating_mul(4));
            return Some(declared(Kind::IntOrString, 1, size));
        }
        match of.get("type").and_then(Value::as_str)? {
            "array" => self.list(of, path, levels).map(|(shape, size)| declared(Kind::List(shape), 2, size)),
            "object" => self.object(of, root, path, levels, &declared),
            "string" => {
                let (kind, bytes_min, size) = text(of);
                Some(declared(kind, bytes_min, size))
            }
            "boolean" => Some(declared(Kind::Bool, 4, 0)),
            "number" => Some(declared(Kind::Double, 1, 0)),
            "integer" => Some(declared(Kind::Int, 1, 0)),
            _ => None,
        }
    }

    fn list(&self, of: &Map, path: &str, levels: usize) -> Option<(ListShape, u64)> {
        let item = self.node(of.get("items")?, Root::Part, &self.below(path, "@idx"), levels)?;
        let fitting = (REQUEST_BYTES_MAX - 2) / item.bytes_min.saturating_add(1);
        let size = bound(of, "maxItems").unwrap_or(fitting);
        let topology = match of.get(&self.keywords.list_type).and_then(Value::as_str) {
            Some("set") => Topology::Set,
            Some("map") => {
                let keys = of.get(&self.keywords.list_map_keys).and_then(Value::as_array);
                let keys = keys.map_or(&[][..], Vec::as_slice);
                // A name that expressions cannot write is looked up as it is.
                let name = |key: &str| escape(key).unwrap_or_else(|| key.to_owned()).into_boxed_str();
                Topology::Keyed(keys.iter().filter_map(Value::as_str).map(name).collect())
            }
            _ => Topology::Atomic,
        };
        Some((ListShape { item, topology }, size))
    }

    fn object(
        &self,
        of: &Map,
        root: Root,
        path: &str,
        levels: usize,
        declared: &dyn Fn(Kind, u64, u64) -> Arc<Declared>,
    ) -> Option<Arc<Declared>> {
        if let Some(values @ Value::Object(_)) = of.get("additionalProperties") {
            let value = self.node(values, Root::Part, &self.below(path, "@elem"), levels)?;
            let fitting = (REQUEST_BYTES_MAX - 2) / value.bytes_min.saturating_add(6);
            let size = bound(of, "maxProperties").unwrap_or(fitting);
            return Some(declared(Kind::Map(value), 2, size));
        }
        let is_object = root == Root::Resource || is_true(of, &self.keywords.embedded_resource);
        let is_resource = is_object && self.head == Head::Implied;
        let empty = Map::new();
        let properties = of.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = of.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let required: HashSet<&str> = required.iter().filter_map(Value::as_str).collect();
        let mut fields = Vec::new();
        let mut bytes_min = 2_u64;
        let mut add = |name: &str, field: Arc<Declared>, has_default: bool| {
            if required.contains(name) && !has_default {
                let own = crate::length(name.len()).saturating_add(4);
                bytes_min = bytes_min.saturating_add(own).saturating_add(field.bytes_min);
            }
            if let Some(escaped) = escape(name) {
                let property = SmolStr::from(name);
                fields.push(DeclaredField { name: escaped.into(), property, declared: field });
            }
        };
        for (name, property) in properties {
            if is_resource && matches!(&**name, "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let below = escape(name).map_or_else(String::new, |escaped| self.below(path, &escaped));
            let Some(field) = self.node(property, Root::Part, &below, levels) else { continue };
            add(name, field, property.get("default").is_some_and(|default| !default.is_null()));
        }
        if is_resource {
            let text = || plain(Kind::Text, 2, REQUEST_BYTES_MAX - 2);
            add("apiVersion", text(), false);
            add("kind", text(), false);
            add("metadata", metadata(&self.below(path, "metadata")), false);
        }
        fields.sort_by(|one, other| one.name.cmp(&other.name));
        let shape = ObjectShape { name: path.into(), fields: fields.into() };
        Some(declared(Kind::Object(shape), bytes_min, 0))
    }
}

fn plain(kind: Kind, bytes_min: u64, size_max: u64) -> Arc<Declared> {
    Arc::new(Declared { kind, bytes_min, size_max, is_nullable: false })
}

/// The fields of an object's metadata that an expression sees. `name`: that of their type.
fn metadata(name: &str) -> Arc<Declared> {
    let field = |name: &str| DeclaredField {
        name: name.into(),
        property: SmolStr::from(name),
        declared: plain(Kind::Text, 2, REQUEST_BYTES_MAX - 2),
    };
    let shape = ObjectShape { name: name.into(), fields: Box::new([field("generateName"), field("name")]) };
    plain(Kind::Object(shape), 2, 0)
}

fn is_true(of: &Map, name: &str) -> bool {
    of.get(name).and_then(Value::as_bool) == Some(true)
}

/// A bound; negative ones count as zero.
fn bound(of: &Map, name: &str) -> Option<u64> {
    let bound = of.get(name)?;
    bound.as_u64().or_else(|| bound.as_f64().map(|number| if number < 0.0 { 0 } else { u64::MAX }))
}

fn characters_max(of: &Map) -> Option<u64> {
    bound(of, "maxLength")
}

/// A text: its kind, bytes of its shortest JSON text, and its largest size.
fn text(of: &Map) -> (Kind, u64, u64) {
    let most = characters_max(of);
    match of.get("format").and_then(Value::as_str) {
        Some("byte") => (Kind::Bytes, 2, most.unwrap_or(REQUEST_BYTES_MAX - 2)),
        Some("duration") => (Kind::Duration, 3, 32),
        Some("date") => (Kind::Date, 12, 12),
        Some("date-time") => (Kind::DateTime, 21, 32),
        _ => {
            let options = of.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let longest = options.iter().filter_map(Value::as_str).map(str::len).max().map(crate::length);
            let size = most.map(|most| most.saturating_mul(4)).or(longest);
            (Kind::Text, 2, size.unwrap_or(REQUEST_BYTES_MAX - 2))
        }
    }
}
