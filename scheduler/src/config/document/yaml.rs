//! Reads YAML, with the reference's reading of plain scalars: `yes` and `on` are truth values, `~` is nothing, `1.0` is a
//! whole number. The members that a merge key `<<` brings stand in its place, as if they had been written there.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::{DEPTH_MAX, Document, NODES_MAX, Node};

/// Parses the first YAML document of `text`. An empty one is null.
pub(crate) fn parse_yaml(text: &str) -> Result<Document, String> {
    let mut loader = Loader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        duplicates: Vec::new(),
        nodes: 0,
    };
    let root = loader.document()?;
    let duplicates = match loader.duplicates.is_empty() {
        true => Vec::new(),
        false => vec![format!("yaml: unmarshal errors:\n  {}", loader.duplicates.join("\n  "))],
    };
    Ok(Document { root, duplicates })
}

struct Loader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    duplicates: Vec<String>,
    nodes: usize,
}

impl<'t> Loader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), String> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let line = error.marker().line();
                Err(format!("error converting YAML to JSON: yaml: line {line}: {}", error.info()))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn document(&mut self) -> Result<Node, String> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(Node::Null),
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (event, span) => return self.value(event, span, 0),
            }
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, String> {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return Err("error converting YAML to JSON: yaml: document is too large".to_owned());
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let is_plain = style == ScalarStyle::Plain && !is_text;
                (if is_plain { plain(&text) } else { Node::Text(text.into_owned()) }, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
                (Node::List(items), anchor)
            }
            Event::MappingStart(anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or("error converting YAML to JSON: yaml: unknown anchor")?;
                self.nodes += count(&node);
                (node, 0)
            }
            _ => {
                let line = span.start.line();
                return Err(format!(
                    "error converting YAML to JSON: yaml: line {line}: did not find a value"
                ));
            }
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn mapping(&mut self, depth: usize) -> Result<Node, String> {
        let mut members: Vec<(String, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Node::Object(members));
            }
            let line = span.start.line();
            if is_merge(&event) {
                let (event, span) = self.next()?;
                for (name, value) in merged(self.value(event, span, depth + 1)?)? {
                    self.add(&mut members, name, value, line);
                }
                continue;
            }
            let name = match self.value(event, span, depth + 1)? {
                Node::Text(text) | Node::Number(text) => text,
                Node::Bool(value) => value.to_string(),
                Node::Null => "null".to_owned(),
                Node::List(_) | Node::Object(_) => {
                    return Err(format!("error converting YAML to JSON: yaml: line {line}: invalid map key"));
                }
            };
            let (event, span) = self.next()?;
            let value = self.value(event, span, depth + 1)?;
            self.add(&mut members, name, value, line);
        }
    }

    fn add(&mut self, members: &mut Vec<(String, Node)>, name: String, value: Node, line: usize) {
        if members.iter().any(|(known, _)| *known == name) {
            self.duplicates.push(format!("line {line}: key {name:?} already set in map"));
        }
        members.push((name, value));
    }
}

fn is_merge(key: &Event<'_>) -> bool {
    matches!(key, Event::Scalar(text, ScalarStyle::Plain, _, _) if text == "<<")
}

/// The members that the value of a merge key brings: of an object, or of a list of objects, of which the first that has a
/// member counts.
fn merged(value: Node) -> Result<Vec<(String, Node)>, String> {
    const FAULT: &str =
        "error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value";
    let objects = match value {
        Node::List(objects) => objects,
        object => vec![object],
    };
    let mut members: Vec<(String, Node)> = Vec::new();
    for object in objects {
        let Node::Object(more) = object else { return Err(FAULT.to_owned()) };
        for (name, value) in more {
            if members.iter().all(|(known, _)| *known != name) {
                members.push((name, value));
            }
        }
    }
    Ok(members)
}

fn count(node: &Node) -> usize {
    match node {
        Node::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Node::Object(members) => 1 + members.iter().map(|(_, node)| count(node)).sum::<usize>(),
        _ => 1,
    }
}

/// The value of a scalar without quotes.
fn plain(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Node::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Node::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Node::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(|| Node::Text(text.to_owned()), Node::Number)
}

/// A scalar's number, as JSON writes it.
fn number(text: &str) -> Option<String> {
    if !text.starts_with(|char: char| char.is_ascii_digit() || matches!(char, '-' | '+' | '.')) {
        return None;
    }
    let digits = text.replace('_', "");
    if let Ok(value) = crate::config::notation::parse_int(&digits, 64) {
        return Some(value.to_string());
    }
    let is_decimal =
        digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    let value = digits.parse::<f64>().ok().filter(|value| is_decimal && value.is_finite())?;
    // As the reference writes it into JSON: whole numbers without a fraction, very large and small ones with an exponent.
    match value.abs() {
        size if size != 0.0 && !(1e-6..1e21).contains(&size) => {
            let text = format!("{value:e}");
            Some(if text.contains("e-") { text } else { text.replace('e', "e+") })
        }
        _ => Some(value.to_string()),
    }
}
