//! The conditions of the server that was asked, and of what the cluster holds: states, room, certificates, backups, webhooks.

use serde_json::Value;

use super::super::table::{bytes, duration, text};
use super::{Condition, Severity};
use crate::certs::remedy;

/// A backup that is late by more, in seconds, does not come by itself: an attempt that fails is told of as such.
const BACKUP_LATE_S_MAX: u64 = 3600;
/// Part of the quota from which on its end is near, in percent.
const STATE_PERCENT_MAX: u64 = 80;

/// Divergence of the members' states, and the server's quarantine.
pub(super) fn agreement(server: &str, agreement: &Value, found: &mut Vec<Condition>) {
    let differing = agreement["differing"].as_array().into_iter().flatten();
    let differing: Vec<&str> = differing.filter_map(Value::as_str).collect();
    if !differing.is_empty() {
        let is_split = agreement["split"] == true;
        let (severity, message, next) = match is_split {
            true => (
                Severity::Critical,
                format!("STATES DIFFER: {}, and none of their states has a majority", differing.join(", ")),
                "restore a backup, or remove the members that are wrong",
            ),
            false => (
                Severity::Warning,
                format!("STATES DIFFER: {} from the majority", differing.join(", ")),
                "they are repaired from it while they run; report it, with the members' logs",
            ),
        };
        found.push(Condition { severity, name: "StatesDiffer", message, next: next.to_owned() });
    }
    if let Some(reason) = agreement["quarantine"].as_str() {
        found.push(Condition {
            severity: Severity::Critical,
            name: "Quarantined",
            message: format!("{server} is quarantined and serves no clients: {reason}"),
            next: "it is repaired from the majority; clients use the other members meanwhile".to_owned(),
        });
    }
}

