//! Metrics of scheduled backups, for the folder and for the bucket. What they show is in the health of the backups, too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::folder::Backup;
use super::health::BackupHealth;

/// The series of one target.
pub(super) struct TargetFigures {
    target: &'static str,
    health: BackupHealth,
}

impl TargetFigures {
    /// The series of `target`. They exist from the start with the value 0, so that alerts see a missing success and the first increase.
    pub(super) fn new(target: &'static str, health: BackupHealth) -> TargetFigures {
        metrics::gauge!("orch_backup_last_success_timestamp_seconds", "target" => target).set(0.0);
        metrics::counter!("orch_backup_failures_total", "target" => target).increment(0);
        TargetFigures { target, health }
    }

    /// Counts a failure, for this reason.
    pub(super) fn failed(&self, reason: &str) {
        self.health.note_failure(self.target, reason);
        metrics::counter!("orch_backup_failures_total", "target" => self.target).increment(1);
    }

    /// Shows when the next backup is due. The time stays where it is until that one is saved.
    pub(super) fn due(&self, next: SystemTime) {
        self.health.note_due(self.target, next);
        metrics::gauge!("orch_backup_due_timestamp_seconds").set(seconds(next));
    }

    /// Shows how long the newest backup took.
    pub(super) fn took(&self, time: Duration) {
        metrics::gauge!("orch_backup_duration_seconds", "target" => self.target).set(time.as_secs_f64());
    }

    /// Shows the newest backup.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; sizes below 8 PiB are exact")]
    pub(super) fn show(&self, backup: &Backup) {
        self.health.note_success(self.target, backup.time);
        metrics::gauge!("orch_backup_last_success_timestamp_seconds", "target" => self.target)
            .set(seconds(backup.time));
        metrics::gauge!("orch_backup_size_bytes", "target" => self.target).set(backup.bytes as f64);
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
