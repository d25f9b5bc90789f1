//! Leader election by a lease: of several schedulers, the holder alone schedules.
//!
//! ```text
//!   Machine   when to read, write, take over, stop: pure, time as an argument
//!   Record    who holds the lock, since when, for how long; as a Lease and as an annotation
//!   Lock      the stored objects: a Lease, or a Lease with an annotated Endpoints or ConfigMap beside it
//!   Elector   the loop: attempts, pauses, the deadline, events
//! ```
//!
//! Owns the promise that two contenders never work at once. A holder counts from the start of its last successful
//! write, and stops [`Timing::renew_deadline`] after it; a contender counts from the end of the read that showed it a
//! new record, and takes over [`Timing::lease_duration`] after that. Since a read sees a write only after the write
//! began, the holder stops first, as long as clocks of two machines do not run apart by more than the ratio of the two
//! durations. No clock is ever compared with another machine's.
//!
//! It knows nothing of pods: the executor asks [`Leadership::holds`].

mod annotated;
mod elector;
mod lease;
mod machine;
mod record;
#[cfg(test)]
mod rim;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use annotated::{Annotated, AnnotatedLock};
pub use elector::{Announce, ElectionEnd, Elector, Leadership, Turn, identity};
pub use lease::{LeaseLock, Lock, LockError};
pub use machine::{Attempt, Machine, Monotonic, Timing, TimingError, Version, Written};
pub use record::{Record, leader_annotation};
