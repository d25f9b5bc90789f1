//! Field ownership: managed fields and server-side apply.
//!
//! Owns who is responsible for which field of an object (`metadata.managedFields`), and the merge of applied
//! configurations that rests on it. Everything here is a pure function of values and type tables: it never reads a
//! clock or the store, and never fails on what a client sent except by returning an error.
//!
//! Invariant: nobody owns `apiVersion`, `kind` or the identity in `metadata`.
//! Invariant: an entry of `managedFields` that owns nothing does not exist.

mod apply;
mod check;
mod compare;
mod conflict;
mod element;
mod extract;
mod fold;
mod last_applied;
mod managed;
mod manager;
mod merge;
mod scale;
mod set;
mod shape;
mod stored;
mod times;
mod update;
mod versions;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use apply::{ApplyError, ApplyOptions, BEFORE_FIRST_APPLY, apply};
pub use compare::{Comparison, compare};
pub use conflict::{Conflict, Conflicts, Owner};
pub use element::{ElementError, KeyValue, PathElement};
pub use extract::field_set;
pub use fold::{ANCIENT_CHANGES, UPDATE_MANAGERS_MAX};
pub use managed::{Managed, ManagedEntry, ManagedError, Operation};
pub use manager::{MANAGER_BYTES_MAX, check_manager, manager_of};
pub use scale::{managers_after_scale, scale_managers};
pub use set::FieldSet;
pub use shape::ItemError;
pub use times::keep_times_if_unchanged;
pub use update::{FieldsError, Writer, track_update};
pub use versions::{Convert, OtherVersion};
pub use wire::WireError;

/// Levels a field set may have: as many as the JSON parser lets an object have.
pub const DEPTH_MAX: usize = 128;
