//! The benchmark: drives any server of this API over TLS and measures its rates, latencies and cost.
//!
//! `options` is the command line, `fixture` creates namespaces and objects, `work` formats the requests of a work,
//! `driver` runs closed-loop clients over `line`s (HTTP/1.1 by `wire`, HTTP/2 by `multiplex`), `fanout` is the watch
//! work, `flood` times one user while another floods, `stalled` holds watchers that never read, `scheduling` has a scheduler
//! bind pods, `elsewhere` is a webhook and an aggregated server beside the load, `server` starts or finds the servers, `process` reads their
//! CPU time and memory, `stages` groups samples of the servers' stacks by stage, `scale` are the works of thousands of watches, `reference` holds the figures to compare with and `report` prints.
//!
//! The generator shares the machine with the server, so it is lean: no request is built twice, no response is decoded,
//! bodies are counted and dropped. Every work ends by count or by time, whichever comes first, and every operation by
//! `OPERATION_TIMEOUT`.

mod bindings;
mod driver;
mod elsewhere;
mod events;
mod fanout;
mod fixture;
mod flood;
mod line;
mod multiplex;
mod options;
pub(crate) mod process;
mod reference;
mod report;
mod run;
mod scale;
mod scheduling;
mod server;
mod stages;
mod stalled;
mod tally;
mod target;
mod wire;
mod work;

pub use options::Options;
pub use report::Report;
pub use run::run;
pub use scale::{Report as ScaleReport, Work as ScaleWork, run as run_scale};

use std::time::Duration;

/// Timeout of one operation, counted as an error of kind `timeout`: the server's own limit for a request.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
