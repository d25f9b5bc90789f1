//! The executor: takes pods from the queue, assumes, reserves and binds.
//!
//! ```text
//!   informers ──> Input ──> Executor (pure, one thread) ──> Effect ──> tasks ──> API
//!                   ^         planner, queue                             │
//!                   └────────────────────── outcomes <───────────────────┘
//! ```
//!
//! Owns the way of a pod from the watch to its node, and its events and conditions. The decisions stand in `executor`,
//! which is pure; `binding`, `evict`, `recorder` and `effects` are the rim that talks to the API, `engine` the thread
//! that drives both, and `scheduler` the whole, with its clients and its election. It decides no placement: that is the
//! planner's, behind [`Planning`].
//!
//! Invariant: a pod's room on a node is never given away while a binding to that node may still happen.

mod binding;
mod cluster_planner;
mod effects;
mod engine;
mod event;
mod evict;
mod executor;
mod extender;
mod informers;
mod input;
mod lanes;
mod planning;
mod pod_status;
mod recorder;
mod scheduler;
mod status;
mod stored;
#[cfg(test)]
mod tests;

pub use binding::{BindOutcome, Binder, Job, PodRef, Why, Written};
pub use cluster_planner::ClusterPlanner;
pub use effects::{Observer, Reporter};
pub use engine::{Engine, EngineOptions, StopError};
pub use event::{Report, Severity};
pub use executor::{BINDINGS_MAX, Executor, ExecutorOptions, Now, ProfileOptions, Rebuild, Wear};
pub use extender::{
    Extender, ExtenderConfig, ExtenderError, ExtenderTls, Filtered, MetaVictims, SCORE_FACTOR, Victims,
    inline_pem, pem_file,
};
pub use input::{
    AttemptResult, Effect, Evicting, Eviction, EvictionStep, Input, Levels, Observation, Patching,
};
pub use planning::Planning;
pub use recorder::Recorder;
pub use scheduler::{ElectionOptions, LockKind, Readiness, Scheduler, SchedulerError, SchedulerOptions};
pub use stored::{Followed, Stored};
