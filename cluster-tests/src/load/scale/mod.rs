//! The works of thousands: what a change costs with watches that it does not concern, memory of a watch, storms of watches, fleets of
//! kubelets, definitions of custom kinds, and admission policies.
//!
//! `options` is the command line of these works. Each work has a module of its own: `idle`, `storm`, `kubelets` (with
//! `kubelet`, one of them; `identity`, their certificates; `schedule`, their times; `requests`; `bound`, the pods that they
//! get), `definitions`, `policies` (both with `creates`). They share `stage` (servers, namespace, clients), `link` (a connection that is opened again when it breaks), `watch`
//! (a watch that resumes as a client's reflector does), `event` (the lines of a watch), `change` and `pace` (writers), `meter`
//! (CPU time and memory of the servers), `descriptors` and `report`.
//!
//! Every load is bounded: watches, connections, changes and times by the options' ranges, and connections by the
//! descriptors and ports of the machine before the first is opened. The generator shares the machine with the servers,
//! as in the other works: compare figures of one run.

mod bound;
mod change;
mod creates;
mod definitions;
mod descriptors;
mod event;
mod identity;
mod idle;
mod kubelet;
mod kubelets;
mod link;
mod meter;
mod options;
mod pace;
mod policies;
mod report;
mod requests;
mod retry;
mod schedule;
mod stage;
mod storm;
mod watch;

pub use options::Work;
pub use report::Report;

use anyhow::{Context, Result};

/// Runs `work` and reports the measurements. Progress goes to standard error.
pub fn run(work: &Work) -> Result<Report> {
    let report = match work {
        Work::WatchIdle(options) => idle::run(options),
        Work::WatchStorm(options) => storm::run(options),
        Work::Kubelets(options) => kubelets::run(options),
        Work::Definitions(options) => definitions::run(options),
        Work::Policies(options) => policies::run(options),
    };
    report.with_context(|| format!("the work {} failed", work.word()))
}
