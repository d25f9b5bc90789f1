//! The document that `/orch/v1/cluster` answers with.
//!
//! Owns its form, which the command line and operators' programs read, and the reasons why a change of the members changes nothing.
//! `own_health` owns the part about the node itself. It asks the member nothing: it is made of a status that the caller has read.

mod own_health;
#[cfg(test)]
mod tests;

use orch_raft::member::{AgreementStatus, MemberStatus, SpaceStatus, Status, SyncTimes};
use orch_raft::transport::{NodeId, Peer};
use serde::Serialize;
use serde_json::Value;

use self::own_health::{BackupView, CertificateView, OutageView, Report, SigningKeyView};

pub(super) use self::own_health::OwnHealth;

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

impl ClusterView {
    /// The same with what this node knows of itself.
    pub(super) fn with(self, own: &OwnHealth) -> ClusterView {
        let Report { certificates, signing_key, dead_webhooks, backups } = Report::of(own);
        ClusterView { certificates, signing_key, dead_webhooks, backups, ..self }
    }
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
