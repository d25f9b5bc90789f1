//! Sinks of audit events.
//!
//! Owns files with their rotation, standard output, and the buffer before both. Which events there are, and their form,
//! is decided in `orch_api::audit`.
//!
//!     request -> Backlog (bounded) -> the sink's thread -> file or standard output
//!
//! Invariant: a request thread never writes: a disk that hangs holds the requests that wait for it, and no others.

mod backlog;
mod log;
mod pacing;
mod rotation;
#[cfg(test)]
mod tests;
mod worker;

pub use backlog::{BatchOptions, Mode};
pub use log::{LogOptions, LogSink, Target};
pub use pacing::Throttle;
pub use rotation::RotationOptions;
