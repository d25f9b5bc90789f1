//! Values as parts of documents.
//!
//! Owns what each type becomes in JSON, and the rule for objects that a mutation makes: the name of the type of each is the
//! path to it from the root, `Object.spec.template`. An object that an operation of a JSON patch puts somewhere is a root of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orch_schema::value::{Map as JsonMap, Number, SmolStr, Value};

use super::{Map, Val};
use crate::environments::JSON_PATCH;
use crate::library::times;

/// Levels of a value that become a document. What an expression makes is as deep as the expression; documents are less deep.
const LEVELS_MAX: usize = 200;

impl Val<'_> {
    /// The value as JSON. An object inside of the object type `root` has the name of its path.
    ///
    /// # Errors
    /// It, or a part of it, cannot be written: the reason.
    pub fn to_document(&self, root: &str) -> Result<Value, String> {
        document(self, Some(root), LEVELS_MAX)
    }
}

/// `path`: the name that an object here must have; `None` where it begins a path of its own.
fn document(value: &Val<'_>, path: Option<&str>, levels: usize) -> Result<Value, String> {
    let levels = levels.checked_sub(1).ok_or("the value nests too deeply")?;
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(truth) => Value::Bool(*truth),
        Val::Int(number) => Value::Number(Number::from(*number)),
        Val::Uint(number) => Value::Number(Number::from(*number)),
        Val::Double(number) => {
            Number::from_f64(*number).map(Value::Number).ok_or("the number has no form in JSON")?
        }
        Val::Text(text) => Value::from(&**text),
        Val::Bytes(bytes) => Value::from(STANDARD.encode(&**bytes)),
        Val::Duration(nanoseconds) => Value::from(times::text_of_duration(*nanoseconds)),
        Val::Timestamp(time) => {
            Value::from(times::text_of_timestamp(*time).map_err(|failure| failure.to_string())?)
        }
        Val::List(list) => {
            let items = list.iter().map(|item| document(&item, path, levels));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Val::Map(map) => return object(map, path, levels),
        Val::Optional(Some(value)) => return document(value, path, levels),
        Val::Optional(None) => Value::Null,
        Val::Quantity(amount) => Value::from(amount.to_string()),
        Val::Version(version) => Value::from(version.to_string()),
        Val::Ip(address) => Value::from(address.to_string()),
        Val::Fault(reason) => return Err(reason.to_string()),
        Val::Type(_) | Val::Cidr(..) | Val::Url(_) | Val::Format(_) | Val::Check(_) | Val::Decision(_) => {
            return Err(format!("a value of the type {} has no form in JSON", value.type_name()));
        }
    })
}

fn object(map: &Map<'_>, path: Option<&str>, levels: usize) -> Result<Value, String> {
    // Entries of maps that are no objects have no names to check.
    let name = match map {
        Map::Made(made) => made.object(),
        _ => None,
    };
    if let (Some(name), Some(path)) = (name, path)
        && **name != *path
    {
        return Err(format!(
            "type mismatch: unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
        ));
    }
    let mut members = JsonMap::with_capacity(map.len());
    for (key, value) in map.iter() {
        let Val::Text(key) = key else { return Err("keys of documents are texts".to_owned()) };
        let below = match name {
            Some(name) if **name == *JSON_PATCH => None,
            Some(name) => Some(format!("{name}.{}", &*key)),
            None => path.map(str::to_owned),
        };
        members.insert(SmolStr::from(&*key), document(&value, below.as_deref(), levels)?);
    }
    Ok(Value::Object(members))
}
