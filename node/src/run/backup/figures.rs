//! Metrics of scheduled backups, for the folder and for the bucket.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::folder::Backup;

/// The series of one target.
pub(super) struct TargetFigures(&'static str);

impl TargetFigures {
    /// The series of `target`. They are there before the first success and the first failure, so that alerts see that there is
    /// none, and an increase from none.
    pub(super) fn new(target: &'static str) -> TargetFigures {
        metrics::gauge!("orch_backup_last_success_timestamp_seconds", "target" => target).set(0.0);
        metrics::counter!("orch_backup_failures_total", "target" => target).increment(0);
        TargetFigures(target)
    }

    /// Counts a failure.
    pub(super) fn failed(&self) {
        metrics::counter!("orch_backup_failures_total", "target" => self.0).increment(1);
    }

    /// Shows how long the newest backup took.
    pub(super) fn took(&self, time: Duration) {
        metrics::gauge!("orch_backup_duration_seconds", "target" => self.0).set(time.as_secs_f64());
    }

    /// Shows the newest backup.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; sizes below 8 PiB are exact")]
    pub(super) fn show(&self, backup: &Backup) {
        metrics::gauge!("orch_backup_last_success_timestamp_seconds", "target" => self.0)
            .set(seconds(backup.time));
        metrics::gauge!("orch_backup_size_bytes", "target" => self.0).set(backup.bytes as f64);
    }
}

/// Shows when the next backup is due. The time stays where it is until that one is saved.
pub(super) fn due(next: SystemTime) {
    metrics::gauge!("orch_backup_due_timestamp_seconds").set(seconds(next));
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
