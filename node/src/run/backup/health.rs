//! Results of the latest scheduled backups by target, for the status of the cluster.
//!
//! Owns the counts of failures in a row and the newest backup of each target. Metrics are `figures`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use orch_schema::excerpt::part;
use parking_lot::Mutex;

/// The health of a member's backups. Clones share it; without scheduled backups it stays empty.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct BackupHealth(Arc<Mutex<BTreeMap<&'static str, TargetHealth>>>);

/// The health of the backups in one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct TargetHealth {
    /// Failures since the last success.
    pub(in crate::run) failures: u64,
    /// The last failure, cut as the log does; empty before the first.
    pub(in crate::run) reason: String,
    /// The time of the newest backup; `None` where there is none.
    pub(in crate::run) newest: Option<SystemTime>,
    /// The time at which the next one is due, until it is there; `None` where no schedule says it.
    pub(in crate::run) due: Option<SystemTime>,
}

impl BackupHealth {
    /// A backup of `time` is in `target`.
    pub(super) fn note_success(&self, target: &'static str, time: SystemTime) {
        let mut targets = self.0.lock();
        let due = targets.get(target).and_then(|health| health.due);
        targets.insert(target, TargetHealth { newest: Some(time), due, ..TargetHealth::default() });
    }

    /// The next backup in `target` is due at `time`.
    pub(super) fn note_due(&self, target: &'static str, time: SystemTime) {
        self.0.lock().entry(target).or_default().due = Some(time);
    }

    /// A backup is not in `target`, for this reason.
    pub(super) fn note_failure(&self, target: &'static str, reason: &str) {
        let mut targets = self.0.lock();
        let health = targets.entry(target).or_default();
        health.failures += 1;
        health.reason = part(reason).into_owned();
    }

    /// The targets, by name.
    pub(in crate::run) fn all(&self) -> BTreeMap<&'static str, TargetHealth> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn failures_in_a_row_are_counted_beside_the_newest_backup_until_one_succeeds() {
        let health = BackupHealth::default();
        assert!(health.all().is_empty());
        health.note_success("directory", UNIX_EPOCH);
        health.note_failure("directory", "no space left");
        health.note_failure("directory", "no space left");
        health.note_failure("s3", "denied");
        let all = health.all();
        let directory = &all["directory"];
        assert_eq!((directory.failures, directory.newest), (2, Some(UNIX_EPOCH)));
        assert_eq!((&*all["s3"].reason, all["s3"].newest), ("denied", None));
        let next = UNIX_EPOCH + std::time::Duration::from_secs(60);
        health.note_due("directory", next);
        health.note_success("directory", UNIX_EPOCH);
        let directory = &health.all()["directory"];
        assert_eq!((directory.failures, directory.due), (0, Some(next)));
    }
}
