//! Gives documents their types: strict decoding into structs, and encoding of structs.
//!
//! Owns the [`wire!`] macro, by which a struct states its fields once: decoding, encoding and the names in messages
//! follow from that. Decoding collects unknown fields with their paths and goes on; a value of the wrong type is the one
//! fault that is reported, as in the reference.

mod values;

use std::borrow::Cow;

use orch_proto::Brand;
use serde_json::{Map, Value};

use super::document::Node;

pub(crate) use values::node_of;
pub use values::{Bytes, Raw};

/// Stands in names of fields for the brand's prefix of components.
const PREFIX: &str = "{brand}";
/// Stands in names of structs for the same prefix with a capital.
const CAPITAL: &str = "{Brand}";

/// Faults of a document, and where its reader is.
pub(crate) struct Reading {
    /// Names the brand's fields.
    pub(crate) brand: &'static Brand,
    /// Unknown fields.
    pub(crate) strict: Vec<String>,
    /// The first value of a wrong type.
    pub(crate) fault: Option<String>,
    /// Path of the value under way with indexes of lists, for unknown fields.
    path: String,
    /// The struct that holds the value under way, and the path without indexes: for wrong types.
    place: Option<(String, String)>,
}

impl Reading {
    pub(crate) fn new(brand: &'static Brand) -> Reading {
        Reading { brand, strict: Vec::new(), fault: None, path: String::new(), place: None }
    }

    /// Notes that a value of type `expected` was expected where `node` stands.
    fn mismatch(&mut self, node: &Node, expected: &str) {
        let found = match node {
            Node::Number(number) if expected.starts_with("int") => format!("number {number}"),
            other => other.kind().to_owned(),
        };
        let text = match &self.place {
            Some((owner, path)) => {
                format!(
                    "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}"
                )
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
        };
        self.fail(text);
    }

    fn fail(&mut self, text: String) {
        self.fault.get_or_insert(text);
    }

    /// Runs `read` with `name` of the struct `owner` as the place.
    fn within<T>(&mut self, owner: &str, name: &str, read: impl FnOnce(&mut Reading) -> T) -> T {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let path = match &self.place {
            Some((_, path)) => format!("{path}.{name}"),
            None => name.to_owned(),
        };
        let outer = self.place.replace((owner.to_owned(), path));
        let value = read(self);
        self.path.truncate(before);
        self.place = outer;
        value
    }

    fn unknown(&mut self, name: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.strict.push(format!("unknown field \"{}{dot}{name}\"", self.path));
    }
}

/// A type of documents.
pub(crate) trait Wire: Sized + Default {
    /// The type's name in messages about wrong types.
    fn type_name(brand: &Brand) -> String;

    /// Reads `node`. After a fault, which `reading` holds, the value is of no use.
    fn decode(node: &Node, reading: &mut Reading) -> Self;

    /// The value as JSON.
    fn encode(&self, brand: &Brand) -> Value;

    /// Whether the value may be left out.
    fn is_empty(&self) -> bool;
}

/// A name with the brand's prefix.
pub(crate) fn wire_name(name: &'static str, brand: &Brand) -> Cow<'static, str> {
    match name.contains('{') {
        true => {
            Cow::Owned(name.replace(PREFIX, brand.component_prefix).replace(CAPITAL, &capitalized(brand)))
        }
        false => Cow::Borrowed(name),
    }
}

/// The brand's prefix of components with a capital: it begins the names of structs and kinds.
pub(crate) fn capitalized(brand: &Brand) -> String {
    let mut chars = brand.component_prefix.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Reads the members of an object: `field` takes a member's value, and returns whether it knows the name.
pub(crate) fn decode_object(
    node: &Node,
    reading: &mut Reading,
    type_name: &str,
    mut field: impl FnMut(&str, &Node, &mut Reading) -> bool,
) {
    match node {
        Node::Null => {}
        Node::Object(members) => {
            for (name, value) in members {
                let is_known =
                    reading.within(owner_of(type_name), name, |reading| field(name, value, reading));
                if !is_known {
                    reading.unknown(name);
                }
            }
        }
        other => reading.mismatch(other, type_name),
    }
}

/// A struct's name without its package.
fn owner_of(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}

/// Adds a field to `object`, unless it is empty and may be left out.
pub(crate) fn encode_field<T: Wire>(
    object: &mut Map<String, Value>,
    name: &'static str,
    value: &T,
    keep: bool,
    brand: &Brand,
) {
    if keep || !value.is_empty() {
        object.insert(wire_name(name, brand).into_owned(), value.encode(brand));
    }
}

/// Declares a struct of documents: `name: type = "name in documents"`, followed by `, keep` where the field is written
/// even when it is empty.
macro_rules! wire {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident = $type_name:literal {
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $wire:literal $(, $keep:ident)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visibility struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::config::wire::Wire for $name {
            fn type_name(brand: &orch_proto::Brand) -> String {
                $crate::config::wire::wire_name($type_name, brand).into_owned()
            }

            fn decode(
                node: &$crate::config::document::Node,
                reading: &mut $crate::config::wire::Reading,
            ) -> Self {
                let mut decoded = <$name>::default();
                let brand = reading.brand;
                $crate::config::wire::decode_object(node, reading, &Self::type_name(brand), |name, value, reading| {
                    $(if name == $crate::config::wire::wire_name($wire, brand) {
                        decoded.$field = <$type as $crate::config::wire::Wire>::decode(value, reading);
                        return true;
                    })*
                    false
                });
                decoded
            }

            fn encode(&self, brand: &orch_proto::Brand) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $({
                    let keep = $crate::config::wire::wire!(@keep $($keep)?);
                    $crate::config::wire::encode_field(&mut object, $wire, &self.$field, keep, brand);
                })*
                serde_json::Value::Object(object)
            }

            // Structs are always written, those without any member as `{}`: as in the reference.
            fn is_empty(&self) -> bool {
                false
            }
        }
    };
    (@keep keep) => { true };
    (@keep) => { false };
}
pub(crate) use wire;
