//! Runs a node: from flags to a plan, to a running node, to its stop.
//!
//! Owns the plan (addresses, files and settings), the order in which parts start and stop, and the files that a running
//! node leaves for others (`endpoints.json`, `admin.conf`). It decides nothing about requests or the store.
//!
//! Starting: certificates, data directory, ports, store member, API. Stopping: readiness, watches, connections,
//! leadership, store. A step that fails is an error that names the flag, file or directory.

mod admission;
mod api;
mod audit;
mod authentication;
mod authorization;
mod backup;
mod brand;
mod capacity;
mod certificates;
mod clients;
mod cluster;
mod cluster_view;
mod connect;
mod dev;
mod encryption;
mod endpoints;
mod error;
mod figures;
mod flow;
mod front_proxy;
mod identity;
mod lifetime;
mod occupancy;
mod pages;
mod plan;
mod scheduler;
mod serve;
mod service_accounts;
mod services;
mod signals;
mod signing;
mod snapshot;
mod starting;
mod store;
mod threads;
mod token_file;
mod trust;
mod webhooks;
mod welcome;

pub use audit::{Audit, PolicyFileError};
pub use backup::BackupPlan;
pub(crate) use brand::brand_of_data;
pub(crate) use capacity::memory as memory_of_machine;
pub use clients::ClientLimits;
#[cfg(test)]
pub(crate) use encryption::with_kms_check;
pub use error::RunError;
pub(crate) use identity::{clock, incarnation, seed};
pub use lifetime::run;
pub use plan::{Kind, Plan};
pub(crate) use plan::{host_of, host_port};
pub use scheduler::Scheduler;
pub use service_accounts::ServiceAccountPlan;
pub use services::ServicePlan;
pub(crate) use snapshot::STREAM_HEADER;
pub use webhooks::WebhookPlan;

use crate::cli::{DevArgs, ServeArgs};

/// Plans `orch dev`. Makes the data directory and its certificates on the first start.
pub fn plan_dev(arguments: &DevArgs) -> Result<Plan, RunError> {
    dev::plan(arguments)
}

/// Plans `orch serve`. Writes nothing.
pub fn plan_serve(arguments: &ServeArgs) -> Result<Plan, RunError> {
    serve::plan(arguments)
}

#[cfg(test)]
mod tests;