/// Room on the members' disks, and the quota of the state.
pub(super) fn space(cluster: &Value, found: &mut Vec<Condition>) {
    let space = &cluster["space"];
    let short: Vec<&str> =
        space["short"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let reserve = space["reserve"].as_u64().map_or_else(|| "unknown".to_owned(), bytes);
    if !short.is_empty() {
        found.push(Condition {
            severity: Severity::Critical,
            name: "DiskSpaceShort",
            message: format!(
                "LITTLE DISK SPACE: {} (less than the reserve, here {reserve}): what would add to the state is refused",
                short.join(", ")
            ),
            next: "make room on that disk, or raise --disk-quota; deletions work".to_owned(),
        });
    } else if space["pressure"] == "tight" {
        found.push(Condition {
            severity: Severity::Warning,
            name: "DiskSpaceTight",
            message: format!(
                "the disk of {} has little more than the reserve of {reserve}",
                text(&cluster["name"])
            ),
            next: "make room on it before what adds to the state is refused".to_owned(),
        });
    }
    let state = &cluster["state"];
    if let (Some(used), Some(quota @ 1..)) = (state["bytes"].as_u64(), state["quota"].as_u64()) {
        let percent = used.saturating_mul(100) / quota;
        if percent >= STATE_PERCENT_MAX {
            let is_full = percent >= 100;
            found.push(Condition {
                severity: if is_full { Severity::Critical } else { Severity::Warning },
                name: if is_full { "StateFull" } else { "StateNearQuota" },
                message: format!("objects use {percent}% of the quota of {}", bytes(quota)),
                next:
                    "delete what is not needed, or raise --state-quota of every member; deletions always work"
                        .to_owned(),
            });
        }
    }
}

/// The server's certificates that have to be renewed.
pub(super) fn certificates(server: &str, certificates: &Value, found: &mut Vec<Condition>) {
    let certificates = certificates.as_array().into_iter().flatten();
    for certificate in certificates.filter(|certificate| certificate["condition"] != "valid") {
        let (used_as, expires) = (text(&certificate["use"]), text(&certificate["expires"]));
        let (severity, verb, left) = match certificate["left_s"].as_i64() {
            Some(left_s @ ..0) => {
                (Severity::Critical, "EXPIRED", format!("{} ago", duration(left_s.unsigned_abs())))
            }
            Some(left_s) => (Severity::Warning, "EXPIRES", format!("in {}", duration(left_s.unsigned_abs()))),
            None => (Severity::Warning, "EXPIRES", "unknown".to_owned()),
        };
        found.push(Condition {
            severity,
            name: "Certificate",
            message: format!("CERTIFICATE {verb}: {used_as} of {server}, {expires} ({left})"),
            next: remedy(&used_as).to_owned(),
        });
    }
}

/// An older file of the signing key, in seconds, is to be changed: 400 days, as in the alert `OrchServiceAccountKeyOld`.
const SIGNING_KEY_AGE_S_MAX: u64 = 400 * 86_400;

/// The key by which the server signs service account tokens, where it is old.
pub(super) fn signing_key(server: &str, key: &Value, found: &mut Vec<Condition>) {
    let age = key["age_s"].as_u64().filter(|age| *age > SIGNING_KEY_AGE_S_MAX);
    found.extend(age.map(|age| {
        Condition {
            severity: Severity::Warning,
            name: "SigningKeyOld",
            message: format!(
                "the file of the key by which {server} signs service account tokens is {} old ({})",
                duration(age),
                text(&key["modified"])
            ),
            next: "make a new key for --service-account-signing-key-file, and keep the old one under \
               --service-account-key-file until the last token has ended"
                .to_owned(),
        }
    }));
}

/// Admission webhooks that do not answer the server.
pub(super) fn webhooks(server: &str, webhooks: &Value, found: &mut Vec<Condition>) {
    for webhook in webhooks.as_array().into_iter().flatten() {
        let (name, kind, configuration) =
            (text(&webhook["webhook"]), text(&webhook["kind"]), text(&webhook["configuration"]));
        let refuses = webhook["refuses"] != false;
        let effect = if refuses { "are refused" } else { "pass without it" };
        let since = webhook["dead_s"].as_u64().map_or_else(|| "unknown".to_owned(), duration);
        let reason = webhook["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
        found.push(Condition {
            severity: if refuses { Severity::Critical } else { Severity::Warning },
            name: "WebhookDead",
            message: format!(
                "WEBHOOK DEAD: {name} of {kind} {configuration} does not answer {server}, for {since}; writes that it is \
                 about {effect}{reason}"
            ),
            next: text(&webhook["remedy"]),
        });
    }
}

/// Scheduled backups of the server that fail, or do not come.
pub(super) fn backups(server: &str, targets: &Value, found: &mut Vec<Condition>) {
    for target in targets.as_array().into_iter().flatten() {
        let newest = match target["newest_s_ago"].as_u64() {
            Some(ago) => format!("the newest one is {} old", duration(ago)),
            None => "there is none".to_owned(),
        };
        let Some(failures @ 1..) = target["failures"].as_u64() else {
            let late = target["overdue_s"].as_u64().filter(|late| *late > BACKUP_LATE_S_MAX);
            found.extend(late.map(|late| Condition {
                severity: Severity::Warning,
                name: "BackupOverdue",
                message: format!("a backup of {server} was due {} ago, and {newest}", duration(late)),
                next: "see in its log what it waits for; one by hand: orch snapshot save FILE".to_owned(),
            }));
            continue;
        };
        let (place, next) = match target["target"] == "s3" {
            true => (
                "bucket",
                "look at the bucket, its credentials and the way to it (--backup-s3); the copy is tried again",
            ),
            false => (
                "directory",
                "look at its room and rights (--backup-dir); it is tried again. One by hand: orch snapshot save FILE",
            ),
        };
        found.push(Condition {
            severity: Severity::Warning,
            name: "BackupFails",
            message: format!(
                "backups of {server} to its {place} fail ({failures} in a row), and {newest}: {}",
                text(&target["reason"])
            ),
            next: next.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signing_key_is_old_after_400_days() {
        let found = |key: Value| {
            let mut found = Vec::new();
            signing_key("a", &key, &mut found);
            found
        };
        let key = |age_s: u64| json!({"modified": "2025-01-01T00:00:00Z", "age_s": age_s});
        assert_eq!((found(Value::Null), found(key(400 * 86_400))), (vec![], vec![]));
        let old = found(key(401 * 86_400));
        let [condition] = old.as_slice() else { panic!("{old:?}") };
        assert_eq!((condition.severity, condition.name), (Severity::Warning, "SigningKeyOld"));
        let message =
            "the file of the key by which a signs service account tokens is 401d old (2025-01-01T00:00:00Z)";
        assert_eq!(condition.message, message);
        assert!(condition.next.contains("--service-account-key-file until the last token"));
    }
}
