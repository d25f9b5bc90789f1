//! YAML, converted to JSON.
//!
//! Owns the behaviour of the reference's converter: plain scalars resolved by the rules of YAML 1.1 (`yes` is true,
//! `0777` is octal), keys made strings and sorted, merge keys, duplicate keys reported by line. Only the first document
//! counts. Bounded are the depth, the bytes that aliases copy, and the scanner's look-ahead (`ahead`), so that a small
//! text cannot become a large object. JSON, which clients send as YAML, is read as JSON: the result is the same.

use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use self::ahead::{Counted, LookAhead};
use super::json::{
    DUPLICATES_MAX, DecodeError, Decoded, Limits, StrictError, already_set, decode_json, float,
    read_json_by_line, write_value,
};
use super::types::{Schema, TypeId};
use crate::budget::MemoryCounter;
use crate::value::{SmolStr, Value};

/// Bytes that anchors and aliases may copy in one document. A body has at most 3 MiB; texts written by hand repeat far
/// less.
const COPIED_BYTES_MAX: usize = 4 << 20;

/// Reads the YAML of an object of type `type_id`; otherwise like [`super::decode_json`].
pub fn decode_yaml(
    schema: &Schema,
    type_id: TypeId,
    yaml: &[u8],
    limits: Limits,
) -> Result<Decoded, DecodeError> {
    let mut builder = Builder::new(limits);
    let value = builder.document(schema, yaml)?;
    let mut json = Vec::with_capacity(yaml.len());
    write_value(&value, &mut json);
    // Only one tree is in memory at a time.
    drop(value);
    let mut decoded = decode_json(schema, type_id, &json, limits)?;
    if !builder.duplicates.is_empty() {
        let lines: String = builder.duplicates.iter().map(|line| format!("\n  {line}")).collect();
        decoded.strict.insert(0, StrictError::Other(format!("yaml: unmarshal errors:{lines}")));
    }
    Ok(decoded)
}

/// The JSON value of a YAML document, within the usual bounds. Of duplicate keys the last one counts.
pub fn yaml_value(schema: &Schema, yaml: &[u8]) -> Result<Value, DecodeError> {
    read_yaml(schema, yaml).map(|(value, _)| value)
}

/// Like [`yaml_value`], with a message for each duplicate key.
pub fn read_yaml(schema: &Schema, yaml: &[u8]) -> Result<(Value, Vec<String>), DecodeError> {
    let mut builder = Builder::new(Limits::default());
    let value = builder.document(schema, yaml)?;
    Ok((value, builder.duplicates))
}

/// Puts a document together from the parser's events, without recursion.
struct Builder {
    limits: Limits,
    open: Vec<Open>,
    anchors: HashMap<usize, Value>,
    copies: Copies,
    held: MemoryCounter,
    /// A message for each duplicate key, at most [`DUPLICATES_MAX`].
    duplicates: Vec<String>,
}

/// Bytes that anchors and aliases have copied.
struct Copies {
    bytes: usize,
}

impl Copies {
    fn copy(&mut self, value: &Value) -> Result<Value, DecodeError> {
        self.bytes += size(value);
        if self.bytes > COPIED_BYTES_MAX {
            return Err(broken("yaml: document contains excessive aliasing"));
        }
        Ok(value.clone())
    }
}

/// A collection that is not closed yet.
struct Open {
    anchor: usize,
    line: usize,
    content: Content,
}

enum Content {
    Items(Vec<Value>),
    Members { members: BTreeMap<SmolStr, Value>, merged: Merged, key: Option<Key> },
}

/// The values of a mapping's merge keys.
#[derive(Default)]
struct Merged {
    values: Vec<Value>,
    /// Their members' names: the reference's strict reader takes a member that is written behind the merge key for a duplicate.
    names: HashSet<SmolStr>,
}

impl Merged {
    fn push(&mut self, value: Value) {
        let objects = std::slice::from_ref(&value).iter().chain(value.as_array().into_iter().flatten());
        self.names.extend(objects.filter_map(Value::as_object).flat_map(|map| map.keys().cloned()));
        self.values.push(value);
    }
}

