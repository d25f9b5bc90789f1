//! Values of an evaluation, borrowed from documents and programs where they can be.
//!
//! Owns [`Val`] and its views: a text, list or map of a document is read where it stands, and made ones are shared. A
//! [`Val`] is never larger than 32 bytes. [`equality`] and [`order`] compare values of different types as the language
//! does. Never evaluates.

mod document;
mod equality;
mod list;
mod map;
mod order;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use orch_schema::quantity::Quantity;
use orch_schema::value::{Number, Value};
use semver::Version;
use time::OffsetDateTime;

pub(crate) use self::equality::{Equality, TooLong, equal};
pub use self::list::List;
pub(crate) use self::map::whole;
pub use self::map::{Key, MadeMap, Map, Members};
pub(crate) use self::order::compare;
pub use self::text::{Blob, Text};
use crate::error::{self, Failure};
use crate::library::access_checks::{self, Check, Decision};
use crate::library::doubles;
use crate::library::locators::Url;
use crate::library::names::NamedFormat;

/// A value of the language.
#[derive(Clone, Debug)]
pub enum Val<'v> {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    Text(Text<'v>),
    /// `bytes`.
    Bytes(Blob<'v>),
    /// `google.protobuf.Duration`, in nanoseconds.
    Duration(i64),
    /// `google.protobuf.Timestamp`, with the offset that its text has, in the years 1 to 9999 of UTC.
    Timestamp(OffsetDateTime),
    /// `list`.
    List(List<'v>),
    /// `map`, and objects.
    Map(Map<'v>),
    /// `optional_type`.
    Optional(Option<Arc<Val<'v>>>),
    /// A type, by its name.
    Type(Text<'v>),
    /// A resource quantity.
    Quantity(Quantity),
    /// A semantic version.
    Version(Arc<Version>),
    /// An address.
    Ip(IpAddr),
    /// A network: an address in it, and the bits of its prefix.
    Cidr(IpAddr, u8),
    /// A locator.
    Url(Arc<Url>),
    /// A format of texts.
    Format(&'static NamedFormat),
    /// A question about rights that is being put together.
    Check(Arc<Check<'v>>),
    /// The answer to one.
    Decision(Arc<Decision>),
    /// A part of a document that has no value, with the reason.
    Fault(Arc<str>),
}

/// Names of the types that are written differently from their variants.
pub(crate) const DURATION: &str = "google.protobuf.Duration";
/// The name of the type of times.
pub(crate) const TIMESTAMP: &str = "google.protobuf.Timestamp";

impl<'v> Val<'v> {
    /// A part of a document, read where it stands.
    pub fn json(value: &'v Value) -> Val<'v> {
        match value {
            Value::Null => Val::Null,
            Value::Bool(truth) => Val::Bool(*truth),
            Value::Number(number) => Val::number(number),
            Value::String(text) => Val::Text(Text::Borrowed(text)),
            Value::Array(items) => Val::List(List::Json(items)),
            Value::Object(map) => Val::Map(Map::Json(map)),
        }
    }

    fn number(number: &Number) -> Val<'v> {
        match number.as_i64() {
            Some(number) => Val::Int(number),
            None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// A text that is made.
    pub fn text(text: impl Into<Arc<str>>) -> Val<'v> {
        Val::Text(Text::Shared(text.into()))
    }

    /// A part of a document that has no value, with the reason.
    pub fn fault(reason: impl Into<Arc<str>>) -> Val<'v> {
        Val::Fault(reason.into())
    }

    /// The value, unless it is a fault.
    pub(crate) fn checked(self) -> Result<Val<'v>, Failure> {
        match self {
            Val::Fault(reason) => Err(error::fault(&*reason)),
            other => Ok(other),
        }
    }

    /// A list that is made.
    pub fn list(items: Vec<Val<'v>>) -> Val<'v> {
        Val::List(List::Made(Arc::new(items)))
    }

    /// A map that is made.
    pub fn map(map: MadeMap<'v>) -> Val<'v> {
        Val::Map(Map::Made(Arc::new(map)))
    }

    /// An optional with a value.
    pub fn some(value: Val<'v>) -> Val<'v> {
        Val::Optional(Some(Arc::new(value)))
    }

    /// An optional without one.
    pub const NONE: Val<'static> = Val::Optional(None);

    /// The name of the type in messages, with the brand before names of the server's own types.
    pub(crate) fn branded_type(&self, brand: &str) -> Cow<'static, str> {
        match self {
            Val::Quantity(_)
            | Val::Version(_)
            | Val::Url(_)
            | Val::Format(_)
            | Val::Check(_)
            | Val::Decision(_)
                if !brand.is_empty() =>
            {
                Cow::Owned(format!("{brand}.{}", self.type_name()))
            }
            Val::Map(Map::Made(map)) => {
                map.object().map_or(Cow::Borrowed(self.type_name()), |name| Cow::Owned(name.to_string()))
            }
            _ => Cow::Borrowed(self.type_name()),
        }
    }

    /// The name of the type, without a brand.
    pub fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Text(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => DURATION,
            Val::Timestamp(_) => TIMESTAMP,
            Val::List(_) => "list",
            Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Type(_) => "type",
            Val::Quantity(_) => "Quantity",
            Val::Version(_) => "Semver",
            Val::Ip(_) => "net.IP",
            Val::Cidr(..) => "net.CIDR",
            Val::Url(_) => "URL",
            Val::Format(_) => "NamedFormat",
            Val::Check(check) => check.type_name(),
            Val::Decision(_) => access_checks::DECISION,
            Val::Fault(_) => "error",
        }
    }

    /// The name that the reference's program has for the type, which some of its faults show.
    pub(crate) fn program_name(&self) -> &'static str {
        match self {
            Val::Null => "types.Null",
            Val::Bool(_) => "types.Bool",
            Val::Int(_) => "types.Int",
            Val::Uint(_) => "types.Uint",
            Val::Double(_) => "types.Double",
            Val::Text(_) => "types.String",
            Val::Bytes(_) => "types.Bytes",
            Val::Duration(_) => "types.Duration",
            Val::Timestamp(_) => "types.Timestamp",
            Val::List(_) => "*types.baseList",
            Val::Map(_) => "*types.baseMap",
            Val::Optional(_) => "*types.Optional",
            Val::Type(_) => "*types.Type",
            Val::Quantity(_) => "cel.Quantity",
            Val::Version(_) => "cel.Semver",
            Val::Ip(_) => "cel.IP",
            Val::Cidr(..) => "cel.CIDR",
            Val::Url(_) => "cel.URL",
            Val::Format(_) => "*cel.Format",
            Val::Check(_) | Val::Decision(_) => "library.receiverOnlyObjectVal",
            Val::Fault(_) => "*types.Err",
        }
    }

    /// The same value, which lends its text or bytes instead of sharing them.
    pub fn lent(&'v self) -> Val<'v> {
        match self {
            Val::Text(text) => Val::Text(Text::Borrowed(text)),
            Val::Bytes(bytes) => Val::Bytes(Blob::Borrowed(bytes)),
            other => other.clone(),
        }
    }

    /// The truth value.
    pub fn as_bool(&self) -> Option<bool> {
        if let Val::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// The text.
    pub fn as_text(&self) -> Option<&str> {
        if let Val::Text(text) = self { Some(text) } else { None }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&List<'v>> {
        if let Val::List(list) = self { Some(list) } else { None }
    }

    /// Whether the value is that which a type has where nothing is set: false, zero, and what is empty.
    pub fn is_zero(&self) -> bool {
        match self {
            Val::Null => true,
            Val::Bool(truth) => !truth,
            Val::Int(number) => *number == 0,
            Val::Uint(number) => *number == 0,
            Val::Double(number) => *number == 0.0,
            Val::Text(text) => text.is_empty(),
            Val::Bytes(bytes) => bytes.is_empty(),
            Val::Duration(nanoseconds) => *nanoseconds == 0,
            // The reference's zero is the first moment of the year 1, not 1970.
            Val::Timestamp(time) => *time == time::macros::datetime!(0001-01-01 00:00 UTC),
            Val::List(list) => list.len() == 0,
            Val::Map(map) => map.len() == 0,
            Val::Optional(value) => value.is_none(),
            Val::Quantity(_)
            | Val::Type(_)
            | Val::Version(_)
            | Val::Ip(_)
            | Val::Cidr(..)
            | Val::Url(_)
            | Val::Format(_)
            | Val::Check(_)
            | Val::Decision(_)
            | Val::Fault(_) => false,
        }
    }
}

impl fmt::Display for Val<'_> {
    /// Scalars as their texts, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::Null => f.write_str("null"),
            Val::Bool(truth) => truth.fmt(f),
            Val::Int(number) => number.fmt(f),
            Val::Uint(number) => number.fmt(f),
            Val::Double(number) => f.write_str(&doubles::of_double(*number)),
            Val::Text(text) | Val::Type(text) => f.write_str(text),
            other => f.write_str(other.type_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small() {
        assert!(size_of::<Val<'_>>() <= 32, "{}", size_of::<Val<'_>>());
    }

    #[test]
    fn numbers_of_documents_are_integers_where_they_fit() {
        let document = orch_schema::json!([1, -1, 1.5, 18_446_744_073_709_551_615_u64]);
        let values: Vec<_> = document.as_array().unwrap().iter().map(Val::json).collect();
        assert!(matches!(values[..], [Val::Int(1), Val::Int(-1), Val::Double(_), Val::Double(_)]));
    }
}
