//! Scheduled backups of this member: snapshots at the times of a schedule, each restored into memory before it counts, and older
//! ones removed; where there is a bucket, the newest is copied to it.
//!
//!     plan      the flags, resolved
//!     names     names of the files and objects, and which of them are kept
//!     folder    the files
//!     save      one backup: a place, a stream, a restore test, a name
//!     bucket    copies of them in a bucket
//!     figures   metrics
//!     health    the last attempts, for the status
//!
//! Owns the time of the next backup. One that fails is tried again soon, shows in the log and in `orch_backup_failures_total`,
//! and removes nothing. The schedule goes on from the newest file, so that a restart makes no further backup, and a time that
//! passed while the member was off is made up for.
//!
//! Invariant: a backup is removed only after a newer one has passed its test in the same target, and never the last one. Files
//! with a name of the future, which a wrong clock made, count for nothing and stay.

mod bucket;
mod figures;
mod folder;
mod health;
mod names;
mod plan;
mod save;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use orch_serving::Causes;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::figures::TargetFigures;
use self::folder::Backup;
pub(super) use self::health::{BackupHealth, TargetHealth};
pub use self::plan::BackupPlan;
use self::plan::Job;
pub(super) use self::plan::plan;
pub(super) use self::save::Source;
use crate::cli::Schedule;

/// Longest wait after a failure. With a shorter interval that is the wait.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Between two looks at the clock while the time of a cron expression is waited for: after a change of the clock, or a sleep of
/// the machine, a backup is late by this much at most.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Makes backups of `source` until `stopped`.
pub(super) async fn keep_backups(plan: BackupPlan, source: Source, stopped: CancellationToken) {
    let plan = Arc::new(plan.of_cluster(source.cluster()));
    let looking = plan.clone();
    let newest = tokio::task::spawn_blocking(move || {
        looking.folder.discard_drafts()?;
        looking.folder.newest()
    });
    let newest = newest.await.map_err(std::io::Error::other).and_then(|newest| newest);
    let newest = newest.unwrap_or_else(|error| {
        tracing::warn!(%error, folder = %plan.folder, "earlier backups cannot be listed");
        None
    });
    let figures = TargetFigures::new("directory", plan.health.clone());
    if let Some(newest) = &newest {
        figures.show(newest);
    }
    if plan.recipients.is_empty() {
        tracing::warn!("scheduled backups show every secret in clear; encrypt them with --backup-encrypt-to");
    }
    let (sender, receiver) = watch::channel(newest);
    let saving = keep_saving(&plan, &source, &figures, sender, &stopped);
    match &plan.bucket {
        None => saving.await,
        Some(bucket) => {
            let copying = bucket::keep_copying(&plan, bucket, receiver, &stopped);
            tokio::join!(saving, copying);
        }
    }
}

/// Saves backups, and passes each on to `newest`.
async fn keep_saving(
    plan: &Arc<Job>,
    source: &Source,
    figures: &TargetFigures,
    newest: watch::Sender<Option<Backup>>,
    stopped: &CancellationToken,
) {
    let mut last = newest.borrow().as_ref().map(|backup| backup.time);
    if matches!(plan.schedule, Schedule::Cron(_)) {
        // The first one is made at the next time of the expression.
        last = last.or(Some(SystemTime::now()));
    }
    loop {
        let next = announce(&plan.schedule, last, figures);
        tracing::info!(schedule = %plan.schedule, next, "the next backup is due");
        let mut waited = stopped.run_until_cancelled(wait(&plan.schedule, last)).await;
        loop {
            if waited.is_none() {
                return;
            }
            let began = Instant::now();
            let saved = stopped.run_until_cancelled(save::save(plan, source)).await;
            let retry = match saved {
                None => return,
                Some(Ok(saved)) => {
                    last = Some(saved.backup.time);
                    figures.took(began.elapsed());
                    figures.show(&saved.backup);
                    let (path, bytes, objects) =
                        (saved.backup.path.display(), saved.backup.bytes, saved.objects);
                    let seconds = began.elapsed().as_secs_f64();
                    tracing::info!(%path, bytes, objects, seconds, "a backup was saved, and restored into memory as a test");
                    newest.send_replace(Some(saved.backup));
                    break;
                }
                Some(Err(error)) => {
                    let error = Causes(error.as_ref());
                    figures.failed(&error.to_string());
                    tracing::warn!(%error, "a backup was not saved; it is tried again");
                    pause(&plan.schedule)
                }
            };
            waited = stopped.run_until_cancelled(sleep(retry)).await;
        }
    }
}

