//! Documents of configuration files: YAML or JSON, as a tree that still knows what was written.
//!
//! Owns reading, with the faults that strict decoding reports (duplicate keys) and the reference's texts of syntax
//! errors, and writing as YAML. It knows no field: [`crate::config::wire`] gives documents their types.

mod emit;
mod json;
mod yaml;

pub(crate) use emit::to_yaml;
pub(crate) use yaml::parse_yaml;

/// Deepest nesting of a document: no configuration comes near, and recursion over it stays small.
const DEPTH_MAX: usize = 100;
/// Most values of a document, those of aliases counted each time, so that aliases of aliases cannot fill the memory.
const NODES_MAX: usize = 1_000_000;

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

/// Parses a document. What begins with `{` is JSON, everything else YAML, as in the reference.
pub(crate) fn parse(text: &str) -> Result<Document, String> {
    if text.trim_start().starts_with('{') { json::parse_json(text) } else { parse_yaml(text) }
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

    /// What the reference calls the value in messages about a wrong type.
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
