//! The patch formats: JSON patch, merge patch, strategic merge patch.
//!
//! Owns computing the object to store from a stored object and a patch. All three are pure functions of values (and of
//! the type tables, for strategic patches); the result still has to pass decoding, defaulting and validation. A patch
//! that fails may leave its target half changed: callers patch a copy and drop it on an error.
//!
//! Invariant: no result is nested deeper than [`DEPTH_MAX`], whatever a client sends, so that every later pass over it
//! may recurse.

mod go_text;
mod json_patch;
mod merge_patch;
mod pointer;
mod scope;
mod strategic;

#[cfg(test)]
mod tests;

use orch_schema::budget::count_step;
use orch_schema::value::Value;

pub(crate) use go_text::printed;
pub use json_patch::{COPIED_BYTES_MAX, JsonPatch, LOOKED_AT_MAX, MOVED_ITEMS_MAX, OPERATIONS_MAX};
pub use merge_patch::merge_patch;
pub use scope::PatchScope;
pub use strategic::{strategic_merge_patch, strategic_scope};

/// Levels that an object may have: as many as the JSON parser accepts, so that a stored object can be read.
pub const DEPTH_MAX: usize = 127;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch does not have the form of its format (400, with the text as message).
    #[error("{0}")]
    Malformed(String),
    /// The patch is well formed but does not fit the object: a failed test, a missing path (422; the reference's
    /// message hides the text and says that the server rejected the request).
    #[error("{0}")]
    CannotApply(String),
    /// An operation `test` found another value (422, as above).
    #[error("testing value failed")]
    TestFailed,
    /// More operations than [`OPERATIONS_MAX`] (413).
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// The request was cancelled; the result is dropped.
    #[error("the request was ended")]
    Stopped,
}

/// Levels of `value`: 0 for a scalar. Adds the number of visited values to `count`.
fn depth_of(value: &Value, count: &mut usize) -> usize {
    *count += 1;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => {
            1 + items.iter().take_while(|_| count_step()).map(|item| depth_of(item, count)).max().unwrap_or(0)
        }
        Value::Object(map) => {
            1 + map
                .values()
                .take_while(|_| count_step())
                .map(|value| depth_of(value, count))
                .max()
                .unwrap_or(0)
        }
    }
}
