//! Tests of the snapshot's indexes, of single plans, and of what planners keep between plans.

mod answers;
mod attached;
mod devices;
mod images;
mod indexes;
mod kept;
mod topologies;
