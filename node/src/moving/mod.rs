//! `orch import` and `orch export`: the objects of a running server of the Kubernetes API, copied into another one or into files.
//!
//! Owns which kinds and objects move, in which order, and that a copy which was broken off goes on. A client like any other of both
//! servers: the target keeps uids, times and status by the parameter `import` (`orch_api`), for which it wants a right of its own.
//!
//!     discovery of both -> definitions, until the target serves their kinds -> namespaces -> kinds of definitions -> built-in ones
//!         -> objects whose owners came later -> [follow: a watch for each kind, from the version of its list on]
//!
//! An object of the target that this move has not brought is never removed by it, but for those that give way.
//!
//! Invariant: an object is copied after its owners, because the target's garbage collector removes objects whose owners are gone.
//! Invariant: an owner is removed at the target after its dependents are there as the source has them.
//! Invariant: what was copied stands in the state file before it is sent, so that a later run finds what it has to remove.
//! Invariant: what the target refused stands there, too: the exit code is 3 until the target has it, or the source has it no more.

mod copied;
mod copy;
mod events;
mod export;
mod exported;
mod follow;
mod journal;
mod kinds;
mod left_out;
mod manifest;
mod owners;
mod report;
mod sending;
mod servers;
mod stops;
mod target;
#[cfg(test)]
mod tests;
mod turns;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use http::Method;
use orch_api::pipeline::IMPORT_RIGHT;
use orch_proto::Brand;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::copied::{Copied, Place};
pub use self::export::export;
use self::journal::{ANEW_LINE, Journal};
use self::kinds::{Declared, Kind, declared, discover};
use self::owners::Owner;
use self::report::Report;
use self::servers::Pool;
use self::stops::Stops;
use self::turns::Turns;
use self::waiting::Waiting;
use crate::admin::{Access, Call};
use crate::cli::ImportArgs;

/// Exit code of an import that left objects behind.
const CODE_LEFT: u8 = 3;

/// A copy from one server to another.
struct Move<'a> {
    arguments: &'a ImportArgs,
    source: Pool<'a>,
    target: Pool<'a>,
    brand: &'static Brand,
    kinds: Mutex<Kinds>,
    /// The source's definitions.
    declared: Mutex<Declared>,
    copied: Mutex<Copied>,
    journal: Mutex<Journal>,
    report: Mutex<Report>,
    /// The writers that are at places of the target: one at a time for each place.
    turns: Turns,
    /// Objects to be copied as they are then: what they need was not at the target when another one was removed.
    later: Mutex<BTreeMap<Place, Waiting>>,
    /// Wakes the search for new kinds.
    is_declared: Notify,
    /// Wakes watches whose definition may have been removed.
    is_undeclared: Notify,
}

/// The kinds of both servers.
#[derive(Default)]
struct Kinds {
    /// Those of the source, in the order in which they are copied.
    all: Vec<Kind>,
    /// Those that the target serves, too, by their id, in the version in which they are copied.
    shared: BTreeMap<String, Kind>,
    /// The groups of which other servers answer for the source.
    elsewhere: BTreeSet<String>,
    /// When the servers were asked.
    asked: Option<Instant>,
}

impl Kinds {
    /// Whether it is known what the kind of `owner` is, or that no server keeps it.
    fn knows(&self, owner: &Owner) -> bool {
        self.elsewhere.contains(&owner.group)
            || self.all.iter().any(|kind| kind.is_of(&owner.group, &owner.kind))
    }
}

/// Copies the objects of the server that `arguments` name, and prints the progress and the end to `out`.
///
/// # Errors
/// A server cannot be used, or does not answer for half a minute.
pub fn import(arguments: &ImportArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let source = Access::in_context(&arguments.kubeconfig, arguments.context.as_deref())?;
    let target = Access::of(&arguments.target())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(carry_out(arguments, (&source, &target), Stops::signals, out))?;
    Ok(ExitCode::from(code))
}

