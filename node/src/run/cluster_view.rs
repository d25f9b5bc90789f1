//! The document that `/orch/v1/cluster` answers with.
//!
//! Owns its form, which the command line and operators' programs read, and that of what a member tells the others of itself. It asks the
//! member nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use orch_api::ambient::{Ambient, SystemAmbient, Timestamp};
use orch_api::webhook::{Outage, Outages};
use orch_raft::member::{AgreementStatus, MemberStatus, REPORT_BYTES_MAX, SpaceStatus, Status, SyncTimes};
use orch_raft::transport::{NodeId, Peer};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::backup::{BackupHealth, TargetHealth};
use crate::certs::{Expiries, Expiry, Urgency};

/// The cluster as this node sees it.
#[derive(Serialize)]
pub(super) struct ClusterView {
    /// The reason why the request changed nothing; absent where it did, and in a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged: Option<String>,
    name: String,
    leader: Option<String>,
    role: String,
    term: u64,
    applied: u64,
    committed: u64,
    feature_level: u32,
    oldest: u64,
    /// A membership change is not committed, or is still joint.
    changing: bool,
    members: Vec<MemberView>,
    state: StateView,
    space: SpaceView,
    agreement: AgreementView,
    /// Leads that this node has given up because of a slow disk, since it started.
    slow_disk_handovers: u64,
    /// Certificates of this node, the first to end first; empty in answers to changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<CertificateView>,
    /// The key that signs service account tokens on this node; absent without one, and in answers to changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    signing_key: Option<SigningKeyView>,
    /// Admission webhooks that do not answer this node; absent while all do, and in answers to changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dead_webhooks: Vec<OutageView>,
    /// Scheduled backups of this node, by target; absent without any, and in answers to changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    backups: Vec<BackupView>,
}

