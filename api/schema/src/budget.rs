//! The memory and the steps that one request may take, and the end of its work when its client is gone.
//!
//! Owns the bounds that several stages share, each with its unit and its reason; bounds of one format stand beside its
//! code (`patch::json_patch`, `schema::yaml`, `validate::errors`). Steps and cancellation are in `steps`. A client chooses
//! the shape of what it sends: without these bounds two bytes of a body (`{}`) become a thousand in memory.
//!
//! Invariant: what is counted is an estimate from the shape alone, so that the same body is always answered alike.

mod steps;

use crate::value::{SmolStr, Value};

#[cfg(any(test, feature = "testing"))]
pub use steps::stopping;
pub use steps::{Budget, Numbered, STEPS_MAX, Stopped, goes_on};

/// Bytes that one decoded document may hold, strings excepted, which are no longer than the body. Four times the largest
/// body: every config map of the largest stored size fits, lists of millions of empty objects do not.
pub const HELD_BYTES_MAX: usize = 13 * 1024 * 1024;

/// The same for a document after a patch. It has what a create was let in with, and its owners and its changes besides.
pub const PATCHED_BYTES_MAX: usize = 2 * HELD_BYTES_MAX;

/// Bytes of an item of a list.
const ITEM_BYTES: usize = size_of::<Value>();

/// Bytes of an entry of a map: key, value, and its place in the index.
const ENTRY_BYTES: usize = size_of::<Value>() + size_of::<SmolStr>() + size_of::<usize>();

/// Fields that defaults may add to one object. A container gets the most; kinds with more fields leave most of them out.
const FILLED_FIELDS_MAX: usize = 12;

/// A document is over its bound, or its request over its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// Counts what a document holds while it is read.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    left: usize,
}

impl Held {
    /// Room for `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Held { left: bytes_max }
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

    /// Every value that a decoder makes comes by here, so that a decoding ends with its request.
    fn take(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if !goes_on() {
            return Err(OverBudget);
        }
        self.left = self.left.checked_sub(bytes).ok_or(OverBudget)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
