//! Tests of the snapshot's indexes, of single plans, and of what planners keep between plans.

mod answers;
mod devices;
mod indexes;
mod kept;
