//! Forms of parts of the document, and broken clusters: `orch cluster status` names each fault in the document and the next step.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use orch_raft::Revision;
use orch_raft::member::{Pressure, Role, node_id};
use serde_json::json;
use time::OffsetDateTime;

use super::super::backup::TargetHealth;
use super::own_health::{backups, certificates, signing_key};
use super::*;
use crate::admin::shown;
use crate::certs::{CertificateUse, Expiry};

fn peer(name: &str, address: &str) -> Peer {
    Peer { id: node_id(name), name: name.into(), address: address.into() }
}

/// A voter of this name, healthy.
fn member(name: &str) -> MemberStatus {
    let ms = Duration::from_millis;
    MemberStatus {
        peer: peer(name, &format!("{name}.example.com:6444")),
        voter: true,
        matched: None,
        feature_level_max: Some(2),
        answers: Some(true),
        heard_ago: Some(Duration::ZERO),
        applied: Some(41),
        behind: Some(Duration::ZERO),
        syncs: Some(SyncTimes { count: 9, p50: ms(1), p99: ms(2), pending: Duration::ZERO }),
        skew_ms: Some(3),
        room: Some(1 << 40),
        report: None,
    }
}

/// A certificate that ends in so many days.
fn certificate(days: i64) -> Vec<CertificateView> {
    let now = OffsetDateTime::now_utc();
    let (not_before, not_after) =
        (now - time::Duration::days(300), now + time::Duration::days(days) + time::Duration::HOUR);
    certificates(&[Expiry { used_as: CertificateUse::Serving, not_before, not_after }], now)
}

/// The key of tokens, of so many days ago.
fn key(days: u64) -> SigningKeyView {
    let now = SystemTime::now();
    signing_key(now - Duration::from_secs(86_400 * days), now)
}

/// A webhook that does not answer, with what follows for the writes that it is about.
fn dead(refuses: bool) -> Vec<OutageView> {
    vec![OutageView {
        configuration: "policies".to_owned(),
        kind: "ValidatingWebhookConfiguration",
        webhook: "w.example.com".to_owned(),
        since: "2026-01-01T00:00:00Z".to_owned(),
        dead_s: 200,
        calls: 3,
        refuses,
        reason: "connection refused".to_owned(),
        remedy: "orch cluster bypass-webhook policies".to_owned(),
    }]
}

/// Backups in `target` with so many failures in a row, of which the next one is due since so many hours.
fn backed_up(target: &'static str, failures: u64, late_h: u64) -> Vec<BackupView> {
    let now = SystemTime::now();
    let ago = |hours: u64| now - Duration::from_secs(3600 * hours);
    let health = TargetHealth {
        failures,
        reason: if failures > 0 { "no space left".to_owned() } else { String::new() },
        newest: (target == "directory").then(|| ago(26)),
        due: Some(ago(late_h)),
    };
    backups(&BTreeMap::from([(target, health)]), now)
}

/// A cluster of three as member a, which leads, knows it.
struct Known {
    status: Status,
    own: Report,
    /// The report of b.
    told: Report,
    state: StateView,
}

impl Known {
    fn healthy() -> Known {
        let report = || Report {
            certificates: certificate(65),
            signing_key: Some(key(30)),
            dead_webhooks: Vec::new(),
            backups: backed_up("directory", 0, 0),
        };
        let space = SpaceStatus {
            used: Some(512),
            room: Some(1 << 40),
            reserve: 1 << 30,
            pressure: Pressure::None,
            short: [].into(),
        };
        let agreement = AgreementStatus {
            agreed: Revision(40),
            differing: [].into(),
            split: false,
            quarantine: None,
            divergences: 0,
            repairs: 0,
        };
        let status = Status {
            node: member("a").peer,
            role: Role::Leader,
            leader: Some(member("a").peer),
            term: 3,
            last_log: 41,
            committed: 41,
            applied: Revision(41),
            feature_level: 2,
            oldest: Revision(1),
            changing: false,
            uncommitted: false,
            members: ["a", "b", "c"].map(member).into(),
            usage: Default::default(),
            space,
            agreement,
            slow_disk_handovers: 0,
        };
        Known {
            status,
            own: report(),
            told: report(),
            state: StateView { bytes: 1000, quota: Some(1 << 20) },
        }
    }

    /// The member at this place: a, b, c.
    fn member(&mut self, at: usize) -> &mut MemberStatus {
        &mut self.status.members[at]
    }

    /// The document that member a answers with.
    fn document(mut self) -> Value {
        let told = serde_json::to_vec(&self.told).unwrap();
        let b = self.member(1);
        b.report = b.answers.filter(|answers| *answers).map(|_| told.into());
        let Report { certificates, signing_key, dead_webhooks, backups } = self.own;
        let view = ClusterView {
            certificates,
            signing_key,
            dead_webhooks,
            backups,
            state: self.state,
            ..view(self.status)
        };
        serde_json::to_value(view).unwrap()
    }
}

