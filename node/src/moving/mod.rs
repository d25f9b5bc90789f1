//! `orch import` and `orch export`: the objects of a running server of the Kubernetes API, copied into another one or into files.
//!
//! Owns which kinds and objects move, in which order, and that a copy which was broken off goes on. A client like any other of both
//! servers: the target keeps uids, times and status by the parameter `import` (`orch_api`), for which it wants a right of its own.
//!
//!     discovery of both -> definitions, until the target serves their kinds -> namespaces -> kinds of definitions -> built-in ones
//!         -> objects whose owners came later -> [follow: a watch for each kind, from the version of its list on]
//!
//! Invariant: an object is copied after its owners, because the target's garbage collector removes objects whose owners are gone.
//! Invariant: what was copied stands in the state file before it is sent, so that a later run finds what it has to remove.

mod copied;
mod copy;
mod export;
mod follow;
mod journal;
mod kinds;
mod left_out;
mod report;
mod servers;
mod target;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use http::Method;
use orch_api::pipeline::IMPORT_RIGHT;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use self::copied::Copied;
pub use self::export::export;
use self::journal::Journal;
use self::kinds::Served;
use self::report::Report;
use self::servers::Pool;
use crate::admin::{Access, Call};
use crate::cli::ImportArgs;

/// Exit code of an import that left objects behind.
const CODE_LEFT: u8 = 3;

/// A copy from one server to another.
struct Move<'a> {
    arguments: &'a ImportArgs,
    source: Pool<'a>,
    target: Pool<'a>,
    /// What the source serves.
    served: Served,
    copied: Mutex<Copied>,
    journal: Mutex<Journal>,
    report: Mutex<Report>,
    /// Wakes the search for new kinds.
    is_declared: Notify,
}

/// Copies the objects of the server that `arguments` name, and prints the progress and the end to `out`.
///
/// # Errors
/// A server cannot be used, or does not answer for half a minute.
pub fn import(arguments: &ImportArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let source = Access::in_context(&arguments.kubeconfig, arguments.context.as_deref())?;
    let target = Access::of(&arguments.target())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry_out(arguments, (&source, &target), out))
}

async fn carry_out(
    arguments: &ImportArgs,
    (source, target): (&Access, &Access),
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let (source, target) = (Pool::new(source), Pool::new(target));
    let served = kinds::discover(&source).await.context("the source")?;
    let names = kinds::discover(&target).await.context("the target")?;
    if served.brand != names.brand {
        let (of, to) = (served.brand.name, names.brand.name);
        bail!(
            "the source names its groups as {of} does, the target as {to}: found the target with --brand {of}"
        );
    }
    check_right(&target, &served).await?;
    let ends = [served.identity(&source).await?, served.identity(&target).await?];
    if ends[0] == ends[1] {
        bail!("source and target are the same cluster");
    }
    let (journal, copied) = Journal::open(arguments, &ends)?;
    if !copied.is_empty() {
        writeln!(out, "{}: going on with {} objects", arguments.state.display(), copied.len())?;
    }
    let moving = Move {
        arguments,
        source,
        target,
        served,
        copied: Mutex::new(copied),
        journal: Mutex::new(journal),
        report: Mutex::default(),
        is_declared: Notify::new(),
    };
    moving.copy_all(out).await?;
    write!(out, "{}", moving.report.lock().text(arguments.dry_run))?;
    if arguments.follow && !arguments.dry_run {
        moving.follow(out).await?;
        write!(out, "{}", moving.report.lock().text(false))?;
    }
    let is_whole = moving.report.lock().is_whole();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(CODE_LEFT) })
}

/// Checks that the target keeps identities, and that this user may have it do so.
async fn check_right(target: &Pool<'_>, served: &Served) -> anyhow::Result<()> {
    let group = served.brand.group("authorization");
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
