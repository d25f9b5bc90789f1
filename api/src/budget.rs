//! The memory that one request may take, and the end of its work when its client is gone.
//!
//! Owns the bounds that several stages share, each with its unit and its reason; bounds of one format stand beside its
//! code (`patch::json_patch`, `schema::yaml`, `validate::errors`). A client chooses the shape of what it sends: without
//! these bounds two bytes of a body (`{}`) become a thousand in memory.
//!
//! Invariant: what is counted is an estimate from the shape alone, so that the same body is always answered alike.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::error::ApiError;

/// Bytes that one decoded document may hold, strings excepted, which are no longer than the body. Eight times the largest
/// body: every config map of the largest stored size fits twice, lists of millions of empty objects do not.
pub const HELD_BYTES_MAX: usize = 24 * 1024 * 1024;

/// The same for a document after a patch. It has what a create was let in with, and its owners and its changes besides.
pub const PATCHED_BYTES_MAX: usize = 2 * HELD_BYTES_MAX;

/// Bytes of an item of a list.
const ITEM_BYTES: usize = size_of::<Value>();

/// Bytes of an entry of a map: key, value, hash, and its place in the index.
const ENTRY_BYTES: usize = size_of::<Value>() + size_of::<String>() + 3 * size_of::<usize>();

/// Fields that defaults may add to one object. A container gets the most; kinds with more fields leave most of them out.
const FILLED_FIELDS_MAX: usize = 12;

/// A document is over its bound.
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

    fn take(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.left = self.left.checked_sub(bytes).ok_or(OverBudget)?;
        Ok(())
    }
}

/// Whether somebody still waits for the answer of a request.
#[derive(Debug, Default)]
pub struct Budget {
    is_cancelled: AtomicBool,
}

impl Budget {
    /// The client is gone, or its time is over: what is still to be done ends at its next look.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// To be asked between stages, each of which is bounded by itself.
    ///
    /// # Errors
    /// `DeadlineExceeded`: nobody waits any more.
    pub fn check(&self) -> Result<(), ApiError> {
        if self.is_cancelled.load(Ordering::Relaxed) { Err(ApiError::DeadlineExceeded) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_refused_at_its_bound() {
        let mut held = Held::new(3 * ITEM_BYTES);
        assert_eq!([held.item(), held.item(), held.item()], [Ok(()); 3]);
        assert_eq!(held.item(), Err(OverBudget));
        let mut held = Held::new(FILLED_FIELDS_MAX * ENTRY_BYTES);
        assert_eq!(held.object(1000), Ok(()), "an object of many fields has most of them not");
        assert_eq!(held.entry(), Err(OverBudget));
    }

    #[test]
    fn a_cancelled_request_goes_no_further() {
        let budget = Budget::default();
        assert_eq!(budget.check(), Ok(()));
        budget.cancel();
        assert_eq!(budget.check(), Err(ApiError::DeadlineExceeded));
    }
}
