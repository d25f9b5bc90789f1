//! The planner: where a pod goes, and why not.

pub mod devices;
