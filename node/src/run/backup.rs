//! Scheduled backups of this member: a snapshot at an interval, verified before it counts, and older ones removed.
//!
//! Owns the time of the next backup, the names of the files and which of them are kept. A backup that fails is tried again
//! soon, shows in the log and in `orch_backup_failures_total`, and removes nothing. The interval goes on from the newest file,
//! so that a restart makes no further backup.
//!
//! Invariant: a backup is removed only after a newer one was verified to its end, and never the last one. Files with a name of
//! the future, which a wrong clock made, count for nothing and stay.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use orch_raft::{ClusterIdentity, Store};
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::snapshot::{Point, root, stream};
use super::store::Handle;
use crate::cli::BackupArgs;
use crate::report::Causes;
use crate::snapshot::{Existing, Output, Recipient, Sink, copy, stamp};

/// Longest wait after a failure. With a shorter interval that is the wait.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// The end of a backup's name.
const SUFFIX: &str = ".snapshot";

/// When and where backups are made.
#[derive(Clone, Debug)]
pub struct BackupPlan {
    every: Duration,
    folder: PathBuf,
    keep: usize,
    recipients: Vec<Recipient>,
    /// The member, with whose name those of the files begin.
    member: String,
}

/// A file that a backup of this member is in.
#[derive(Debug)]
struct Backup {
    path: PathBuf,
    time: SystemTime,
    bytes: u64,
}

impl BackupPlan {
    /// The file of a backup that is made now.
    fn file(&self) -> anyhow::Result<PathBuf> {
        Ok(self.folder.join(format!("{}-{}{SUFFIX}", self.member, stamp()?)))
    }
}

/// The plan of `arguments`, if they ask for backups.
pub(super) fn plan(arguments: &BackupArgs, member: &str) -> Result<Option<BackupPlan>, RunError> {
    let (Some(every), Some(folder)) = (arguments.backup_schedule, &arguments.backup_dir) else {
        return Ok(None);
    };
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(RunError::Flags(format!("--backup-dir: {folder} is not a folder; make it first")));
    }
    // Without the text: it may be the private key, given by mistake.
    let parse = |(place, key): (usize, &String)| {
        let parsed = Recipient::parse(key);
        parsed.map_err(|error| RunError::Flags(format!("--backup-encrypt-to, key {}: {error}", place + 1)))
    };
    let recipients = arguments.backup_encrypt_to.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
    let (folder, keep) = (folder.clone(), usize::from(arguments.backup_keep));
    Ok(Some(BackupPlan { every, folder, keep, recipients, member: member.to_owned() }))
}

/// Makes backups of `cluster` until `stopped`.
pub(super) async fn keep_backups(
    plan: BackupPlan,
    handle: Handle,
    cluster: ClusterIdentity,
    stopped: CancellationToken,
) {
    describe();
    let (plan, cluster) = (Arc::new(plan), Arc::new(cluster));
    let looking = plan.clone();
    let newest = tokio::task::spawn_blocking(move || {
        let now = looking.file().map_err(std::io::Error::other)?;
        let mut backups = backups(&looking.folder, &looking.member)?;
        backups.retain(|backup| backup.path <= now);
        std::io::Result::Ok(backups.pop())
    });
    let mut wait = match newest.await.map_err(std::io::Error::other).and_then(|newest| newest) {
        Ok(Some(newest)) => {
            show(&newest);
            // Changed in the future: the time of day was set back. The next one is an interval away.
            plan.every.saturating_sub(newest.time.elapsed().unwrap_or_default())
        }
        Ok(None) => Duration::ZERO,
        Err(error) => {
            tracing::warn!(%error, folder = %plan.folder.display(), "earlier backups cannot be listed");
            Duration::ZERO
        }
    };
    if plan.recipients.is_empty() {
        tracing::warn!("scheduled backups show every secret in clear; encrypt them with --backup-encrypt-to");
    }
    while stopped.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        let began = Instant::now();
        let saving = save(plan.clone(), handle.clone(), cluster.clone());
        let Some(saved) = stopped.run_until_cancelled(saving).await else { return };
        wait = match saved {
            Ok(backup) => {
                let seconds = began.elapsed().as_secs_f64();
                metrics::gauge!("orch_backup_duration_seconds").set(seconds);
                show(&backup);
                let (path, bytes) = (backup.path.display(), backup.bytes);
                tracing::info!(%path, bytes, seconds, "a backup was saved and verified");
                plan.every
            }
            Err(error) => {
                metrics::counter!("orch_backup_failures_total").increment(1);
                let error = Causes(error.as_ref());
                tracing::warn!(%error, "a backup was not saved; it is tried again");
                plan.every.min(RETRY_MAX)
            }
        };
    }
}

