//! Errors of decoding an object.

use std::fmt;

use crate::budget::OverBudget;
use crate::quantity::QuantityError;

/// The reason why an envelope cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes do not begin with the prefix of Protobuf objects.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The bytes after the prefix are no Protobuf message.
    #[error("cannot read the envelope: {0}")]
    Message(String),
    /// The message has a content encoding other than `identity`.
    #[error("the message has the content encoding {0}: messages are taken without any")]
    Encoded(String),
}

/// The reason why bytes cannot be decoded as an object of the type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON.
    #[error("invalid JSON at byte {offset}: {problem}")]
    Syntax {
        /// Offset in bytes of the first error.
        offset: usize,
        /// The unexpected or missing text.
        problem: String,
    },
    /// Objects and lists are nested deeper than the bound.
    #[error("exceeded the maximum nesting depth of {depth_max}")]
    TooDeep {
        /// The bound.
        depth_max: usize,
    },
    /// The document has more values than one request may hold, or the request was stopped.
    #[error("the document needs more memory than one request may use: it has too many values")]
    OverBudget,
    /// A field holds a value of another type.
    #[error("{}: cannot decode {found}: expected {expected}", OrObject(path))]
    Type {
        /// Path of the field, empty for the object itself.
        path: String,
        /// The declared type.
        expected: &'static str,
        /// The type of the value that was sent, or the number itself.
        found: String,
    },
    /// A field holds text that does not have the form its type asks for.
    #[error("{}: {problem}", OrObject(path))]
    Form {
        /// Path of the field.
        path: String,
        /// The problem, without the path.
        problem: String,
    },
    /// A text that is no quantity. As in the reference no path is told.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The bytes are not the Protobuf message they claim to be.
    #[error("invalid Protobuf message: {0}")]
    Protobuf(String),
    /// The bytes are no envelope around a Protobuf message.
    #[error("{problem} ({summary})")]
    Envelope {
        /// The reason why the envelope cannot be read.
        problem: EnvelopeError,
        /// The beginning of the bytes, for people.
        summary: String,
    },
    /// The text is not YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(String),
}

/// The shapes of values that are no leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Members of any name, all of one type.
    Map,
    /// Members of the names that the type has.
    Object,
    /// A list.
    List,
}

impl Shape {
    const ALL: [Shape; 3] = [Shape::Map, Shape::Object, Shape::List];

    /// The shape in the text of [`DecodeError::Type`].
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Shape::Map => "a map",
            Shape::Object => "an object",
            Shape::List => "a list",
        }
    }
}

impl DecodeError {
    /// The shape that a field has and the value that was sent has not, where the error is of that.
    pub fn missed_shape(&self) -> Option<Shape> {
        let DecodeError::Type { expected, .. } = self else { return None };
        // few: three shapes.
        Shape::ALL.into_iter().find(|shape| shape.expected() == *expected)
    }

    /// Whether no document could be read at all, so that its kind is unknown, too.
    pub fn is_of_text(&self) -> bool {
        matches!(self, DecodeError::Syntax { .. } | DecodeError::Yaml(_))
    }
}

impl From<OverBudget> for DecodeError {
    fn from(_: OverBudget) -> Self {
        DecodeError::OverBudget
    }
}

/// Displays a path. The empty path is that of the object itself.
struct OrObject<'a>(&'a str);

impl fmt::Display for OrObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the object" } else { self.0 })
    }
}

/// A field that strict field validation refuses; the lenient modes drop it. `Display` is the text of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictError {
    /// No field of this path exists.
    Unknown(String),
    /// The same, within the metadata of an object of another kind: keys of maps stand in brackets in this path.
    UnknownInMetadata(String),
    /// The field of this path is given twice; the last one counts.
    Duplicate(String),
    /// Any other error, in its own words: of the YAML reader, or of a JSON patch.
    Other(String),
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictError::Unknown(path) | StrictError::UnknownInMetadata(path) => {
                write!(f, "unknown field {path:?}")
            }
            StrictError::Duplicate(path) => write!(f, "duplicate field {path:?}"),
            StrictError::Other(text) => f.write_str(text),
        }
    }
}
