//! Tests of the snapshot's indexes, and of what planners keep between plans.

mod indexes;
mod kept;
