//! Types of the language for values with a published schema, such as objects of custom kinds.
//!
//! Owns what a schema says to an expression: the type behind each property ([`Declared`]), how large its value may be
//! ([`SchemaSizes`]), and how a document is read by it ([`value`]): texts become times, lists may be sets or maps, and
//! members have names that an expression can spell ([`names`]). Keywords other than those named in [`declare`] say
//! nothing. Never validates: what does not fit its schema is a value that is a fault.
//!
//! Invariant: types are as deep as the schema is, and a declaration holds nothing of the schema itself.

mod base64;
mod cardinality;
mod dates;
mod declare;
mod durations;
mod identity;
pub(crate) mod names;
mod sizes;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;
use std::sync::Arc;

use orch_schema::value::SmolStr;

pub use self::cardinality::Cardinality;
pub use self::declare::{Keywords, Root};
pub use self::durations::parse_duration;
pub use self::names::escape;
pub use self::sizes::{REQUEST_BYTES_MAX, SchemaSizes};
use crate::scope::Objects;
use crate::types::Type;

/// The declaration of a value.
#[derive(Debug)]
pub struct Declared {
    kind: Kind,
    /// Bytes of the shortest JSON text of a value.
    bytes_min: u64,
    /// The most characters, bytes, items or entries of a value, as the reference's estimate counts them.
    size_max: u64,
    is_nullable: bool,
}

/// The shape of a value.
#[derive(Debug)]
pub(crate) enum Kind {
    /// An integer or a text.
    IntOrString,
    Bool,
    Int,
    Double,
    Text,
    /// In base64.
    Bytes,
    Duration,
    /// A date alone.
    Date,
    DateTime,
    List(ListShape),
    /// A map with values of one type.
    Map(Arc<Declared>),
    Object(ObjectShape),
}

/// A list.
#[derive(Debug)]
pub struct ListShape {
    pub(crate) item: Arc<Declared>,
    pub(crate) topology: Topology,
}

/// How items of a list are identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// By their place.
    Atomic,
    /// By their value.
    Set,
    /// By the values of these properties, whose names are escaped.
    Keyed(Box<[Box<str>]>),
}

/// An object.
#[derive(Debug)]
pub struct ObjectShape {
    /// The name of the type: the path from the root.
    pub(crate) name: Arc<str>,
    /// By escaped name, in order.
    pub(crate) fields: Box<[DeclaredField]>,
}

/// A property.
#[derive(Debug)]
pub(crate) struct DeclaredField {
    /// As expressions spell it.
    pub(crate) name: Box<str>,
    /// As documents have it.
    pub(crate) property: SmolStr,
    pub(crate) declared: Arc<Declared>,
}

impl Declared {
    /// The type of values.
    pub fn type_of(&self) -> Type {
        match &self.kind {
            Kind::IntOrString => Type::Dyn,
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::Text => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Duration => Type::Duration,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::List(list) => Type::list(list.item.type_of()),
            Kind::Map(value) => Type::map(Type::String, value.type_of()),
            Kind::Object(object) => Type::Object(object.name.clone()),
        }
    }

    /// The declaration of the property that documents call `property`.
    pub fn property(&self, property: &str) -> Option<&Arc<Declared>> {
        let Kind::Object(object) = &self.kind else { return None };
        object.property(property).map(|field| &field.declared)
    }

    /// The declaration of the items of a list, or of the values of a map.
    pub fn element(&self) -> Option<&Arc<Declared>> {
        match &self.kind {
            Kind::List(list) => Some(&list.item),
            Kind::Map(value) => Some(value),
            _ => None,
        }
    }
}

impl ObjectShape {
    /// The field that documents call `property`.
    pub(crate) fn property(&self, property: &str) -> Option<&DeclaredField> {
        self.field(property)
            .filter(|field| field.property == property)
            .or_else(|| self.field(&escape(property)?))
    }

    /// The field that an expression calls `name`. A reserved word may be written as it is.
    pub(crate) fn field(&self, name: &str) -> Option<&DeclaredField> {
        let find = |name: &str| {
            let at = self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
            Some(&self.fields[at])
        };
        find(name).or_else(|| names::is_plain_reserved(name).then(|| find(&format!("__{name}__")))?)
    }
}

/// The object types of a declaration, by name.
#[derive(Debug, Default)]
pub struct SchemaTypes(HashMap<Arc<str>, Arc<Declared>>);

impl SchemaTypes {
    /// The types in `root`, and `root`.
    pub fn of(root: &Arc<Declared>) -> SchemaTypes {
        let mut types = SchemaTypes::default();
        types.add(root);
        types
    }

    fn add(&mut self, declared: &Arc<Declared>) {
        match &declared.kind {
            Kind::Object(object) => {
                self.0.insert(object.name.clone(), Arc::clone(declared));
                object.fields.iter().for_each(|field| self.add(&field.declared));
            }
            Kind::List(list) => self.add(&list.item),
            Kind::Map(value) => self.add(value),
            _ => {}
        }
    }
}

impl Objects for SchemaTypes {
    fn member(&self, object: &str, member: &str) -> Option<Type> {
        let Kind::Object(object) = &self.0.get(object)?.kind else { return None };
        object.field(member).map(|field| field.declared.type_of())
    }
}
