//! From flags to a running node, and to its end.
//!
//! Owns the plan (what to open and from which files), the order in which parts start and stop, and the files a
//! running node leaves for others (`endpoints.json`, `admin.conf`). It decides nothing about requests or the store.
//!
//! Starting: certificates, ports, data directory, store member, API. Stopping: readiness, watches, connections, lead,
//! store. Each step that cannot be done is an error that names the flag, file or directory.

mod api;
mod brand;
mod capacity;
mod cluster;
mod dev;
mod endpoints;
mod error;
mod identity;
mod lifetime;
mod occupancy;
mod plan;
mod serve;
mod signals;
mod starting;
mod store;
mod threads;
mod welcome;

pub use error::RunError;
pub use lifetime::run;
pub(crate) use plan::host_of;
pub use plan::{Kind, Plan};

use crate::cli::{DevArgs, ServeArgs};

/// What `orch dev` is to do. Makes the data directory and its certificates on the first start.
pub fn plan_dev(arguments: &DevArgs) -> Result<Plan, RunError> {
    dev::plan(arguments)
}

/// What `orch serve` is to do. Makes nothing.
pub fn plan_serve(arguments: &ServeArgs) -> Result<Plan, RunError> {
    serve::plan(arguments)
}

#[cfg(test)]
mod tests;
