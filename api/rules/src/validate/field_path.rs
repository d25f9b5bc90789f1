//! Paths to fields of objects, resolved in a schema.
//!
//! Owns the grammar (`.name`, and `['name']` where brackets are allowed) and its messages. Paths have no places in lists.

use std::borrow::Cow;

use orch_schema::excerpt::part;
use orch_schema::value::Value;

use crate::json_path::simple_escape;
use crate::validate::tree::Tree;

/// Steps of a path: objects are no deeper.
const STEPS_MAX: usize = 256;

/// How the steps of a path may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `.name` only.
    Dots,
    /// `.name` and `['name']`.
    DotsAndBrackets,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldStep<'a> {
    /// A declared field of an object.
    Field(Cow<'a, str>),
    /// An entry of a map.
    Entry(Cow<'a, str>),
}

impl FieldStep<'_> {
    /// The name of the field or entry.
    pub(crate) fn name(&self) -> &str {
        match self {
            FieldStep::Field(name) | FieldStep::Entry(name) => name,
        }
    }
}

/// A path that leads nowhere, or is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathFault {
    /// Another character where a step begins.
    #[error("expected [ or . but got: {0}")]
    NoStep(String),
    /// A step without a name.
    #[error("unexpected end of JSON path")]
    End,
    /// No such field in the schema.
    #[error("does not refer to a valid field")]
    NoField,
    /// Brackets where only dots are allowed.
    #[error("array notation is not allowed")]
    Brackets,
    /// A bracket without a text behind it.
    #[error("expected single quoted string but got {0}")]
    NoText(String),
    /// A text in brackets that goes on.
    #[error("expected ] but got {0}")]
    NoBracket(String),
    /// An escape in a text that is none.
    #[error("invalid string literal: invalid escape char {0}")]
    Escape(char),
}

/// The steps of `path`, and the schema of the field to which it leads from `schema`.
///
/// # Errors
/// It is no path, or a field is not declared.
pub(crate) fn resolve<'a>(
    path: &'a str,
    schema: &'a Value,
    notation: Notation,
) -> Result<(Vec<FieldStep<'a>>, &'a Value), PathFault> {
    let (mut rest, mut schema, mut steps) = (path, schema, Vec::new());
    while !rest.is_empty() {
        let (name, behind) = if let Some(behind) = rest.strip_prefix('.') {
            match token(behind) {
                ("", _) => return Err(PathFault::End),
                (name, rest) => (Cow::Borrowed(name), rest),
            }
        } else if let Some(behind) = rest.strip_prefix('[') {
            if notation == Notation::Dots {
                return Err(PathFault::Brackets);
            }
            bracketed(behind)?
        } else {
            return Err(PathFault::NoStep(part(token(rest).0).into_owned()));
        };
        let step = step(name, schema).filter(|_| steps.len() < STEPS_MAX).ok_or(PathFault::NoField)?;
        schema = step.1;
        steps.push(step.0);
        rest = behind;
    }
    Ok((steps, schema))
}

/// The step `name` from `schema`. Entries of maps have any name; declared fields exclude them. Nothing is known of an entry of a map
/// that has no schema for them.
fn step<'a>(name: Cow<'a, str>, schema: &'a Value) -> Option<(FieldStep<'a>, &'a Value)> {
    let properties = schema.at("properties").as_object().filter(|properties| !properties.is_empty());
    match (properties, schema.at("additionalProperties")) {
        (Some(properties), _) => properties.get(name.as_ref()).map(|found| (FieldStep::Field(name), found)),
        (None, entry @ Value::Object(_)) => Some((FieldStep::Entry(name), entry)),
        (None, Value::Bool(_)) => Some((FieldStep::Entry(name), &Value::Null)),
        (None, _) => None,
    }
}

/// The first token of `text`, and the rest: a sign of the grammar, or a name up to the next one.
fn token(text: &str) -> (&str, &str) {
    match text.find(['.', '[', ']']) {
        Some(0) => text.split_at(1),
        Some(at) => text.split_at(at),
        None => (text, ""),
    }
}

/// The text of `'name']` at the beginning of `behind`, and the rest.
fn bracketed(behind: &str) -> Result<(Cow<'_, str>, &str), PathFault> {
    let shown = |text: &str| part(token(text).0).into_owned();
    let Some(quoted) = behind.strip_prefix('\'') else {
        return Err(if behind.is_empty() { PathFault::End } else { PathFault::NoText(shown(behind)) });
    };
    let mut name = String::new();
    let mut characters = quoted.char_indices();
    let end = loop {
        match characters.next() {
            None => return Err(PathFault::NoText(shown(behind))),
            Some((at, '\'')) => break at + 1,
            Some((_, '\\')) => {
                let letter = characters.next().map_or('\0', |(_, letter)| letter);
                name.push(simple_escape(letter, '\'').ok_or(PathFault::Escape(letter))?);
            }
            Some((_, plain)) => name.push(plain),
        }
    };
    let rest = &quoted[end..];
    match rest.strip_prefix(']') {
        Some(rest) => Ok((Cow::Owned(name), rest)),
        None if rest.is_empty() => Err(PathFault::End),
        None => Err(PathFault::NoBracket(shown(rest))),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn paths_lead_through_fields_and_maps() {
        let schema = json!({"properties": {
            "a": {"properties": {"b": {"type": "string"}, "it's": {"type": "integer"}}},
            "m": {"additionalProperties": {"type": "boolean"}},
            "l": {"items": {"type": "string"}},
            "any": {"additionalProperties": true},
        }});
        let told = |path: &str, notation| match resolve(path, &schema, notation) {
            Ok((_, found)) => found.text("type").to_owned(),
            Err(fault) => fault.to_string(),
        };
        for (path, found) in [
            (".a.b", "string"),
            (".a['it\\'s']", "integer"),
            ("['m']['x.y']", "boolean"),
            (".m.any", "boolean"),
            (".any.k", ""),
            (".any.k.j", "does not refer to a valid field"),
            (".nope", "does not refer to a valid field"),
            (".l[0]", "expected single quoted string but got 0"),
            ("n", "expected [ or . but got: n"),
            (".a.", "unexpected end of JSON path"),
            (".a..b", "does not refer to a valid field"),
            (".a['b'x", "expected ] but got x"),
            (".a['\\x']", "invalid string literal: invalid escape char x"),
        ] {
            assert_eq!(told(path, Notation::DotsAndBrackets), found, "{path}");
        }
        assert_eq!(told(".a['b']", Notation::Dots), "array notation is not allowed");
        let same = (
            resolve(".a.b", &schema, Notation::DotsAndBrackets),
            resolve(".a['b']", &schema, Notation::DotsAndBrackets),
        );
        assert_eq!(same.0.unwrap().0, same.1.unwrap().0);
    }
}
