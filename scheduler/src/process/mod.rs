//! The process from its flags to its end: the order in which parts are checked, started and stopped.
//!
//! Owns that order, which is the reference's: flags, configuration, port, profiles, then scheduling. Whatever can be wrong
//! shows before anything is called started. Logic is in the parts: `client_config`, `profiles`, `arguments` and
//! `extenders` turn the configuration into what the scheduler proper ([`crate::run::Scheduler`]) takes, `scheduling` runs
//! that, `observers` are its metrics.

mod arguments;
mod client_config;
mod extenders;
mod observers;
mod parent;
#[cfg(test)]
mod plugin_effects;
mod profiles;
mod scheduling;
#[cfg(test)]
mod testing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::Brand;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::flags::{CommandLine, Flags};
use crate::config::{
    Configuration, Features, PARALLELISM, check_flags, check_lock, check_source, ignored_flags, settle,
};
use crate::logging::Verbosity;
use crate::metrics::{Metrics, Policy};
use crate::serve::{Bound, Check, Checks, Content, Health, Pages};
use crate::wall_time::WallTime;

use scheduling::Running;

/// How long the port is served after a signal, while `/readyz` already says no.
const SHUTDOWN_MAX: Duration = Duration::from_secs(15);

/// How a process ended that was not told to go.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    fn new(error: impl std::fmt::Display) -> Failure {
        Failure(error.to_string())
    }
}

/// The process before it runs: the configuration is checked, and the port is open.
struct Prepared {
    bound: Option<Bound>,
    configuration: Configuration,
    is_elected: bool,
}

/// Runs the process to its end.
pub async fn run(line: CommandLine, features: Features, verbosity: Verbosity) -> Result<(), Failure> {
    let started = (WallTime::now(), Instant::now());
    let CommandLine { brand, flags, shown } = line;
    notice(&flags, &features, brand);
    let Prepared { bound, configuration, is_elected } = prepare(&flags, brand).await?;
    if let Some(path) = &flags.configuration.write_config_to {
        return write(&configuration, path);
    }
    let election = scheduling::election(&configuration.election).map_err(Failure)?;
    notice_fields(&configuration);
    let metrics = Metrics::new(Policy::new(&flags.metrics), &features, brand);
    metrics.install().map_err(Failure::new)?;
    let stopping = CancellationToken::new();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let running = scheduling::start(&configuration, flags.configuration.master.as_deref(), host, election)?;
    if is_elected {
        running.follow_leadership(configuration.election.resource_name.clone());
    }
    let document = configuration.to_document();
    let pages = Pages { brand, configuration: document, flags: shown, started, pods: running.ledger() };
    let content = Content {
        health: health(&stopping, running.elected(), running.synced()),
        metrics,
        pages,
        profiling: configuration.profiling,
        verbosity,
    };
    serve(bound, content, stopping, running).await?;
    // As in the reference: only with leader election is it an orderly end to be told to go.
    match is_elected {
        true => Ok(()),
        false => Err(Failure("finished without leader elect".to_owned())),
    }
}

/// Checks the flags and the configuration, and opens the port.
async fn prepare(flags: &Flags, brand: &'static Brand) -> Result<Prepared, Failure> {
    check_flags(flags).map_err(Failure)?;
    let settled = settle(flags, brand).map_err(Failure)?;
    let environment = |name: &str| std::env::var(name).ok();
    let master = flags.configuration.master.as_deref();
    check_source(&settled, master, brand, environment).map_err(Failure)?;
    let bound = Bound::open(flags, brand).await.map_err(Failure::new)?;
    let is_elected = settled.election().leader_elect == Some(true);
    if is_elected {
        check_lock(settled.election()).map_err(Failure)?;
    }
    let configuration = settled.complete().map_err(Failure)?;
    Ok(Prepared { bound, configuration, is_elected })
}