fn describe() {
    metrics::describe_gauge!(
        "orch_backup_last_success_timestamp_seconds",
        metrics::Unit::Seconds,
        "Time of this member's newest backup that was verified, in seconds since 1970."
    );
    metrics::describe_gauge!(
        "orch_backup_size_bytes",
        metrics::Unit::Bytes,
        "Size of this member's newest backup."
    );
    metrics::describe_gauge!(
        "orch_backup_duration_seconds",
        metrics::Unit::Seconds,
        "Time that this member's newest backup took."
    );
    metrics::describe_counter!("orch_backup_failures_total", "Backups that were not saved.");
    // It is there before the first failure, so that an alert on its increase sees that one.
    metrics::counter!("orch_backup_failures_total").increment(0);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; sizes below 8 PiB are exact")]
fn show(backup: &Backup) {
    let since = backup.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics::gauge!("orch_backup_last_success_timestamp_seconds").set(since.as_secs_f64());
    metrics::gauge!("orch_backup_size_bytes").set(backup.bytes as f64);
}

/// Saves a backup, and then removes those that are not kept.
async fn save(
    plan: Arc<BackupPlan>,
    handle: Handle,
    cluster: Arc<ClusterIdentity>,
) -> anyhow::Result<Backup> {
    handle.barrier().await.context("no state that is known to be the newest")?;
    let root = Arc::new(root(&handle, &cluster, Point::Newest));
    let receiver = stream(handle, root, 0, None).context("no thread for a backup")?;
    let copying = tokio::task::spawn_blocking(move || {
        let made = plan.file()?;
        let output = Output::file(&made, Existing::Refuse)?;
        copy(receiver, Sink::new(output, &plan.recipients)?, None)?;
        retain(&plan, &made)
    });
    copying.await.context("the thread of a backup ended early")?
}

/// Removes the backups before `made` that are not kept, and returns `made`.
fn retain(plan: &BackupPlan, made: &Path) -> anyhow::Result<Backup> {
    let mut backups = backups(&plan.folder, &plan.member)
        .with_context(|| format!("cannot list {}", plan.folder.display()))?;
    // A later name is one of a clock that ran ahead. If it counted, `made` could be removed as the oldest.
    backups.retain(|backup| *backup.path <= *made);
    let newest = backups.pop().filter(|newest| newest.path == made).context("the backup is gone")?;
    for old in backups.iter().rev().skip(plan.keep.saturating_sub(1)) {
        std::fs::remove_file(&old.path).with_context(|| format!("cannot remove {}", old.path.display()))?;
    }
    Ok(newest)
}

/// The backups of `member` in `folder`, oldest first.
fn backups(folder: &Path, member: &str) -> std::io::Result<Vec<Backup>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        if facts.is_file() && is_backup(&entry.file_name(), member) {
            found.push(Backup { path: entry.path(), time: facts.modified()?, bytes: facts.len() });
        }
    }
    // The names hold the time.
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Whether `name` is `MEMBER-20261129T101500Z.snapshot`. Files with any other name are not backups of this member.
fn is_backup(name: &OsStr, member: &str) -> bool {
    let stamp =
        name.to_str().and_then(|name| name.strip_prefix(member)?.strip_prefix('-')?.strip_suffix(SUFFIX));
    let form = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    stamp.is_some_and(|stamp| stamp.len() == 16 && stamp.bytes().enumerate().all(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_members_own_backups_are_counted_and_the_newest_comes_last() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "a-20261129T101500Z.snapshot",
            "a-20251129T101500Z.snapshot",
            "a-b-20261129T101500Z.snapshot",
            "b-20261129T101500Z.snapshot",
            ".a-20261129T101501Z.snapshot.partial",
            "a-20261129T101500Z.snapshot.old",
            "a-20261129T101500X.snapshot",
            "a-monday.snapshot",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(folder.path().join("a-20271129T101500Z.snapshot")).unwrap();
        let found = backups(folder.path(), "a").unwrap();
        let found: Vec<_> = found.iter().filter_map(|backup| backup.path.file_name()).collect();
        assert_eq!(found, [names[1], names[0]]);
        assert_eq!(backups(folder.path(), "a-b").unwrap().len(), 1);
    }

    #[test]
    fn a_backup_that_was_just_made_stays_where_the_clock_ran_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let at = |time: &str| folder.path().join(format!("a-{time}.snapshot"));
        let ahead = ["20991129T101500Z", "20991130T101500Z"].map(at);
        let past = ["20251127T101500Z", "20251128T101500Z"].map(at);
        let made = at("20251129T101500Z");
        for path in ahead.iter().chain(&past).chain([&made]) {
            std::fs::write(path, "x").unwrap();
        }
        let plan = BackupPlan {
            every: Duration::from_secs(3600),
            folder: folder.path().to_owned(),
            keep: 2,
            recipients: Vec::new(),
            member: "a".to_owned(),
        };
        assert_eq!(retain(&plan, &made).unwrap().path, made);
        let left: Vec<_> = backups(folder.path(), "a").unwrap().into_iter().map(|found| found.path).collect();
        assert_eq!(left, [past[1].clone(), made.clone(), ahead[0].clone(), ahead[1].clone()]);
        std::fs::remove_file(&made).unwrap();
        assert!(retain(&plan, &made).unwrap_err().to_string().contains("gone"));
        assert!(past[1].exists(), "nothing is removed for a backup that is not there");
    }

    #[test]
    fn a_folder_that_is_not_there_and_a_bad_key_are_refused_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut arguments = BackupArgs {
            backup_schedule: Some(Duration::from_secs(3600)),
            backup_dir: Some(folder.path().join("none")),
            backup_keep: 3,
            backup_encrypt_to: vec!["age1nonsense".to_owned()],
        };
        let text = |result: Result<Option<BackupPlan>, RunError>| result.unwrap_err().to_string();
        assert!(text(plan(&arguments, "a")).contains("make it first"));
        arguments.backup_dir = Some(folder.path().to_owned());
        let told = text(plan(&arguments, "a"));
        assert!(told.contains("not a public key") && !told.contains("nonsense"), "{told}");
        arguments.backup_encrypt_to.clear();
        assert!(plan(&arguments, "a").unwrap().is_some());
        arguments.backup_schedule = None;
        assert!(plan(&arguments, "a").unwrap().is_none());
    }
}
