//! Documents of configuration files: YAML or JSON, as a tree that still knows what was written.
//!
//! Owns reading, with the faults that strict decoding reports (duplicate keys). YAML is read and written by the codecs of
//! [`orch_schema`]; JSON has a reader of its own, because its syntax errors have the reference's texts (`json`). It knows no field:
//! [`crate::config::wire`] gives documents their types.

mod json;

use orch_schema::value::Value;
use orch_schema::{Schema, read_yaml, write_yaml};

/// Deepest nesting of a JSON document: no configuration comes near, and recursion over it stays small. YAML has the same
/// bound in its codec.
const DEPTH_MAX: usize = 100;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number, as JSON would write it.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Members in the order of the document. Of members with the same name the last counts.
    Object(Vec<(String, Node)>),
}

/// A document and its duplicate keys.
#[derive(Debug)]
pub(crate) struct Document {
    /// The document.
    pub(crate) root: Node,
    /// Faults that strict decoding reports, in order.
    pub(crate) duplicates: Vec<String>,
}

/// Parses a document. Text that begins with `{` is JSON, everything else YAML, as in the reference.
pub(crate) fn parse(text: &str) -> Result<Document, String> {
    if text.trim_start().starts_with('{') { json::parse_json(text) } else { parse_yaml(text) }
}

/// The first YAML document of `text`. An empty one is null.
fn parse_yaml(text: &str) -> Result<Document, String> {
    // Untyped documents need no table.
    let (root, duplicates) =
        read_yaml(&Schema::default(), text.as_bytes()).map_err(|error| error.to_string())?;
    let duplicates = match duplicates.is_empty() {
        true => Vec::new(),
        false => vec![format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))],
    };
    Ok(Document { root: root.into(), duplicates })
}

/// The YAML text of `value`, as the reference writes it.
pub(crate) fn to_yaml(value: &serde_json::Value) -> String {
    let mut text = Vec::new();
    write_yaml(&Value::from(value.clone()), &mut text);
    String::from_utf8(text).expect("texts and the marks between them are UTF-8")
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        match value {
            Value::Null => Node::Null,
            Value::Bool(value) => Node::Bool(value),
            Value::Number(number) => Node::Number(number_text(&number)),
            Value::String(text) => Node::Text(text.to_string()),
            Value::Array(items) => Node::List(items.into_iter().map(Node::from).collect()),
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name.to_string(), value.into()));
                Node::Object(members.collect())
            }
        }
    }
}

/// A number as the reference's converter writes it into JSON: very large and small ones with an exponent.
fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => {
            let text = format!("{float:e}");
            if text.contains("e-") { text } else { text.replace('e', "e+") }
        }
        _ => number.to_string(),
    }
}

impl Node {
    /// The member called `name`; `None` for other values than objects, too.
    pub(crate) fn member(&self, name: &str) -> Option<&Node> {
        match self {
            Node::Object(members) => members.iter().rev().find(|(key, _)| key == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The text of a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The reference's name of the value's type, for messages about wrong types.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Number(_) => "number",
            Node::Text(_) => "string",
            Node::List(_) => "array",
            Node::Object(_) => "object",
        }
    }
}

#[cfg(test)]
mod tests;