/// Serves the port until the process is told to stop, or its work ends.
async fn serve(
    bound: Option<Bound>,
    content: Content,
    stopping: CancellationToken,
    mut running: Running,
) -> Result<(), Failure> {
    let serving = match bound {
        Some(bound) => {
            let address = bound.address().map_err(Failure::new)?;
            tracing::info!(%address, "serving securely");
            Some(tokio::spawn(bound.serve(content, stopping.clone())))
        }
        None => None,
    };
    let signals = Signals::listen()?;
    tracing::info!("started");
    tokio::select! {
        () = signals.told_to_stop() => {}
        ended = running.ended() => return ended,
    }
    stopping.cancel();
    running.stop().await?;
    let Some(serving) = serving else { return Ok(()) };
    match tokio::time::timeout(SHUTDOWN_MAX, serving).await {
        Ok(Ok(served)) => served.map_err(Failure::new),
        Ok(Err(error)) => Err(Failure::new(error)),
        Err(_) => {
            tracing::warn!("the port did not stop in time");
            Ok(())
        }
    }
}

/// Says what of the command line has no effect.
fn notice(flags: &Flags, features: &Features, brand: &Brand) {
    for flag in ignored_flags(flags, brand) {
        tracing::warn!(flag, "this flag is ignored, because --config is given");
    }
    if let Some(path) = &flags.configuration.cloud_container_registry_config {
        tracing::warn!(
            path = %path.display(),
            "--cloud-container-registry-config has no effect: this process pulls no images"
        );
    }
    for gate in features.moved() {
        tracing::warn!(
            gate = gate.name,
            is_on = gate.is_on,
            "this feature gate is shown in the metrics, and changes nothing"
        );
    }
    for gate in features.unknown() {
        tracing::warn!(gate, "this feature gate is not known, and has no effect");
    }
}

/// Says which fields of the configuration have no effect although they were changed.
fn notice_fields(configuration: &Configuration) {
    if usize::try_from(PARALLELISM) != Ok(configuration.parallelism) {
        tracing::warn!(
            parallelism = configuration.parallelism,
            "parallelism has no effect: nodes are looked at on one thread"
        );
    }
}

fn write(configuration: &Configuration, path: &PathBuf) -> Result<(), Failure> {
    configuration.write_to(path).map_err(Failure)?;
    tracing::info!(path = %path.display(), "wrote the configuration");
    Ok(())
}

/// The checks of the health paths. A process that lost its lease is unhealthy and not dead: `/livez` only says that it
/// answers.
fn health(stopping: &CancellationToken, elected: Option<Check>, synced: Check) -> Health {
    let ping = Checks::default().with("ping", Arc::new(|| Ok(())));
    let stopping = stopping.clone();
    let shutdown: Check = Arc::new(move || match stopping.is_cancelled() {
        true => Err("process is shutting down".to_owned()),
        false => Ok(()),
    });
    let election = elected.map(|elected| Checks::default().with("leaderElection", elected));
    let ready = election.clone().unwrap_or_default();
    Health {
        healthz: election.unwrap_or_else(|| ping.clone()),
        livez: ping,
        readyz: ready.with("shutdown", shutdown).with("sched-handler-sync", synced),
    }
}

/// Causes of a stop: SIGTERM, SIGINT, and the end of the parent process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    parent_gone: CancellationToken,
}

impl Signals {
    /// Listens for them. Before that they end the process at once.
    fn listen() -> Result<Signals, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::new);
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            parent_gone: parent::gone(),
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for the first of them. A signal after it ends the process at once.
    async fn told_to_stop(mut self) {
        let parent_gone = self.parent_gone.clone();
        tokio::select! {
            () = self.next() => {}
            () = parent_gone.cancelled() => {}
        }
        tracing::info!("stopping");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_health_and_readiness_depend_on_the_election() {
        let fine: Check = Arc::new(|| Ok(()));
        let names = |elected: Option<Check>| {
            let health = health(&CancellationToken::new(), elected, fine.clone());
            [health.healthz, health.livez, health.readyz].map(|checks| checks.names().join(" "))
        };
        assert_eq!(names(None), ["ping", "ping", "shutdown sched-handler-sync"]);
        let elected = names(Some(fine.clone()));
        assert_eq!(elected, ["leaderElection", "ping", "leaderElection shutdown sched-handler-sync"]);
    }
}
