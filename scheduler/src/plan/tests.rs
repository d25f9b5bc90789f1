//! Tests of the snapshot's indexes, and of single plans.

mod answers;
mod indexes;
