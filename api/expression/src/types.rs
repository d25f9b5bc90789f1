//! Types of the language, as declarations and the checker use them.
//!
//! Owns [`Type`], how it is written in messages, and the short notation in which functions are declared.

use std::fmt;
use std::sync::Arc;

use crate::library::access_checks;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Known when it is evaluated.
    Dyn,
    /// The same, of a message that holds any value.
    Any,
    /// Of an expression that has a fault already.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `uint`.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// A duration.
    Duration,
    /// A time.
    Timestamp,
    /// A list of one type.
    List(Arc<Type>),
    /// A map.
    Map(Arc<(Type, Type)>),
    /// An optional.
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    /// A type of a library, without members.
    Opaque(&'static str),
    /// An object; its members are in the scope's table.
    Object(Arc<str>),
    /// A parameter of a declared function.
    Param(char),
    /// A type that the checker looks for.
    Unknown(usize),
}

impl Type {
    /// A list of `item`.
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// A map from `key` to `value`.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// An optional `value`.
    pub fn optional(value: Type) -> Type {
        Type::Optional(Arc::new(value))
    }

    /// The object `name` of the scope's table.
    pub fn object(name: &str) -> Type {
        Type::Object(name.into())
    }

    /// Whether the type is known when it is evaluated only.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any | Type::Error)
    }

    /// Whether values of the type have one size.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Duration | Type::Timestamp => true,
            Type::Optional(value) => value.is_scalar(),
            _ => false,
        }
    }

    /// Reads the notation of declarations: `list(A)`, `map(string, dyn)`, `optional(A)`, `Quantity`.
    pub(crate) fn declared(text: &str) -> Type {
        let text = text.trim();
        if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            return match name {
                "list" => Type::list(Type::declared(inner)),
                "optional" => Type::optional(Type::declared(inner)),
                "type" => Type::Type(Arc::new(Type::declared(inner))),
                "map" => {
                    let (key, value) = inner.split_once(',').expect("a map has two parameters");
                    Type::map(Type::declared(key), Type::declared(value))
                }
                _ => unreachable!("no declaration has another type with parameters"),
            };
        }
        match text {
            "dyn" => Type::Dyn,
            "null" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "Quantity" => Type::Opaque("Quantity"),
            "Semver" => Type::Opaque("Semver"),
            "IP" => Type::Opaque("net.IP"),
            "CIDR" => Type::Opaque("net.CIDR"),
            "URL" => Type::Opaque("URL"),
            "NamedFormat" => Type::Opaque("NamedFormat"),
            "Authorizer" => Type::Opaque(access_checks::AUTHORIZER),
            "PathCheck" => Type::Opaque(access_checks::PATH_CHECK),
            "GroupCheck" => Type::Opaque(access_checks::GROUP_CHECK),
            "ResourceCheck" => Type::Opaque(access_checks::RESOURCE_CHECK),
            "Decision" => Type::Opaque(access_checks::DECISION),
            parameter => {
                let mut letters = parameter.chars();
                let letter = letters.next().filter(char::is_ascii_uppercase);
                assert!(letters.next().is_none(), "no declaration has another type");
                Type::Param(letter.expect("a parameter is a capital letter"))
            }
        }
    }
}

impl fmt::Display for Type {
    /// As messages of the checker write it, without a brand.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

/// A type as messages write it, with the brand before the names of the server's own types.
pub(crate) struct Branded<'a>(pub(crate) &'a Type, pub(crate) &'static str);

impl fmt::Display for Branded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, self.1)
    }
}

impl Type {
    fn write(&self, f: &mut fmt::Formatter<'_>, brand: &'static str) -> fmt::Result {
        let of = |of| Branded(of, brand);
        match self {
            Type::Dyn | Type::Unknown(_) => f.write_str("dyn"),
            Type::Any => f.write_str("any"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(item) => write!(f, "list({})", of(item)),
            Type::Map(types) => write!(f, "map({}, {})", of(&types.0), of(&types.1)),
            Type::Optional(value) => write!(f, "optional_type({})", of(value)),
            Type::Type(inner) => write!(f, "type({})", of(inner)),
            Type::Opaque(name) if brand.is_empty() || name.starts_with("net.") => f.write_str(name),
            Type::Opaque(name) => write!(f, "{brand}.{name}"),
            Type::Object(name) => f.write_str(name),
            Type::Param(letter) => write!(f, "{letter}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_of_declarations_is_read() {
        for text in ["list(A)", "map(string, list(dyn))", "type(int)", "timestamp", "net.IP"] {
            let text = text.replace("net.IP", "IP");
            let written = Type::declared(&text).to_string();
            assert_eq!(written, text.replace("IP", "net.IP"));
        }
        assert_eq!(Type::declared("optional(A)").to_string(), "optional_type(A)");
    }
}
