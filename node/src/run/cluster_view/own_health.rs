//! The part of the document about what a node knows of itself beside its store: its certificates, its signing key, the webhooks that
//! do not answer it, and its scheduled backups.
//!
//! Owns the form of that part, which stands in the status of the node itself and, as a report, below the node's name in the statuses of
//! the other members. It asks the owners of these facts for copies and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use orch_api::ambient::{Ambient, SystemAmbient, Timestamp};
use orch_api::webhook::{Outage, Outages};
use orch_raft::member::REPORT_BYTES_MAX;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::backup::{BackupHealth, TargetHealth};
use crate::certs::{Expiries, Expiry, Urgency};

/// Where a node finds what it knows of itself beside its store.
#[derive(Clone)]
pub(in crate::run) struct OwnHealth {
    pub(in crate::run) expiries: Expiries,
    pub(in crate::run) outages: Outages,
    pub(in crate::run) backups: BackupHealth,
}

impl OwnHealth {
    /// The report as JSON of [`REPORT_BYTES_MAX`] bytes at most; empty where it cannot be made. Of many dead webhooks it names as many as fit.
    pub(in crate::run) fn report(&self) -> Bytes {
        let mut report = Report::of(self);
        loop {
            let bytes = serde_json::to_vec(&report).unwrap_or_default();
            if bytes.len() <= REPORT_BYTES_MAX || report.dead_webhooks.is_empty() {
                return Bytes::from(bytes);
            }
            report.dead_webhooks.truncate(report.dead_webhooks.len() / 2);
        }
    }
}

/// The report of a member about itself, for the statuses of the others.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) certificates: Vec<CertificateView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signing_key: Option<SigningKeyView>,
    pub(super) dead_webhooks: Vec<OutageView>,
    pub(super) backups: Vec<BackupView>,
}

impl Report {
    /// The report of `own` at this time. The order of certificates, webhooks and backups is that of [`super::ClusterView`].
    pub(super) fn of(own: &OwnHealth) -> Report {
        Report {
            certificates: certificates(&own.expiries.all(), OffsetDateTime::now_utc()),
            signing_key: own.expiries.signing_key_modified().map(|time| signing_key(time, SystemTime::now())),
            dead_webhooks: outages(&own.outages.all(), SystemAmbient.now()),
            backups: backups(&own.backups.all(), SystemTime::now()),
        }
    }
}

/// The scheduled backups in one target.
#[derive(Serialize)]
pub(super) struct BackupView {
    /// `directory` or `s3`.
    target: &'static str,
    /// Failures since the last success.
    failures: u64,
    /// The last failure; absent while there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    /// Seconds since the newest backup; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest_s_ago: Option<u64>,
    /// Seconds since the next one was due; absent where it is not, and where no schedule says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    overdue_s: Option<u64>,
}

/// A webhook that does not answer.
#[derive(Serialize)]
pub(super) struct OutageView {
    pub(super) configuration: String,
    /// Kind of the configuration.
    pub(super) kind: &'static str,
    pub(super) webhook: String,
    /// The time since which this node takes it for dead, RFC 3339.
    pub(super) since: String,
    /// Seconds since then.
    pub(super) dead_s: u64,
    /// Calls without an answer.
    pub(super) calls: u64,
    /// Writes that it is about are refused; otherwise they pass without it.
    pub(super) refuses: bool,
    /// The last failure.
    pub(super) reason: String,
    /// The command that leaves it out for a time.
    pub(super) remedy: String,
}

/// The end of a certificate.
#[derive(Serialize)]
pub(super) struct CertificateView {
    /// Its use: `serving`, `peer`, `authority_client` and the like.
    r#use: &'static str,
    /// End of its validity, RFC 3339.
    expires: String,
    /// Seconds until then; negative after it.
    left_s: i64,
    /// `valid`, `due` for a renewal, `urgent`, or `expired`.
    condition: &'static str,
}

/// The age of the file of a key. Keys have no date: a copy of the file may be younger than its key.
#[derive(Serialize)]
pub(super) struct SigningKeyView {
    /// Last modification of the file, RFC 3339.
    modified: String,
    /// Seconds since then; 0 where that time is to come.
    age_s: u64,
}

fn outages(outages: &[Arc<Outage>], now: Timestamp) -> Vec<OutageView> {
    let view = |outage: &Arc<Outage>| OutageView {
        configuration: outage.configuration.to_string(),
        kind: outage.kind,
        webhook: outage.webhook.to_string(),
        since: outage.since.seconds_text(),
        dead_s: now.seconds().saturating_sub(outage.since.seconds()),
        calls: outage.calls(),
        refuses: outage.refuses,
        reason: outage.reason(),
        remedy: format!("orch cluster bypass-webhook {}", outage.configuration),
    };
    outages.iter().map(view).collect()
}

pub(super) fn backups(targets: &BTreeMap<&'static str, TargetHealth>, now: SystemTime) -> Vec<BackupView> {
    let view = |(target, health): (&&'static str, &TargetHealth)| BackupView {
        target,
        failures: health.failures,
        reason: health.reason.clone(),
        newest_s_ago: health.newest.map(|time| now.duration_since(time).unwrap_or_default().as_secs()),
        overdue_s: health.due.and_then(|due| now.duration_since(due).ok()).map(|late| late.as_secs()),
    };
    targets.iter().map(view).collect()
}

pub(super) fn signing_key(modified: SystemTime, now: SystemTime) -> SigningKeyView {
    let date = OffsetDateTime::from(modified);
    SigningKeyView {
        // A year beyond 9999 has no such form.
        modified: date.format(&Rfc3339).unwrap_or_else(|_| date.to_string()),
        age_s: now.duration_since(modified).unwrap_or_default().as_secs(),
    }
}

pub(super) fn certificates(expiries: &[Expiry], now: OffsetDateTime) -> Vec<CertificateView> {
    let view = |expiry: &Expiry| CertificateView {
        r#use: expiry.used_as.name(),
        // A year beyond 9999 has no such form.
        expires: expiry.not_after.format(&Rfc3339).unwrap_or_else(|_| expiry.not_after.to_string()),
        left_s: (expiry.not_after - now).whole_seconds(),
        condition: match expiry.urgency(now) {
            _ if expiry.not_after < now => "expired",
            Urgency::NotDue => "valid",
            Urgency::Due => "due",
            Urgency::Urgent => "urgent",
        },
    };
    expiries.iter().map(view).collect()
}
