//! The scheduler as a whole: its parts, started and ended in order.
//!
//! ```text
//!   start:  clients ──> events ──> engine (follows the cluster at once) ──> contender for the lock
//!   end:    engine stops planning, bindings and evictions end ──> the lock is let go
//! ```
//!
//! Owns that order: the lock is free for others only once this process binds and evicts no more. A process that lost
//! its leadership must end, since what it knows of the cluster may be old; whoever started it starts it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use orch_proto::Brand;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Config, ConfigError, ObjectKey};
use crate::election::{
    Annotated, AnnotatedLock, Announce, ElectionEnd, Elector, Leadership, LeaseLock, Lock, Machine, Timing,
    identity,
};
use crate::metrics::resources::Ledger;
use crate::plan::Profile;
use crate::queue::{QueueOptions, Rejector, Rejectors};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};
use crate::stopwatch::Stopwatch;

use super::cluster_planner::ClusterPlanner;
use super::effects::{Observer, Reporter};
use super::engine::{Engine, EngineOptions, StopError};
use super::event::{Report, Severity};
use super::executor::{ExecutorOptions, ProfileOptions, Rebuild};
use super::extender::{Extender, ExtenderConfig};
use super::recorder::Recorder;

/// Options of a scheduler.
pub struct SchedulerOptions {
    /// How to reach the API.
    pub client: Config,
    /// The brand of the cluster.
    pub brand: &'static Brand,
    /// The name of this machine, for events and the lock.
    pub host: String,
    /// The profiles, in the order of the configuration; at least one.
    pub profiles: Vec<Profile>,
    /// The extenders, in the order of the configuration.
    pub extenders: Vec<ExtenderConfig>,
    /// `podInitialBackoffSeconds`.
    pub initial_backoff: Duration,
    /// `podMaxBackoffSeconds`.
    pub max_backoff: Duration,
    /// `--pod-max-in-unschedulable-pods-duration`.
    pub max_in_unschedulable: Duration,
    /// The election; `None` for `--leader-elect=false`.
    pub election: Option<ElectionOptions>,
    /// Whether the cluster is followed only once this process leads.
    pub waits_for_leadership: bool,
    /// Takes figures for the metrics.
    pub observer: Observer,
    /// Takes what pods ask for, for the metrics.
    pub ledger: Arc<Ledger>,
    /// Told what is held about once a second, for the metrics.
    pub report: Reporter,
    /// Measures durations for the metrics.
    pub stopwatch: Stopwatch,
    /// When what is known is forgotten and listed again.
    pub rebuild: Rebuild,
}

/// The election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionOptions {
    /// The kinds of objects that are the lock.
    pub lock: LockKind,
    /// Where they are.
    pub key: ObjectKey,
    /// The durations.
    pub timing: Timing,
}

/// The objects of a lock, by the values of `--leader-elect-resource-lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `leases`.
    Leases,
    /// `endpointsleases`.
    EndpointsLeases,
    /// `configmapsleases`.
    ConfigMapsLeases,
}