/// The wait after a failure.
fn pause(schedule: &Schedule) -> Duration {
    match schedule {
        Schedule::Every(every) => RETRY_MAX.min(*every),
        Schedule::Cron(_) => RETRY_MAX,
    }
}

/// Waits until the backup after one of `last` is due; at once where there is no last one.
async fn wait(schedule: &Schedule, last: Option<SystemTime>) {
    match schedule {
        // The clock is read once: one that is set meanwhile makes the interval neither longer nor shorter.
        Schedule::Every(_) => sleep(left(schedule, last, SystemTime::now())).await,
        Schedule::Cron(_) => loop {
            let left = left(schedule, last, SystemTime::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK_EVERY)).await;
        },
    }
}

/// Time from `now` until the backup after one of `last` is due.
fn left(schedule: &Schedule, last: Option<SystemTime>, now: SystemTime) -> Duration {
    match (schedule, last) {
        // Made in the future: the clock was set back. The next one is an interval away.
        (Schedule::Every(every), Some(last)) => {
            every.saturating_sub(now.duration_since(last).unwrap_or_default())
        }
        (Schedule::Every(_), None) => Duration::ZERO,
        (Schedule::Cron(cron), last) => match cron.next_after(last.unwrap_or(now).min(now)) {
            Some(next) => next.duration_since(now).unwrap_or_default(),
            // No such time in the years that were searched; later ones will be searched as time passes.
            None => RETRY_MAX,
        },
    }
}

/// Shows the time of the backup after one of `last`, and returns it as text.
fn announce(schedule: &Schedule, last: Option<SystemTime>, figures: &TargetFigures) -> String {
    let now = SystemTime::now();
    let next = now + left(schedule, last, now);
    figures.due(next);
    // To the second: a cron expression has no finer times, and an interval's are no appointment.
    let second = OffsetDateTime::from(next).replace_nanosecond(0);
    let text = second.ok().and_then(|second| second.format(&Rfc3339).ok());
    text.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// 2026-01-01, in seconds since 1970.
    const NEW_YEAR: u64 = 1_767_225_600;

    #[test]
    fn an_interval_goes_on_from_the_last_backup() {
        let schedule: Schedule = "1h".parse().unwrap();
        let seconds = |last: Option<u64>| left(&schedule, last.map(at), at(NEW_YEAR)).as_secs();
        assert_eq!(seconds(None), 0);
        assert_eq!(seconds(Some(NEW_YEAR - 600)), 3_000);
        assert_eq!(seconds(Some(NEW_YEAR - 7_200)), 0);
        assert_eq!(seconds(Some(NEW_YEAR + 7_200)), 3_600, "the clock was set back");
    }

    #[test]
    fn a_time_that_passed_is_made_up_for_and_one_that_was_kept_is_not() {
        let schedule: Schedule = "0 3 * * *".parse().unwrap();
        let seconds =
            |last: Option<u64>, now: u64| left(&schedule, last.map(at), at(NEW_YEAR + now)).as_secs();
        let (hour, day) = (3_600, 86_400);
        assert_eq!(seconds(None, 0), 3 * hour, "the first one waits for its time");
        assert_eq!(seconds(Some(NEW_YEAR - hour), 0), 3 * hour);
        assert_eq!(seconds(Some(NEW_YEAR - hour), 4 * hour), 0, "the member was off at its time");
        assert_eq!(seconds(Some(NEW_YEAR + 3 * hour + 7), 4 * hour), day - hour);
        assert_eq!(seconds(Some(NEW_YEAR + 9 * day), 4 * hour), day - hour, "the clock was set back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cron_time_that_has_come_ends_the_wait_and_another_does_not() {
        let schedule: Schedule = "* * * * *".parse().unwrap();
        let last = SystemTime::now() - Duration::from_secs(120);
        wait(&schedule, Some(last)).await;
        let schedule: Schedule = "0 0 29 2 *".parse().unwrap();
        let waits = tokio::time::timeout(LOOK_EVERY * 3, wait(&schedule, Some(SystemTime::now())));
        assert!(waits.await.is_err(), "a leap day comes by itself");
    }

    #[test]
    fn a_failure_is_tried_again_soon() {
        assert_eq!(pause(&"0 3 * * *".parse().unwrap()), RETRY_MAX);
        assert_eq!(pause(&"1h".parse().unwrap()), RETRY_MAX);
        assert_eq!(pause(&"1m".parse().unwrap()), Duration::from_secs(60));
    }

    #[test]
    fn the_next_time_is_told_as_a_date() {
        let figures = TargetFigures::new("directory", BackupHealth::default());
        let told = announce(&"0 3 * * *".parse().unwrap(), Some(SystemTime::now()), &figures);
        assert!(told.ends_with("T03:00:00Z"), "{told}");
    }
}
