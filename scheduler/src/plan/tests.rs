//! Tests of the snapshot's indexes.

mod indexes;
