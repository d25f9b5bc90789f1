//! What can be wrong with an object that comes in.

use std::fmt;

use crate::budget::OverBudget;
use crate::protobuf::EnvelopeError;

/// Why bytes are not an object of the type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON.
    #[error("invalid JSON at byte {offset}: {problem}")]
    Syntax {
        /// Where it stops being JSON.
        offset: usize,
        /// What was met, or missed.
        problem: String,
    },
    /// Objects and lists within each other, beyond the bound.
    #[error("exceeded the maximum nesting depth of {depth_max}")]
    TooDeep {
        /// The bound.
        depth_max: usize,
    },
    /// A document of more values than one request may hold.
    #[error("the document needs more memory than one request may use: it has too many values")]
    OverBudget,
    /// A field holds a value of another type.
    #[error("{}: cannot decode {found}: expected {expected}", OrObject(path))]
    Type {
        /// Path of the field, empty for the object itself.
        path: String,
        /// What the type is.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A field holds text that does not have the form its type asks for.
    #[error("{}: {problem}", OrObject(path))]
    Form {
        /// Path of the field.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The bytes are not the Protobuf message they claim to be.
    #[error("invalid Protobuf message: {0}")]
    Protobuf(String),
    /// The bytes are no envelope around a Protobuf message.
    #[error("{problem} ({summary})")]
    Envelope {
        /// What is wrong with them.
        problem: EnvelopeError,
        /// Their beginning, for people.
        summary: String,
    },
    /// The text is not YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(String),
}

impl From<OverBudget> for DecodeError {
    fn from(_: OverBudget) -> Self {
        DecodeError::OverBudget
    }
}

/// A path for people: the object itself has none.
struct OrObject<'a>(&'a str);

impl fmt::Display for OrObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the object" } else { self.0 })
    }
}

/// What strict field validation refuses and the lenient ones drop. `Display` is the text of the interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictError {
    /// No field of this path exists.
    Unknown(String),
    /// The field of this path is given twice; the last one counts.
    Duplicate(String),
    /// The reader of another format says so in its own words.
    Other(String),
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictError::Unknown(path) => write!(f, "unknown field {path:?}"),
            StrictError::Duplicate(path) => write!(f, "duplicate field {path:?}"),
            StrictError::Other(text) => f.write_str(text),
        }
    }
}
