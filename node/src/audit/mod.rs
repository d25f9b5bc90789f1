//! Sinks of audit events.
//!
//! Owns files with their rotation, standard output, webhooks, and the buffer before each. Which events there are, and their form,
//! is decided in `orch_api::audit`.
//!
//!     request -> Backlog (bounded) -> the sink's thread -> file, standard output or webhook
//!
//! Invariant: a request thread never writes: a disk or a webhook that hangs holds the requests that wait for it, and no others.

mod backlog;
mod legacy;
mod log;
mod pacing;
mod rotation;
#[cfg(test)]
mod tests;
mod webhook;
mod worker;

pub use backlog::{BatchOptions, Mode};
pub use log::{LineFormat, LogOptions, Target, open_log};
pub use pacing::Throttle;
pub use rotation::RotationOptions;
pub use webhook::{WebhookOptions, start_webhook};
pub use worker::{SinkOptions, Worker};
