//! Field ownership: managed fields and server-side apply.
//!
//! Owns who is responsible for which field of an object (`metadata.managedFields`), and the merge of applied
//! configurations that rests on it. Everything here is a pure function of values and type tables: it never reads a
//! clock or the store, and never fails on what a client sent except by returning an error.
//!
//! Invariant: nobody owns `apiVersion`, `kind` or the identity in `metadata`.
//! Invariant: an entry of `managedFields` that owns nothing does not exist.

mod compare;
mod element;
mod managed;
mod manager;
mod set;
mod shape;
mod update;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use compare::{Comparison, compare};
pub use element::{ElementError, KeyValue, PathElement};
pub use managed::{Managed, ManagedEntry, ManagedError, Operation};
pub use manager::{MANAGER_BYTES_MAX, check_manager, manager_of};
pub use set::FieldSet;
pub use shape::ItemError;
pub(crate) use shape::field_of;
pub use update::{ANCIENT_CHANGES, FieldsError, UPDATE_MANAGERS_MAX, Writer, track_update};
pub use wire::WireError;

/// Levels a field set may have: as many as the JSON parser lets an object have.
pub const DEPTH_MAX: usize = 128;
