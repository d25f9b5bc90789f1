//! One step of a field path: a field, a list item by its key fields, a set member by its value, or an index.
//!
//! Owns the text forms: `f:name`, `k:{"name":"c"}`, `v:"x"` and `i:3` of the wire, and `.name`, `[name="c"]`, `[="x"]`,
//! `[3]` of messages. Order is fields, keys, values, indexes, each by content: the order of the wire form.

use std::cmp::Ordering;
use std::fmt;
use std::fmt::Write as _;

use orch_schema::excerpt::quoted;
use orch_schema::value::{Map, Value};

/// One step of a field path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A named field or a map key.
    Field(Box<str>),
    /// A list item that has these key fields, sorted by name.
    Key(Box<[(Box<str>, KeyValue)]>),
    /// A member of a set.
    Value(KeyValue),
    /// An item by its position.
    Index(i64),
}

/// The value of a key field, or of a member of a set.
#[derive(Clone, Debug)]
pub enum KeyValue {
    /// A fraction, or a number beyond 2^53 that is not written as a 64-bit integer. All other numbers are
    /// [`KeyValue::Int`].
    Float(f64),
    /// An integer.
    Int(i64),
    /// A string.
    String(Box<str>),
    /// true or false.
    Bool(bool),
    /// Any other JSON value, as its text. No built-in type has such a key, but a client may write one.
    Other(Box<str>),
}

/// Why a text is no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// Shorter than its prefix.
    #[error("key must be 2 characters long")]
    TooShort,
    /// The second character is not a colon.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// The part behind the colon does not fit the prefix.
    #[error("malformed path element: {0}")]
    Malformed(String),
    /// An unknown prefix, perhaps of a later version: readers drop such elements.
    #[error("unknown path element type")]
    Unknown,
}

impl PathElement {
    /// The element of a named field.
    pub fn field(name: &str) -> Self {
        PathElement::Field(name.into())
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Result<Self, ElementError> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err(ElementError::TooShort);
        }
        if bytes[1] != b':' {
            return Err(ElementError::MissingColon(text.to_owned()));
        }
        let malformed = || ElementError::Malformed(text.to_owned());
        let rest = text.get(2..).ok_or_else(malformed)?;
        match bytes[0] {
            b'f' => Ok(PathElement::field(rest)),
            b'v' => {
                let value: Value = serde_json::from_str(rest).map_err(|_| malformed())?;
                Ok(PathElement::Value(KeyValue::of(&value)))
            }
            b'k' => {
                let map: Map = serde_json::from_str(rest).map_err(|_| malformed())?;
                Ok(PathElement::key(map.iter().map(|(name, value)| (name.as_str(), value))))
            }
            b'i' => Ok(PathElement::Index(rest.parse().map_err(|_| malformed())?)),
            _ => Err(ElementError::Unknown),
        }
    }

    /// The element of a list item with these key fields.
    pub fn key<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut key: Vec<(Box<str>, KeyValue)> =
            fields.map(|(name, value)| (name.into(), KeyValue::of(value))).collect();
        key.sort_by(|a, b| a.0.cmp(&b.0));
        PathElement::Key(key.into_boxed_slice())
    }

    /// Appends the wire form to `out`.
    pub fn write_wire(&self, out: &mut String) {
        match self {
            PathElement::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            PathElement::Key(fields) => {
                out.push_str("k:{");
                for (at, (name, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_json_string(name, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
            PathElement::Value(value) => {
                out.push_str("v:");
                value.write_json(out);
            }
            PathElement::Index(index) => {
                out.push_str("i:");
                out.push_str(itoa::Buffer::new().format(*index));
            }
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_char('[')?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        f.write_char(',')?;
                    }
                    write!(f, "{name}={value}")?;
                }
                f.write_char(']')
            }
            PathElement::Value(value) => write!(f, "[={value}]"),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl KeyValue {
    /// The key value of a JSON value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => KeyValue::String(text.as_str().into()),
            Value::Bool(flag) => KeyValue::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(int) => KeyValue::Int(int),
                None => KeyValue::of_float(number.as_f64().unwrap_or(f64::MAX)),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => {
                KeyValue::Other(value.to_string().into_boxed_str())
            }
        }
    }

    fn of_float(float: f64) -> Self {
        /// Every integer up to this has an exact double.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if float.fract() == 0.0 && float.abs() <= EXACT_MAX {
            #[expect(clippy::cast_possible_truncation, reason = "integral and within the exact range")]
            return KeyValue::Int(float as i64);
        }
        KeyValue::Float(float)
    }

    fn write_json(&self, out: &mut String) {
        match self {
            KeyValue::Float(float) => out.push_str(ryu::Buffer::new().format(*float)),
            KeyValue::Int(int) => out.push_str(itoa::Buffer::new().format(*int)),
            KeyValue::String(text) => write_json_string(text, out),
            KeyValue::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            KeyValue::Other(text) => out.push_str(text),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            KeyValue::Float(_) | KeyValue::Int(_) => 0,
            KeyValue::String(_) => 1,
            KeyValue::Bool(_) => 2,
            KeyValue::Other(_) => 3,
        }
    }
}

impl Ord for KeyValue {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (KeyValue::Int(a), KeyValue::Int(b)) => a.cmp(b),
            (KeyValue::Float(a), KeyValue::Float(b)) => a.total_cmp(b),
            (KeyValue::String(a), KeyValue::String(b)) | (KeyValue::Other(a), KeyValue::Other(b)) => a.cmp(b),
            (KeyValue::Bool(a), KeyValue::Bool(b)) => a.cmp(b),
            // A Float is never an exact integer, so these two are never equal; rounding may only tie them.
            (KeyValue::Int(a), KeyValue::Float(b)) => int_to_float(*a).total_cmp(b).then(Ordering::Less),
            (KeyValue::Float(a), KeyValue::Int(b)) => a.total_cmp(&int_to_float(*b)).then(Ordering::Greater),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "only orders an integer against a fraction")]
fn int_to_float(int: i64) -> f64 {
    int as f64
}

impl PartialOrd for KeyValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for KeyValue {}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyValue::String(text) => f.write_str(&quoted(text)),
            KeyValue::Float(_) | KeyValue::Int(_) | KeyValue::Bool(_) | KeyValue::Other(_) => {
                let mut out = String::new();
                self.write_json(&mut out);
                f.write_str(&out)
            }
        }
    }
}

/// Appends `text` as a JSON string in the form that the wire's keys have: markup characters are escaped too, so that
/// this server and the reference write the same key for the same value.
pub(super) fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => push_escaped(c, out),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn push_escaped(c: char, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let code = u32::from(c);
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(char::from(HEX[(code >> shift & 0xf) as usize]));
    }
}
