//! The flood works: one user sends what it can, and the gets of another user are timed meanwhile.
//!
//! The flood begins before the timed user and ends with it. Refusals of the flood are no errors of the work: they are what
//! flow control is for. They are printed, so that a run without a flood is not taken for a good one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::driver::{Load, Outcome, drive};
use super::target::Target;
use super::work::{Kind, Script};
use crate::client::Identity;

/// Time for the flood to rise before the other user begins.
const RISE: Duration = Duration::from_secs(1);

/// A user and its requests.
pub(super) struct As<'a> {
    pub(super) token: &'a str,
    pub(super) clients: u32,
    pub(super) kind: Kind,
}

/// Runs both users on the config maps of `namespace`; returns the measurements of `timed`.
pub(super) fn flood(
    load: &Load,
    namespace: &str,
    payload: &Arc<str>,
    flooding: &As<'_>,
    timed: &As<'_>,
) -> Result<Outcome> {
    let run = |user: &As<'_>, duration: Duration, threads: u32| {
        let access = |target: &Target| {
            let access = target.access.with_identity(Identity::Token(user.token.to_owned()));
            Target { access, ..target.clone() }
        };
        let targets = load.targets.iter().map(access).collect();
        let load = Load { targets, threads, clients: user.clients, duration, ..load.clone() };
        drive(&load, |client| Script::new(user.kind.clone(), namespace, payload, client))
    };
    thread::scope(|scope| {
        let flood = scope.spawn(|| run(flooding, load.duration + 2 * RISE, load.threads));
        thread::sleep(RISE);
        let outcome = run(timed, load.duration, 1);
        let flood = flood.join().map_err(|_| anyhow!("the flood panicked"))??;
        let (done, seconds) = (flood.tally.operations, flood.elapsed.as_secs_f64());
        eprintln!(
            "the flood: {done} operations in {seconds:.1} s; refused or failed: {:?}",
            flood.tally.errors
        );
        outcome
    })
}
