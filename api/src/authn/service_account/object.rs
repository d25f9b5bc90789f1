//! JSON objects in which no name stands twice, at any depth.
//!
//! Owns the refusal of repeated names: two readers of one token must not read two different claims (RFC 7519, section 4).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses `text` as an object without repeated names. `None`: it is no object, or not such a one.
pub(super) fn parse(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text) {
        Ok(Strict(Value::Object(object))) => Some(object),
        _ => None,
    }
}

/// A value whose objects repeat no name.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(Value::Number(value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Strict, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(Strict(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(Value::String(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strict, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Strict(Value::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Strict, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = fields.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(Strict(Value::Object(object)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_whole_and_refused_with_a_repeated_name() {
        let text = r#"{"a": [1, -2, 0.5, true, null, "x"], "b": {"c": {}}}"#;
        assert_eq!(parse(text.as_bytes()).map(Value::Object), serde_json::from_str(text).ok());
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": {"b": 1, "\u0062": 2}}"#,
            r#"[{"a": 1, "a": 2}]"#,
            "[]",
            "{} {}",
            "{",
            "",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