/// A key that waits for its value.
enum Key {
    Name(SmolStr),
    Merge,
}

impl Builder {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: Vec::new(),
            anchors: HashMap::new(),
            copies: Copies { bytes: 0 },
            held: MemoryCounter::new(limits.held_bytes_max),
            duplicates: Vec::new(),
        }
    }

    fn document(&mut self, schema: &Schema, yaml: &[u8]) -> Result<Value, DecodeError> {
        let text = std::str::from_utf8(yaml).map_err(|_| broken("yaml: invalid UTF-8"))?;
        if let Some((value, duplicates)) = as_json(schema, text, self.limits)? {
            self.duplicates = duplicates;
            return Ok(value);
        }
        let ahead = LookAhead::default();
        for event in Parser::new(Counted::new(text, &ahead)) {
            // Checked first: a scanner that was stopped reports that the text ends too early.
            ahead.settle()?;
            let (event, span) = event.map_err(|error| scan_error(&error))?;
            if let Some(value) = self.event(event, span)? {
                return Ok(value);
            }
        }
        Ok(Value::Null)
    }

    /// Handles one event. Returns the document once it is complete.
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<Option<Value>, DecodeError> {
        let line = span.start.line();
        match event {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => Ok(None),
            Event::StreamEnd | Event::DocumentEnd => Ok(Some(Value::Null)),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).ok_or_else(|| broken("yaml: unknown anchor"))?;
                let value = self.copies.copy(value)?;
                self.value(value, line)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), line)
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, line, Content::Items(Vec::new())),
            Event::MappingStart(anchor, _) => {
                let members = BTreeMap::new();
                self.open(anchor, line, Content::Members { members, merged: Merged::default(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    fn open(&mut self, anchor: usize, line: usize, content: Content) -> Result<Option<Value>, DecodeError> {
        if self.open.len() == self.limits.depth_max {
            return Err(DecodeError::TooDeep { depth_max: self.limits.depth_max });
        }
        if let Some(Open { content: Content::Members { key: None, .. }, .. }) = self.open.last() {
            return Err(broken("yaml: a key that is not a scalar"));
        }
        self.open.push(Open { anchor, line, content });
        Ok(None)
    }

    fn close(&mut self) -> Result<Option<Value>, DecodeError> {
        let Some(Open { anchor, line, content }) = self.open.pop() else {
            return Err(broken("yaml: a collection that was not opened"));
        };
        let value = match content {
            Content::Items(items) => Value::Array(items),
            Content::Members { mut members, merged, .. } => {
                for value in merged.values {
                    merge(&mut members, value)?;
                }
                Value::Object(members.into_iter().collect())
            }
        };
        self.remember(anchor, &value)?;
        self.value(value, line)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<Option<Value>, DecodeError> {
        let core = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
        let is_text = core.map_or(style != ScalarStyle::Plain, |core| matches!(core, "str" | "binary"));
        let value = match core {
            Some("binary") => Value::from(binary(text)?),
            _ if is_text => Value::from(text),
            _ => plain(text)?,
        };
        self.remember(anchor, &value)?;
        match self.open.last_mut() {
            Some(Open { content: Content::Members { key: key @ None, .. }, .. }) => {
                *key = Some(if !is_text && text == "<<" { Key::Merge } else { Key::Name(name(value)?) });
                Ok(None)
            }
            _ => self.value(value, line),
        }
    }

    fn remember(&mut self, anchor: usize, value: &Value) -> Result<(), DecodeError> {
        if anchor != 0 {
            self.held.entry()?;
            self.anchors.insert(anchor, self.copies.copy(value)?);
        }
        Ok(())
    }

    /// Adds a value to the innermost open collection. Returns the value when none is open: it is the document.
    fn value(&mut self, value: Value, line: usize) -> Result<Option<Value>, DecodeError> {
        match self.open.last_mut().map(|open| &mut open.content) {
            None => return Ok(Some(value)),
            Some(Content::Items(items)) => {
                self.held.item()?;
                items.push(value);
            }
            Some(Content::Members { members, merged, key }) => match key.take() {
                Some(Key::Merge) => merged.push(value),
                Some(Key::Name(name)) => {
                    self.held.entry()?;
                    let is_set = members.contains_key(&name) || merged.names.contains(&name);
                    if is_set && self.duplicates.len() < DUPLICATES_MAX {
                        self.duplicates.push(already_set(line, &name));
                    }
                    members.insert(name, value);
                }
                // Only an alias reaches this arm as a key.
                None => *key = Some(Key::Name(name(value)?)),
            },
        }
        Ok(None)
    }
}

/// The value of a text that is JSON, with its keys sorted, and a message for each duplicate key. `None`: it is not
/// JSON.
fn as_json(schema: &Schema, text: &str, limits: Limits) -> Result<Option<(Value, Vec<String>)>, DecodeError> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(None);
    }
    match read_json_by_line(schema, text, limits) {
        Ok((mut value, duplicates)) => {
            value.sort_all_objects();
            Ok(Some((value, duplicates)))
        }
        Err(error @ (DecodeError::OverBudget | DecodeError::TooDeep { .. })) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Adds the members of a merge key's value that `members` does not have.
fn merge(members: &mut BTreeMap<SmolStr, Value>, value: Value) -> Result<(), DecodeError> {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                members.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.into_iter().try_for_each(|item| merge(members, item))
        }
        _ => Err(broken("yaml: map merge requires map or sequence of maps as the value")),
    }
}

/// A mapping's key as a member name of JSON.
fn name(value: Value) -> Result<SmolStr, DecodeError> {
    match value {
        Value::String(name) => Ok(name),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(broken("yaml: a key that is not a string")),
    }
}

/// The text that `!!binary` holds in base64, on any number of lines. JSON has no bytes: invalid UTF-8 is replaced.
fn binary(text: &str) -> Result<String, DecodeError> {
    let digits: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = STANDARD.decode(digits);
    let bytes = bytes.map_err(|_| broken("yaml: !!binary value contains invalid base64 data"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of a scalar without quotes.
fn plain(text: &str) -> Result<Value, DecodeError> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => return Err(broken(&format!("json: unsupported value: {text}"))),
        _ => {}
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Ok(Value::from(text));
    }
    let digits = text.replace('_', "");
    if let Some(integer) = integer(&digits) {
        return Ok(Value::from(integer));
    }
    // once: one scalar, twice.
    let is_float = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    let number = if is_float { digits.parse().ok().and_then(float) } else { None };
    Ok(number.unwrap_or_else(|| Value::from(text)))
}

/// An integer, in the base of its prefix.
fn integer(digits: &str) -> Option<i64> {
    let (sign, magnitude) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (base, magnitude) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &magnitude[2..]),
        [b'0', b'o' | b'O', ..] => (8, &magnitude[2..]),
        [b'0', b'b' | b'B', ..] => (2, &magnitude[2..]),
        [b'0', _, ..] => (8, &magnitude[1..]),
        _ => (10, magnitude),
    };
    if !magnitude.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{magnitude}"), base).ok()
}

/// Approximate bytes of memory of a copy.
fn size(value: &Value) -> usize {
    const NODE: usize = 32;
    NODE + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| NODE + key.len() + size(value)).sum(),
    }
}

fn broken(problem: &str) -> DecodeError {
    DecodeError::Yaml(problem.to_owned())
}

fn scan_error(error: &ScanError) -> DecodeError {
    DecodeError::Yaml(format!("yaml: line {}: {}", error.marker().line(), error.info()))
}

mod ahead;
mod order;
mod scalar;
mod write;

pub use write::write_yaml;
pub use write::{YamlSink, write_yaml_list, write_yaml_to};

#[cfg(test)]
mod tests;
