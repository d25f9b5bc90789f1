//! Field ownership: managed fields and server-side apply.
//!
//! Owns the managers of each field of an object (`metadata.managedFields`), and the merge of applied configurations,
//! which depends on them. Everything here is a pure function of values and type tables: it reads no clock and no store,
//! and malformed input of a client only ever returns an error.
//!
//! Invariant: `apiVersion`, `kind` and the identity in `metadata` have no owner.
//! Invariant: `managedFields` has no entry with an empty field set.

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
mod overlay;
mod scale;
mod set;
mod shape;
mod stored;
mod times;
mod unowned;
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
pub use manager::{MANAGER_BYTES_MAX, manager_of};
pub use overlay::{OverlayError, overlay};
pub use scale::ScaledField;
pub use set::FieldSet;
pub use shape::ItemError;
pub use times::keep_times_if_unchanged;
pub use update::{FieldsError, Writer, track_update};
pub use versions::{OtherVersion, Way};
pub use wire::WireError;

/// Levels that a field set may have: about as many as the JSON parser accepts.
pub const DEPTH_MAX: usize = 128;