type Break = fn(&mut Known);

/// A way to break a cluster, the condition that shows it, the exit code, the fault, and the next step.
const TABLE: [(&str, Break, u8, &str, &str); 31] = [
    ("MemberDown", |k| is_down(k.member(1)), 3, "b is down, last heard 3m20s ago", "orch cluster remove b"),
    (
        "NoMajority",
        |k| (1..3).for_each(|at| is_down(k.member(at))),
        4,
        "2 of 3 voters are down (b, c): NO MAJORITY",
        "orch cluster recover",
    ),
    ("NoLeader", |k| k.status.leader = None, 4, "no member leads", "peer ports"),
    ("MembersChanging", |k| k.status.changing = true, 3, "is under way", "orch cluster undo"),
    ("MembersChanging", |k| k.status.uncommitted = true, 3, "is under way", "orch cluster undo"),
    (
        "Lagging",
        |k| (k.member(1).applied, k.member(1).behind) = (Some(11), Some(Duration::from_secs(12))),
        3,
        "b lags by 30 entries, 12s",
        "look at its log, at its disk",
    ),
    (
        "LearnerWaits",
        |k| k.member(2).voter = false,
        3,
        "c has the whole log and does not vote",
        "orch cluster promote c",
    ),
    (
        "DiskSlow",
        |k| syncs(k.member(2)).p99 = Duration::from_millis(400),
        3,
        "the disk of c is slow: one of a hundred syncs takes 400ms",
        "orch doctor",
    ),
    ("DiskHangs", |k| syncs(k.member(0)).pending = Duration::from_secs(4), 3, "the disk of a HANGS", "dmesg"),
    ("ClockSkew", |k| k.member(1).skew_ms = Some(-900), 3, "the clock of b is 900 ms behind", "NTP"),
    ("ClockSkew", |k| k.member(2).skew_ms = Some(700), 3, "the clock of c is 700 ms ahead", "chronyc"),
    (
        "MixedPrograms",
        |k| k.member(1).feature_level_max = Some(1),
        3,
        "some read feature level 2, b read 1",
        "end the upgrade",
    ),
    (
        "StatesDiffer",
        |k| k.status.agreement.differing = [node_id("c")].into(),
        3,
        "STATES DIFFER: c from the majority",
        "they are repaired",
    ),
    (
        "StatesDiffer",
        |k| {
            let agreement = &mut k.status.agreement;
            (agreement.differing, agreement.split) = (["a", "b", "c"].map(node_id).into(), true);
        },
        4,
        "none of their states has a majority",
        "restore a backup",
    ),
    (
        "Quarantined",
        |k| k.status.agreement.quarantine = Some("its state differs".to_owned()),
        4,
        "a is quarantined and serves no clients: its state differs",
        "clients use the other members",
    ),
    (
        "DiskSpaceShort",
        |k| k.status.space.short = [node_id("b")].into(),
        4,
        "LITTLE DISK SPACE: b (less than the reserve, here 1 GiB)",
        "make room on that disk",
    ),
    (
        "DiskSpaceTight",
        |k| k.status.space.pressure = Pressure::Tight,
        3,
        "the disk of a has little more than the reserve of 1 GiB",
        "make room on it",
    ),
    (
        "StateNearQuota",
        |k| k.state.bytes = 900_000,
        3,
        "objects use 85% of the quota of 1 MiB",
        "--state-quota",
    ),
    ("StateFull", |k| k.state.bytes = 1 << 20, 4, "objects use 100% of the quota", "deletions always work"),
    (
        "Certificate",
        |k| k.own.certificates = certificate(-2),
        4,
        "CERTIFICATE EXPIRED: serving of a",
        "orch certs renew",
    ),
    (
        "Certificate",
        |k| k.own.certificates = certificate(20),
        3,
        "CERTIFICATE EXPIRES: serving of a",
        "orch certs renew",
    ),
    (
        "Certificate",
        |k| k.told.certificates = certificate(-2),
        4,
        "CERTIFICATE EXPIRED: serving of b",
        "orch certs renew",
    ),
    (
        "SigningKeyOld",
        |k| k.told.signing_key = Some(key(500)),
        3,
        "the key by which b signs service account tokens is 500d old",
        "--service-account-signing-key-file",
    ),
    (
        "WebhookDead",
        |k| k.own.dead_webhooks = dead(true),
        4,
        "w.example.com of ValidatingWebhookConfiguration policies does not answer a, for 3m20s; writes that it is about are \
         refused (connection refused)",
        "orch cluster bypass-webhook policies",
    ),
    (
        "WebhookDead",
        |k| k.own.dead_webhooks = dead(false),
        3,
        "pass without it",
        "orch cluster bypass-webhook policies",
    ),
    (
        "WebhookDead",
        |k| k.told.dead_webhooks = dead(true),
        4,
        "does not answer b",
        "orch cluster bypass-webhook policies",
    ),
    (
        "BackupFails",
        |k| k.own.backups = backed_up("directory", 2, 1),
        3,
        "backups of a to its directory fail (2 in a row), and the newest one is 1d2h old: no space left",
        "--backup-dir",
    ),
    (
        "BackupFails",
        |k| k.own.backups = backed_up("s3", 3, 0),
        3,
        "backups of a to its bucket fail (3 in a row), and there is none",
        "--backup-s3",
    ),
    (
        "BackupFails",
        |k| k.told.backups = backed_up("directory", 2, 1),
        3,
        "backups of b to its directory fail",
        "orch snapshot save",
    ),
    (
        "BackupOverdue",
        |k| k.own.backups = backed_up("directory", 0, 3),
        3,
        "a backup of a was due 3h ago, and the newest one is 1d2h old",
        "see in its log",
    ),
    (
        "BackupOverdue",
        |k| k.told.backups = backed_up("directory", 0, 3),
        3,
        "a backup of b was due 3h ago",
        "orch snapshot save",
    ),
];