/// The copy; returns its exit code. `stops` makes what ends the following, once that begins.
async fn carry_out(
    arguments: &ImportArgs,
    (source, target): (&Access, &Access),
    stops: impl FnOnce() -> std::io::Result<Stops>,
    out: &mut impl Write,
) -> anyhow::Result<u8> {
    let moving = Move::begin(arguments, (source, target)).await?;
    let count = moving.copied.lock().len();
    if count > 0 {
        writeln!(out, "{}: going on with {count} objects", arguments.state.display())?;
    }
    let was_followed = moving.copied.lock().is_followed();
    if was_followed && !arguments.follow {
        writeln!(out, "following was broken off: listing everything once more")?;
        moving.list_anew()?;
    }
    moving.copy_all(out).await?;
    write!(out, "{}", moving.text())?;
    if arguments.follow && !arguments.dry_run {
        moving.follow(stops()?, out).await?;
        write!(out, "{}", moving.text())?;
    }
    let is_whole = moving.report.lock().is_whole() && moving.copied.lock().refusals().is_empty();
    Ok(if is_whole { 0 } else { CODE_LEFT })
}

impl<'a> Move<'a> {
    /// Reads the state file, and looks whether both servers can be used.
    async fn begin(
        arguments: &'a ImportArgs,
        (source, target): (&'a Access, &'a Access),
    ) -> anyhow::Result<Self> {
        let (source, target) = (Pool::new(source), Pool::new(target));
        let served = discover(&source).await.context("the source")?;
        let names = discover(&target).await.context("the target")?;
        if served.brand != names.brand {
            let (of, to) = (served.brand.name, names.brand.name);
            bail!(
                "the source names its groups as {of} does, the target as {to}: found the target with --brand {of}"
            );
        }
        let brand = served.brand;
        check_right(&target, brand).await?;
        let ends = [served.identity(&source).await?, served.identity(&target).await?];
        if ends[0] == ends[1] {
            bail!("source and target are the same cluster");
        }
        let declared = declared(&source, &served).await?;
        let (journal, copied) = Journal::open(arguments, &ends)?;
        let moving = Move {
            arguments,
            source,
            target,
            brand,
            kinds: Mutex::default(),
            declared: Mutex::new(declared),
            copied: Mutex::new(copied),
            journal: Mutex::new(journal),
            report: Mutex::default(),
            turns: Turns::default(),
            later: Mutex::default(),
            is_declared: Notify::new(),
            is_undeclared: Notify::new(),
        };
        moving.survey(copy::Survey::Now).await?;
        Ok(moving)
    }

    /// Has every kind listed again, by a later run too if this one is broken off.
    fn list_anew(&self) -> anyhow::Result<()> {
        self.journal.lock().write(ANEW_LINE)?;
        self.copied.lock().forget_versions();
        Ok(())
    }

    fn is_trial(&self) -> bool {
        self.arguments.dry_run
    }

    /// The kind of this id, if both servers serve it.
    fn kind(&self, id: &str) -> Option<Kind> {
        self.kinds.lock().shared.get(id).cloned()
    }

    fn text(&self) -> String {
        self.report.lock().text(self.is_trial(), self.copied.lock().refusals())
    }
}

/// Checks that the target keeps identities, and that this user may have it do so.
async fn check_right(target: &Pool<'_>, brand: &Brand) -> anyhow::Result<()> {
    let group = brand.group("authorization");
    let asked = json!({
        "apiVersion": format!("{group}/v1"), "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"verb": "post", "path": IMPORT_RIGHT}},
    });
    let path = format!("/apis/{group}/v1/selfsubjectaccessreviews");
    let reply = target.ask(&Call::with_document(Method::POST, path, &asked)).await?;
    if !reply.status.is_success() {
        bail!("the target refuses: {}", reply.message());
    }
    if reply.body["status"]["allowed"] != true {
        bail!(
            "the target's user may not import: it needs the verb post on the path {IMPORT_RIGHT}, which administrators have, or a \
             cluster role with nonResourceURLs: [\"{IMPORT_RIGHT}\"]"
        );
    }
    Ok(())
}
