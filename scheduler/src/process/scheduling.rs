//! The part of the process that schedules, from the configuration to its end.
//!
//! Owns the options of [`Scheduler`], made before anything runs, so that faults of the configuration show first, and
//! what the end of that part means to the whole.
//!
//! Invariant: a process that loses its lease ends, and with an error.

use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{ObjectKey, chain};
use crate::config::Configuration;
use crate::config::types::LeaderElection;
use crate::election::{ElectionEnd, Timing};
use crate::metrics::resources::Ledger;
use crate::run::{ElectionOptions, LockKind, Readiness, Rebuild, Scheduler, SchedulerOptions};
use crate::serve::Check;
use crate::stopwatch::Stopwatch;

use super::{Failure, client_config, extenders, observers, profiles};

/// The part that schedules, at work.
pub(super) struct Running {
    readiness: Readiness,
    is_elected: bool,
    ledger: Arc<Ledger>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Failure>>,
}

/// Starts everything that `configuration` asks for; `master` is the flag, `host` names this machine. `election` is of the
/// same configuration.
pub(super) fn start(
    configuration: &Configuration,
    master: Option<&str>,
    host: String,
    election: Option<ElectionOptions>,
) -> Result<Running, Failure> {
    let options = options(configuration, master, host, election)?;
    let is_elected = options.election.is_some();
    let ledger = options.ledger.clone();
    let scheduler = Scheduler::start(options).map_err(|error| Failure(chain(&error)))?;
    let (readiness, stop) = (scheduler.readiness(), CancellationToken::new());
    let task = tokio::spawn(run(scheduler, stop.clone()));
    Ok(Running { readiness, is_elected, ledger, stop, task })
}

async fn run(scheduler: Scheduler, stop: CancellationToken) -> Result<(), Failure> {
    match scheduler.run(stop).await {
        Ok(ElectionEnd::Stopped) => Ok(()),
        Ok(ElectionEnd::Lost) => Err(Failure("leader election lost".to_owned())),
        Err(error) => Err(Failure(chain(&error))),
    }
}

fn options(
    configuration: &Configuration,
    master: Option<&str>,
    host: String,
    election: Option<ElectionOptions>,
) -> Result<SchedulerOptions, Failure> {
    let brand = configuration.brand;
    let environment = |name: &str| std::env::var(name).ok();
    let client = client_config::config(&configuration.client, master, brand, Path::new("/"), environment)
        .map_err(Failure)?;
    let profiles = profiles::plan_profiles(configuration).map_err(Failure)?;
    let names: Vec<Arc<str>> =
        profiles.iter().map(|profile| Arc::from(profile.scheduler_name.as_str())).collect();
    Ok(SchedulerOptions {
        client,
        brand,
        host,
        profiles,
        extenders: extenders::configs(&configuration.extenders).map_err(Failure)?,
        initial_backoff: configuration.pod_initial_backoff,
        max_backoff: configuration.pod_max_backoff,
        max_in_unschedulable: configuration.pod_max_in_unschedulable,
        election,
        waits_for_leadership: configuration.delay_cache_until_active,
        observer: observers::observer(names.clone()),
        ledger: Arc::default(),
        report: observers::reporter(names),
        stopwatch: Stopwatch::system(),
        rebuild: Rebuild::default(),
    })
}

/// The election; `None` without one.
pub(super) fn election(election: &LeaderElection) -> Result<Option<ElectionOptions>, String> {
    if election.leader_elect != Some(true) {
        return Ok(None);
    }
    let lock = match election.resource_lock.as_str() {
        "leases" => LockKind::Leases,
        "endpointsleases" => LockKind::EndpointsLeases,
        "configmapsleases" => LockKind::ConfigMapsLeases,
        other => return Err(format!("couldn't create resource lock: Invalid lock-type {other}")),
    };
    let timing = Timing::new(
        election.lease_duration.duration(),
        election.renew_deadline.duration(),
        election.retry_period.duration(),
    )
    .map_err(|error| format!("couldn't create leader elector: {error}"))?;
    let key = ObjectKey::new(election.resource_namespace.as_str(), election.resource_name.as_str());
    Ok(Some(ElectionOptions { lock, key, timing }))
}

impl Running {
    /// The check that the view of the cluster is complete.
    pub(super) fn synced(&self) -> Check {
        let readiness = self.readiness.clone();
        Arc::new(move || match readiness.is_synced() {
            true => Ok(()),
            false => Err("handlers are not fully synchronized".to_owned()),
        })
    }

    /// Requests and limits of the watched pods, for `/metrics/resources`.
    pub(super) fn ledger(&self) -> Arc<Ledger> {
        self.ledger.clone()
    }

    /// The check that a leader whose lease ended is not still there; `None` without election.
    pub(super) fn elected(&self) -> Option<Check> {
        let readiness = self.readiness.clone();
        let check: Check = Arc::new(move || match readiness.is_overdue() {
            false => Ok(()),
            true => Err("the lease ended, and this process still leads".to_owned()),
        });
        self.is_elected.then_some(check)
    }

    /// Waits for an end that nobody asked for.
    pub(super) async fn ended(&mut self) -> Result<(), Failure> {
        (&mut self.task).await.map_err(Failure::new)?
    }

    /// Writes whether this process leads into the metrics, until it ends.
    pub(super) fn follow_leadership(&self, lock: String) {
        observers::follow_leadership(lock, self.readiness.clone(), self.stop.clone());
    }

    /// Stops planning, waits for what is under way, and lets the lock go.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        self.task.await.map_err(Failure::new)?
    }
}

#[cfg(test)]
mod tests;
