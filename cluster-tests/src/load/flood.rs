//! The flood works: some users send what they can, and the gets of another user are timed meanwhile.
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

/// Runs all users on the config maps of `namespace`; returns the measurements of `timed`.
pub(super) fn flood(
    load: &Load,
    namespace: &str,
    payload: &Arc<str>,
    flooding: &[As<'_>],
    timed: &As<'_>,
) -> Result<Outcome> {
    let run = |user: &As<'_>, duration: Duration, threads: u32| {
        let load = Load { threads, clients: user.clients, duration, ..as_user(load, user.token) };
        drive(&load, |client| Script::new(user.kind.clone(), namespace, payload, client))
    };
    thread::scope(|scope| {
        let run = &run;
        let floods: Vec<_> = flooding
            .iter()
            .map(|user| scope.spawn(move || run(user, load.duration + 2 * RISE, load.threads)))
            .collect();
        thread::sleep(RISE);
        let outcome = run(timed, load.duration, 1);
        for flood in floods {
            let flood = flood.join().map_err(|_| anyhow!("the flood panicked"))??;
            let (done, seconds) = (flood.tally.operations, flood.elapsed.as_secs_f64());
            let (bytes, errors) = (flood.tally.bytes as f64 / 1e6, &flood.tally.errors);
            eprintln!(
                "the flood: {done} operations, {bytes:.0} MB in {seconds:.1} s; refused or failed: {errors:?}"
            );
        }
        outcome
    })
}

/// `load` as the user of `token`.
pub(super) fn as_user(load: &Load, token: &str) -> Load {
    let access = |target: &Target| {
        let access = target.access.with_identity(Identity::Token(token.to_owned()));
        Target { access, ..target.clone() }
    };
    Load { targets: load.targets.iter().map(access).collect(), ..load.clone() }
}
