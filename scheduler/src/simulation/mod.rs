//! Whole scheduler processes in one thread, on virtual clocks, against a model of the API, from one seed.
//!
//! ```text
//!   users, faults ──> store (versions, history) <── requests, slow, lost, refused ── network ── scheduler processes
//!                        │                                                             │        (the real ones)
//!                        └────────── watches that lag, stall, break, expire ───────────┘
//!                        history ──> check (recomputes every promise from it)
//! ```
//!
//! What runs is the product from its configuration down to single HTTP requests: election, reflectors, executor, queue,
//! planner, bindings, evictions, events, fail-over between API servers. Sockets are replaced below the client's transport,
//! the scheduling thread by a task. Each process has a runtime with a stopped clock of its own; the world gives one after
//! the other a slice of time, so that a process can be stopped and continued, or crash with requests still under way.
//! Requests, answers and watch events are delivered between slices, in an order that the seed decides.
//!
//! Owns the promise that a seed replays its run, event by event. It knows nothing of how the product decides: the checks
//! see what was stored, sent and told.

mod api;
mod check;
mod devices;
mod extenders;
mod faults;
mod lease;
mod manner;
mod network;
pub(crate) mod plant;
mod process;
mod rules;
mod run;
mod server;
mod settled;
mod tests;
mod users;
mod volumes;
mod watches;

/// Milliseconds of virtual time since the run began.
type Moment = u64;