/// The reason why a scheduler could not start, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The configuration of the API or of an extender cannot be used.
    #[error("cannot use the configuration")]
    Config(#[from] ConfigError),
    /// The system gave no thread.
    #[error("cannot start the scheduling thread")]
    Thread(#[from] std::io::Error),
    /// The scheduling thread did not stop.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The scheduling thread makes no progress.
    #[error("the scheduling thread is stuck in one plan")]
    Stuck,
    /// The election panicked.
    #[error("the leader election ended")]
    Election(#[from] tokio::task::JoinError),
}

/// Whether the process has come so far that it can work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Readiness {
    synced: Arc<AtomicBool>,
    leadership: Leadership,
}

impl Readiness {
    /// Whether all objects are known.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Whether this process led until long ago and has not ended: it is stuck.
    pub fn is_overdue(&self) -> bool {
        self.leadership.is_overdue(tokio::time::Instant::now(), OVERDUE_MAX)
    }

    /// Whether this process works now.
    pub fn leads(&self) -> bool {
        self.leadership.holds(tokio::time::Instant::now())
    }
}

/// Time after its lease from which on a leader that is still there counts as stuck: as in the reference.
const OVERDUE_MAX: Duration = Duration::from_secs(20);

/// A running scheduler.
pub struct Scheduler {
    engine: Engine,
    readiness: Readiness,
    contender: Option<JoinHandle<ElectionEnd>>,
    stop_contender: CancellationToken,
    events: JoinHandle<()>,
}

impl Scheduler {
    /// Starts to follow the cluster and to contend for the lock.
    ///
    /// # Errors
    /// Where the configuration cannot be used.
    pub fn start(options: SchedulerOptions) -> Result<Self, SchedulerError> {
        let client = Client::new(&options.client, options.brand)?;
        let (recorder, sending) =
            Recorder::new(Client::new(&options.client, options.brand)?, options.host.clone());
        let extenders = options.extenders.iter().cloned().map(|config| extender(config, &options));
        let extenders = extenders.map(|made| made.map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let stop_contender = CancellationToken::new();
        let (leadership, contender) = match &options.election {
            None => (Leadership::always(), None),
            Some(election) => {
                let (leadership, contender) = contend(&options, election, &recorder, stop_contender.clone())?;
                (leadership, Some(contender))
            }
        };
        let executor = executor_options(&options, &extenders);
        let planner = ClusterPlanner::new(
            options.brand,
            options.profiles,
            extenders,
            Handle::current(),
            &options.stopwatch,
        );
        let engine = EngineOptions {
            client,
            recorder,
            observer: options.observer,
            leadership: leadership.clone(),
            waits_for_leadership: options.waits_for_leadership,
            executor,
            ledger: options.ledger,
            report: options.report,
        };
        let engine = Engine::start(planner, engine)?;
        let readiness = Readiness { synced: engine.synced(), leadership };
        Ok(Self { engine, readiness, contender, stop_contender, events: tokio::spawn(sending) })
    }

    /// Whether it can work, for health checks.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Runs until `stop`, or until leadership is lost.
    ///
    /// # Errors
    /// Where a part of the process panicked or is stuck. A lock that it holds lapses.
    pub async fn run(mut self, stop: CancellationToken) -> Result<ElectionEnd, SchedulerError> {
        let ended = match self.contender.take() {
            None => {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = self.engine.stuck() => return Err(SchedulerError::Stuck),
                }
                self.engine.stop().await?;
                ElectionEnd::Stopped
            }
            Some(contender) => contended(self.engine, contender, self.stop_contender, stop).await?,
        };
        // The events of the last bindings and of the election still go out, but nobody waits for a dead API.
        if tokio::time::timeout(EVENTS_END_MAX, self.events).await.is_err() {
            tracing::warn!("some events were not sent before the end");
        }
        Ok(ended)
    }
}

/// Works until `stop`, or until the contender for the lock has lost it.
async fn contended(
    engine: Engine,
    mut contender: JoinHandle<ElectionEnd>,
    stop_contender: CancellationToken,
    stop: CancellationToken,
) -> Result<ElectionEnd, SchedulerError> {
    let lost = tokio::select! {
        biased;
        ended = &mut contender => Some(ended),
        () = stop.cancelled() => None,
        // The lease lapses by itself: what the thread still does is unknown.
        () = engine.stuck() => return Err(SchedulerError::Stuck),
    };
    #[cfg(test)]
    if plant::is(Plant::ReleasesEarly) {
        stop_contender.cancel();
    }
    let under_way = engine.stop().await?;
    #[cfg(test)]
    let under_way = if plant::is(Plant::ReleasesUnfinished) { 0 } else { under_way };
    Ok(match lost {
        Some(ended) => ended?,
        // The lease lapses by itself, after the time in which what is under way may still arrive.
        None if under_way > 0 => {
            contender.abort();
            ElectionEnd::Stopped
        }
        None => {
            stop_contender.cancel();
            contender.await?
        }
    })
}

/// How long the end waits for events.
const EVENTS_END_MAX: Duration = Duration::from_secs(2);

/// Starts the contender for the lock.
fn contend(
    options: &SchedulerOptions,
    election: &ElectionOptions,
    recorder: &Recorder,
    stop: CancellationToken,
) -> Result<(Leadership, JoinHandle<ElectionEnd>), SchedulerError> {
    // A client of its own: the lock must not wait behind bindings for the limit of requests a second.
    let mut config = options.client.clone();
    config.user_agent.push_str("/leader-election");
    config.request_timeout = config.request_timeout.min(election.timing.renew_deadline() / 2);
    let lease = LeaseLock::new(Client::new(&config, options.brand)?, election.key.clone());
    let machine = Machine::new(identity(&options.host), election.timing);
    let controller: Arc<str> = options
        .profiles
        .first()
        .map_or(options.brand.scheduler_name, |profile| &profile.scheduler_name)
        .into();
    let recorder = recorder.clone();
    let announce: Announce = Box::new(move |regarding, turn, note| {
        recorder.record(Report {
            regarding,
            related: None,
            severity: Severity::Normal,
            reason: "LeaderElection",
            action: turn.action(),
            note,
            controller: controller.clone(),
        });
    });
    Ok(match election.lock {
        LockKind::Leases => started(lease, machine, announce, stop),
        LockKind::EndpointsLeases => {
            started(AnnotatedLock::new(lease, Annotated::Endpoints), machine, announce, stop)
        }
        LockKind::ConfigMapsLeases => {
            started(AnnotatedLock::new(lease, Annotated::ConfigMap), machine, announce, stop)
        }
    })
}

fn started(
    lock: impl Lock + 'static,
    machine: Machine,
    announce: Announce,
    stop: CancellationToken,
) -> (Leadership, JoinHandle<ElectionEnd>) {
    let (elector, leadership) = Elector::new(lock, machine, announce);
    (leadership, tokio::spawn(elector.run(stop)))
}

#[cfg(not(any(test, feature = "simulation")))]
fn extender(config: ExtenderConfig, options: &SchedulerOptions) -> Result<Extender, ConfigError> {
    Extender::new(config, options.brand)
}

/// In a simulation, the API and the extenders are reached through one network.
#[cfg(any(test, feature = "simulation"))]
fn extender(config: ExtenderConfig, options: &SchedulerOptions) -> Result<Extender, ConfigError> {
    Extender::over(options.client.simulated.clone(), config, options.brand)
}

fn executor_options(options: &SchedulerOptions, extenders: &[Arc<Extender>]) -> ExecutorOptions {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let profile = |profile: &Profile| ProfileOptions {
        scheduler_name: profile.scheduler_name.as_str().into(),
        volume_timeout: seconds(profile.arguments.bind_timeout_seconds),
        device_timeout: seconds(profile.arguments.binding_timeout_seconds),
    };
    let binds = |extender: &&Arc<Extender>| !extender.config().bind_verb.is_empty();
    ExecutorOptions {
        profiles: options.profiles.iter().map(profile).collect(),
        queue: QueueOptions {
            initial_backoff: options.initial_backoff,
            max_backoff: options.max_backoff,
            max_in_unschedulable: options.max_in_unschedulable,
            profiles: options.profiles.iter().map(|profile| enabled(profile, extenders)).collect(),
            stopwatch: options.stopwatch.clone(),
        },
        stopwatch: options.stopwatch.clone(),
        rebuild: options.rebuild,
        binders: extenders.iter().filter(binds).cloned().collect(),
    }
}

/// The plugins of a profile at any extension point.
fn enabled(profile: &Profile, extenders: &[Arc<Extender>]) -> Rejectors {
    let all = &profile.enabled;
    let lists = [
        &all.pre_enqueue,
        &all.queue_sort,
        &all.pre_filter,
        &all.filter,
        &all.post_filter,
        &all.pre_score,
        &all.reserve,
        &all.permit,
        &all.pre_bind,
        &all.bind,
        &all.post_bind,
    ];
    let listed = lists.into_iter().flatten().copied();
    let scoring = all.score.iter().map(|weighted| weighted.plugin);
    let plugins = listed.chain(scoring).map(Rejector::Plugin);
    plugins.chain((!extenders.is_empty()).then_some(Rejector::Extenders)).collect()
}