fn is_down(member: &mut MemberStatus) {
    (member.answers, member.heard_ago) = (Some(false), Some(Duration::from_secs(200)));
}

fn syncs(member: &mut MemberStatus) -> &mut SyncTimes {
    member.syncs.as_mut().unwrap()
}

#[test]
fn each_fault_that_a_node_knows_of_is_told_with_the_next_step_and_an_exit_code() {
    let (code, text, document) = shown(Known::healthy().document());
    assert_eq!((code, &document["health"]), (0, &json!("healthy")), "{text}");
    assert!(text.starts_with("HEALTHY\n"), "{text}");
    for (name, broken, expected, message, next) in TABLE {
        let mut known = Known::healthy();
        broken(&mut known);
        let (code, text, document) = shown(known.document());
        assert_eq!(code, expected, "{name} {message}: {text}");
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.contains(message));
        let at = at.unwrap_or_else(|| panic!("{name} {message}: {text}"));
        assert!(lines[at + 1].starts_with("     -> ") && lines[at + 1].contains(next), "{name}: {text}");
        let mut types = document["conditions"].as_array().unwrap().iter().map(|told| &told["type"]);
        assert!(types.any(|told| told == name), "{name}: {document:#}");
    }
}

#[test]
fn reports_of_a_member_that_is_down_are_not_told_any_more() {
    let mut known = Known::healthy();
    known.told.certificates = certificate(-2);
    is_down(known.member(1));
    let (code, text, _) = shown(known.document());
    assert!(code == 3 && text.contains("b is down") && !text.contains("CERTIFICATE EXPIRED"), "{text}");
}

#[test]
fn certificates_are_shown_with_what_is_left_of_them() {
    let now = OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000);
    let days = time::Duration::days;
    let expiry = |left: time::Duration| Expiry {
        used_as: CertificateUse::Peer,
        not_before: now - days(300),
        not_after: now + left,
    };
    let found = [-time::Duration::SECOND, days(6), days(29), days(65)].map(expiry);
    let shown = serde_json::to_value(certificates(&found, now)).unwrap();
    let conditions: Vec<_> = (0..4).map(|place| &shown[place]["condition"]).collect();
    assert_eq!(conditions, ["expired", "urgent", "due", "valid"]);
    let expected = serde_json::json!(
        {"use": "peer", "expires": "2024-10-03T23:59:59Z", "left_s": -1, "condition": "expired"}
    );
    assert_eq!(shown[0], expected);
}

#[test]
fn a_founding_of_a_running_cluster_and_an_addition_of_a_member_say_that_nothing_was_done() {
    let member = |name: &str, voter| MemberStatus { peer: peer(name, "h:1"), voter, ..member(name) };
    assert_eq!(founded_before(&[]), None, "the founders wait");
    let members = [member("c", true), member("b", false)];
    let expected = "there is a cluster already: b, c; nothing was done";
    assert_eq!(founded_before(&members).as_deref(), Some(expected));
    let already = |name: &str, address: &str| added_before(&members, &peer(name, address));
    assert_eq!(already("c", "h:1").as_deref(), Some("c is a member already (voter)"));
    assert_eq!(already("b", "h:1").as_deref(), Some("b is a member already (learner)"));
    assert_eq!(already("b", "h:2"), None, "the leader refuses it");
    assert_eq!(already("d", "h:2"), None);
}