/// The scheduled backups in one target.
#[derive(Serialize)]
struct BackupView {
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
struct OutageView {
    configuration: String,
    /// Kind of the configuration.
    kind: &'static str,
    webhook: String,
    /// The time since which this node takes it for dead, RFC 3339.
    since: String,
    /// Seconds since then.
    dead_s: u64,
    /// Calls without an answer.
    calls: u64,
    /// Writes that it is about are refused; otherwise they pass without it.
    refuses: bool,
    /// The last failure.
    reason: String,
    /// The command that leaves it out for a time.
    remedy: String,
}

/// The end of a certificate.
#[derive(Serialize)]
struct CertificateView {
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
struct SigningKeyView {
    /// Last modification of the file, RFC 3339.
    modified: String,
    /// Seconds since then; 0 where that time is to come.
    age_s: u64,
}

/// The size of all objects.
#[derive(Serialize)]
struct StateView {
    bytes: u64,
    /// `--state-quota` in bytes; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
}

/// Room on the members' disks.
#[derive(Serialize)]
struct SpaceView {
    /// Bytes that this node's store takes on its disk; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
    /// Bytes that the store may still take; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<u64>,
    /// Bytes of room below which growth is refused.
    reserve: u64,
    /// Disk pressure of this node: `none`, `tight` or `short`.
    pressure: String,
    /// Names of the members that are short of room; while there are any, growth is refused.
    short: Vec<String>,
}

/// Whether the members hold the same state, as far as this one has compared.
#[derive(Serialize)]
struct AgreementView {
    /// The newest revision at which this member agreed with a majority; 0 before the first.
    agreed: u64,
    /// Names of the members whose state differs from the majority's; all that differ from each other if no state has a
    /// majority.
    differing: Vec<String>,
    /// No state has a majority, so the wrong members cannot be told.
    split: bool,
    /// Reason of this member's quarantine, during which it serves no clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantine: Option<String>,
    divergences: u64,
    repairs: u64,
}

/// A member.
#[derive(Serialize)]
struct MemberView {
    /// Sixteen hexadecimal digits, as in the log: programs that read JSON numbers as floating point would round it.
    id: String,
    name: String,
    address: String,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feature_level_max: Option<u32>,
    /// Whether the member answers this node: `up`, `down`, or `unknown` before the first question.
    state: &'static str,
    /// Milliseconds since a member that answers heard it; absent if none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard_ms_ago: Option<u64>,
    /// The last entry of the log that it had applied then; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<u64>,
    /// Committed entries that it had not applied then, of those that this node knows to be committed; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    /// Milliseconds for which this node has had more than that, to the two seconds of a round; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_ms: Option<u64>,
    /// How long its disk took for entries of the last minute; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    syncs: Option<SyncView>,
    /// Milliseconds by which its clock is before this node's; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_skew_ms: Option<i64>,
    /// Bytes that its store may still take of its disk; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<u64>,
    /// The certificates, dead webhooks and backups of another member, as it told them within the last two seconds; absent while unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Value>,
}

/// What a member tells the others of itself, for their statuses.
#[derive(Serialize)]
struct Report {
    certificates: Vec<CertificateView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signing_key: Option<SigningKeyView>,
    dead_webhooks: Vec<OutageView>,
    backups: Vec<BackupView>,
}

/// Times until entries were durable, in microseconds.
#[derive(Serialize)]
struct SyncView {
    /// Appends.
    count: u64,
    p50_us: u64,
    p99_us: u64,
    /// For how long the oldest append that is not durable yet has been waiting.
    pending_us: u64,
}

fn sync_view(times: SyncTimes) -> SyncView {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let SyncTimes { count, p50, p99, pending } = times;
    SyncView { count, p50_us: micros(p50), p99_us: micros(p99), pending_us: micros(pending) }
}

/// The name of a member; its id where it is unknown.
fn name(status: &Status, id: NodeId) -> String {
    let member = status.members.iter().find(|member| member.peer.id == id);
    member.map_or_else(|| id.to_string(), |member| member.peer.name.to_string())
}

fn space(status: &Status) -> SpaceView {
    let SpaceStatus { used, room, reserve, pressure, short } = &status.space;
    SpaceView {
        used: *used,
        room: *room,
        reserve: *reserve,
        pressure: format!("{pressure:?}").to_lowercase(),
        short: short.iter().map(|id| name(status, *id)).collect(),
    }
}

fn agreement(status: &Status) -> AgreementView {
    let AgreementStatus { agreed, differing, split, quarantine, divergences, repairs } = &status.agreement;
    AgreementView {
        agreed: agreed.0,
        differing: differing.iter().map(|id| name(status, *id)).collect(),
        split: *split,
        quarantine: quarantine.clone(),
        divergences: *divergences,
        repairs: *repairs,
    }
}

impl Report {
    /// That of `own` at this time. The order is that of [`ClusterView`].
    fn of(own: &OwnHealth) -> Report {
        Report {
            certificates: certificates(&own.expiries.all(), OffsetDateTime::now_utc()),
            signing_key: own.expiries.signing_key_modified().map(|time| signing_key(time, SystemTime::now())),
            dead_webhooks: outages(&own.outages.all(), SystemAmbient.now()),
            backups: backups(&own.backups.all(), SystemTime::now()),
        }
    }
}

/// What a node knows of itself beside its store.
#[derive(Clone)]
pub(super) struct OwnHealth {
    pub(super) expiries: Expiries,
    pub(super) outages: Outages,
    pub(super) backups: BackupHealth,
}

impl OwnHealth {
    /// The document that other members get for their statuses; empty where it cannot be made. Of many dead webhooks it has as many as fit.
    pub(super) fn report(&self) -> Bytes {
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

impl ClusterView {
    /// The same with what this node knows of itself.
    pub(super) fn with(self, own: &OwnHealth) -> ClusterView {
        let Report { certificates, signing_key, dead_webhooks, backups } = Report::of(own);
        ClusterView { certificates, signing_key, dead_webhooks, backups, ..self }
    }
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

fn backups(targets: &BTreeMap<&'static str, TargetHealth>, now: SystemTime) -> Vec<BackupView> {
    let view = |(target, health): (&&'static str, &TargetHealth)| BackupView {
        target,
        failures: health.failures,
        reason: health.reason.clone(),
        newest_s_ago: health.newest.map(|time| now.duration_since(time).unwrap_or_default().as_secs()),
        overdue_s: health.due.and_then(|due| now.duration_since(due).ok()).map(|late| late.as_secs()),
    };
    targets.iter().map(view).collect()
}

fn signing_key(modified: SystemTime, now: SystemTime) -> SigningKeyView {
    let date = OffsetDateTime::from(modified);
    SigningKeyView {
        // A year beyond 9999 has no such form.
        modified: date.format(&Rfc3339).unwrap_or_else(|_| date.to_string()),
        age_s: now.duration_since(modified).unwrap_or_default().as_secs(),
    }
}

fn certificates(expiries: &[Expiry], now: OffsetDateTime) -> Vec<CertificateView> {
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

fn member_view(member: MemberStatus, committed: u64) -> MemberView {
    MemberView {
        id: member.peer.id.to_string(),
        name: member.peer.name.to_string(),
        address: member.peer.address.to_string(),
        role: role(&member),
        matched: member.matched,
        feature_level_max: member.feature_level_max,
        state: match member.answers {
            Some(true) => "up",
            Some(false) => "down",
            None => "unknown",
        },
        heard_ms_ago: member.heard_ago.map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
        applied: member.applied,
        lag: member.applied.map(|applied| committed.saturating_sub(applied)),
        behind_ms: member.behind.map(|behind| u64::try_from(behind.as_millis()).unwrap_or(u64::MAX)),
        syncs: member.syncs.map(sync_view),
        clock_skew_ms: member.skew_ms,
        room: member.room,
        report: member.report.and_then(|report| serde_json::from_slice(&report).ok()),
    }
}

/// The view of `status` after a request that changed nothing.
pub(super) fn unchanged(status: Status, reason: String) -> ClusterView {
    ClusterView { unchanged: Some(reason), ..view(status) }
}

/// The reason why a founding changes nothing at a member that knows `members`; `None` at one that waits for a cluster.
pub(super) fn founded_before(members: &[MemberStatus]) -> Option<String> {
    if members.is_empty() {
        return None;
    }
    let mut names: Vec<&str> = members.iter().map(|member| &*member.peer.name).collect();
    names.sort_unstable();
    Some(format!("there is a cluster already: {}; nothing was done", names.join(", ")))
}

/// The reason why `added` changes nothing: it is one of `members`, at the same address.
pub(super) fn added_before(members: &[MemberStatus], added: &Peer) -> Option<String> {
    let known = members.iter().find(|known| known.peer == *added)?;
    Some(format!("{} is a member already ({})", added.name, role(known)))
}

fn role(member: &MemberStatus) -> &'static str {
    if member.voter { "voter" } else { "learner" }
}

/// The view of `status`.
pub(super) fn view(status: Status) -> ClusterView {
    let (agreement, space) = (agreement(&status), space(&status));
    let slow_disk_handovers = status.slow_disk_handovers;
    // Entries that a member has applied are committed, even where this node does not know it yet.
    let committed =
        status.members.iter().filter_map(|member| member.applied).fold(status.committed, u64::max);
    let members = status.members.into_iter().map(|member| member_view(member, committed));
    let mut members: Vec<MemberView> = members.collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    ClusterView {
        unchanged: None,
        name: status.node.name.to_string(),
        leader: status.leader.map(|leader| leader.name.to_string()),
        role: format!("{:?}", status.role).to_lowercase(),
        term: status.term,
        applied: status.applied.0,
        committed: status.committed,
        feature_level: status.feature_level,
        oldest: status.oldest.0,
        changing: status.changing || status.uncommitted,
        members,
        state: StateView { bytes: status.usage.bytes(), quota: status.usage.quota() },
        space,
        agreement,
        slow_disk_handovers,
        certificates: Vec::new(),
        signing_key: None,
        dead_webhooks: Vec::new(),
        backups: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
