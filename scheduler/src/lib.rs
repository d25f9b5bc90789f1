//! The scheduler: assigns pods to nodes.
//!
//! Pure cores are [`objects`] (compact forms of API objects), [`plan`] (the choice of a node, or the reasons for none) and
//! [`queue`] (the order of pods); they know no clock, socket or thread. The rims are [`client`] (the API server),
//! [`run`] (assume, reserve, bind), [`election`] (the leader), [`serve`] (HTTPS), [`metrics`], [`logging`] and [`config`]
//! (flags and file). [`process`] puts them together.
//! It links no part of `orch-api` or `orch-raft`: it is a client like any other.

#[cfg(not(any(test, feature = "simulation")))]
mod ambient;
#[cfg(any(test, feature = "simulation"))]
pub mod ambient;
pub mod client;
pub mod config;
pub mod election;
pub mod logging;
pub mod metrics;
pub mod objects;
pub mod plan;
pub mod plugin;
pub mod process;
pub mod queue;
pub mod run;
pub mod selector;
pub mod serve;
#[cfg(test)]
mod simulation;
pub mod stopwatch;
pub mod version;
pub mod wall_time;

/// Structs of the kinds that the scheduler reads and writes, with the field numbers of the API's Protobuf form.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::too_many_lines,
    reason = "generated; the comments stand in proto/schema"
)]
pub mod api {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}
