//! Limits of one request: memory of its decoded documents, steps of computation, and cancellation when its client is
//! gone.
//!
//! Owns the bounds that several stages share, each with its unit and its reason; bounds of one format stand beside its
//! code (`patch::json_patch`, `schema::yaml`, `validate::errors`). Steps and cancellation are in `steps`. A client
//! chooses the shape of its body: without these bounds two bytes (`{}`) become a thousand in memory.
//!
//! Invariant: the memory is an estimate from the document's shape alone, so that the same body always gets the same
//! answer.

mod steps;

use crate::types::ObjectType;
use crate::value::{SmolStr, Value};

#[cfg(any(test, feature = "testing"))]
pub use steps::stopping;
pub use steps::{
    BRIEF_STEPS_MAX, Budget, Numbered, STEPS_MAX, Stopped, Wait, count_step, count_steps, pausing,
};

/// Bytes of memory of one decoded document without its strings, which are together no longer than the body. Four times
/// the largest body: every config map of the largest stored size fits, lists of millions of empty objects do not.
pub const HELD_BYTES_MAX: usize = 13 * 1024 * 1024;

/// The same bound for a patched document: it holds what a create may hold, its managed fields, and the patch's
/// additions.
pub const PATCHED_BYTES_MAX: usize = 2 * HELD_BYTES_MAX;

/// Bytes counted for an item of a list.
const ITEM_BYTES: usize = size_of::<Value>();

/// Bytes counted for an entry of a map: key, value, and its place in the index.
const ENTRY_BYTES: usize = size_of::<Value>() + size_of::<SmolStr>() + size_of::<usize>();

/// Fields counted for one object at most: those that defaults may add. A container gets the most; objects of types with
/// more fields lack most of them.
const FILLED_FIELDS_MAX: usize = 12;

/// The document exceeds its memory bound, or its request was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// Counts the memory of a document while it is decoded.
#[derive(Clone, Copy, Debug)]
pub struct MemoryCounter {
    left: usize,
}

impl MemoryCounter {
    /// A counter with `bytes_max` bytes left.
    pub fn new(bytes_max: usize) -> Self {
        MemoryCounter { left: bytes_max }
    }

    /// Counts another item of a list.
    pub fn item(&mut self) -> Result<(), OverBudget> {
        self.take(ITEM_BYTES)
    }

    /// Counts another entry of a map.
    pub fn entry(&mut self) -> Result<(), OverBudget> {
        self.take(ENTRY_BYTES)
    }

    /// Counts another object of a type with `fields` fields, with the fields that defaults may add.
    pub fn object(&mut self, fields: usize) -> Result<(), OverBudget> {
        self.take(fields.min(FILLED_FIELDS_MAX) * ENTRY_BYTES)
    }

    /// Counts another object of type `ty`, with all that defaults may add. Of types that a client defined, that is counted
    /// exactly: a default may hold lists of objects that have defaults of their own.
    pub(super) fn object_of(&mut self, ty: &ObjectType) -> Result<(), OverBudget> {
        if ty.any_form { self.take(ty.filled_bytes as usize) } else { self.object(ty.fields.len()) }
    }

    /// Counts a field of an object of type `ty`, which [`MemoryCounter::object_of`] has counted in built-in types.
    pub(super) fn field_of(&mut self, ty: &ObjectType) -> Result<(), OverBudget> {
        if ty.any_form { self.entry() } else { Ok(()) }
    }

    /// Every value of a decoder passes here, so that decoding stops with its request.
    fn take(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if !count_step() {
            return Err(OverBudget);
        }
        self.left = self.left.checked_sub(bytes).ok_or(OverBudget)?;
        Ok(())
    }
}

/// Bytes counted for `value` and all in it, texts included.
pub fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| ITEM_BYTES + weight(item)).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| entry_weight(name) + weight(value)).sum(),
    }
}

/// Bytes counted for a member called `name`, without its value.
pub fn entry_weight(name: &str) -> usize {
    ENTRY_BYTES + name.len()
}

#[cfg(test)]
mod tests;
