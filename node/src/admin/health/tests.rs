//! Broken clusters: each fault is named with the next step.

use super::*;

/// A healthy cluster of three.
fn healthy() -> Value {
    let member = |name: &str| {
        json!({"name": name, "role": "voter", "address": "h:1", "state": "up", "heard_ms_ago": 0, "lag": 0, "behind_ms": 0,
            "feature_level_max": 2, "clock_skew_ms": 3, "room": 1_u64 << 40,
            "syncs": {"count": 9, "p50_us": 300, "p99_us": 2000, "pending_us": 0}})
    };
    json!({
        "name": "a", "leader": "a", "term": 3, "applied": 41, "feature_level": 2, "changing": false,
        "members": [member("a"), member("b"), member("c")],
        "state": {"bytes": 1000, "quota": 1_000_000}, "agreement": {"differing": [], "split": false},
        "space": {"short": [], "pressure": "none", "reserve": 1 << 30},
        "certificates": [{"use": "serving", "left_s": 8_640_000, "expires": "2027-01-01T00:00:00Z", "condition": "valid"}],
    })
}

#[test]
fn a_healthy_cluster_has_nothing_to_be_done() {
    let found = conditions(&healthy());
    assert_eq!((lines(&found).as_str(), exit_code(&found)), ("HEALTHY\n\n", 0));
    assert_eq!(with_conditions(healthy(), &found)["health"], "healthy");
}

/// A broken cluster: what differs from the healthy one, by JSON pointer, and what is told of it.
struct Broken {
    differs: &'static [(&'static str, &'static str)],
    code: u8,
    name: &'static str,
    message: &'static str,
    next: &'static str,
}

const fn broken(
    differs: &'static [(&'static str, &'static str)],
    (code, name): (u8, &'static str),
    message: &'static str,
    next: &'static str,
) -> Broken {
    Broken { differs, code, name, message, next }
}

const EXPIRED: &str =
    r#"{"use": "peer", "left_s": -90, "expires": "2026-01-01T00:00:00Z", "condition": "expired"}"#;
const WEBHOOK: &str = r#"[{
    "webhook": "w", "kind": "ValidatingWebhookConfiguration", "configuration": "p", "dead_s": 200, "refuses": true,
    "reason": "connection refused", "remedy": "orch cluster bypass-webhook p"}]"#;
const BACKUP: &str =
    r#"[{"target": "directory", "failures": 2, "newest_s_ago": 7200, "reason": "no space left"}]"#;
const BUCKET: &str = r#"[{"target": "s3", "failures": 2, "reason": "denied"}]"#;

/// What another member told of itself.
const REPORT: &str = r#"{"backups": [], "dead_webhooks": [],
    "certificates": [{"use": "peer", "left_s": -90, "expires": "2026-01-01T00:00:00Z", "condition": "expired"}]}"#;
const REPORT_OF_BACKUPS: &str = r#"{"backups": [{"target": "directory", "failures": 2, "newest_s_ago": 7200, "reason": "no space left"}]}"#;
const REPORT_OF_WEBHOOKS: &str = r#"{"dead_webhooks": [{
    "webhook": "w", "kind": "ValidatingWebhookConfiguration", "configuration": "p", "dead_s": 200, "refuses": true,
    "reason": "connection refused", "remedy": "orch cluster bypass-webhook p"}]}"#;

const TABLE: [Broken; 25] = [
    broken(&[("/members/1/state", "\"down\"")], (3, "MemberDown"), "b is down", "orch cluster remove b"),
    broken(
        &[("/members/1/state", "\"down\""), ("/members/2/state", "\"down\"")],
        (4, "NoMajority"),
        "2 of 3 voters are down (b, c)",
        "orch cluster recover",
    ),
    broken(&[("/leader", "null")], (4, "NoLeader"), "no member leads", "peer ports"),
    broken(&[("/changing", "true")], (3, "MembersChanging"), "under way", "orch cluster undo"),
    broken(
        &[("/members/1/behind_ms", "12000"), ("/members/1/lag", "70")],
        (3, "Lagging"),
        "b lags by 70 entries, 12s",
        "its disk",
    ),
    broken(
        &[("/members/2/role", "\"learner\"")],
        (3, "LearnerWaits"),
        "c has the whole log and does not vote",
        "orch cluster promote c",
    ),
    broken(
        &[("/members/2/syncs/p99_us", "400000")],
        (3, "DiskSlow"),
        "the disk of c is slow: one of a hundred syncs takes 400ms",
        "orch doctor",
    ),
    broken(&[("/members/2/syncs/pending_us", "4000000")], (3, "DiskHangs"), "the disk of c HANGS", "dmesg"),
    broken(
        &[("/members/1/clock_skew_ms", "-900")],
        (3, "ClockSkew"),
        "the clock of b is 900 ms behind",
        "NTP",
    ),
    broken(&[("/members/1/feature_level_max", "1")], (3, "MixedPrograms"), "b read 1", "end the upgrade"),
    broken(&[("/agreement/differing", "[\"c\"]")], (3, "StatesDiffer"), "STATES DIFFER: c", "repaired"),
    broken(
        &[("/agreement/differing", "[\"a\", \"b\"]"), ("/agreement/split", "true")],
        (4, "StatesDiffer"),
        "none of their states has a majority",
        "restore a backup",
    ),
    broken(
        &[("/agreement/quarantine", "\"it differs\"")],
        (4, "Quarantined"),
        "a is quarantined",
        "other members",
    ),
    broken(&[("/space/short", "[\"b\"]")], (4, "DiskSpaceShort"), "LITTLE DISK SPACE: b", "make room"),
    broken(&[("/space/pressure", "\"tight\"")], (3, "DiskSpaceTight"), "the disk of a", "make room"),
    broken(&[("/state/bytes", "850000")], (3, "StateNearQuota"), "85% of the quota", "--state-quota"),
    broken(&[("/state/bytes", "1000000")], (4, "StateFull"), "100% of the quota", "deletions always work"),
    broken(&[("/certificates/0", EXPIRED)], (4, "Certificate"), "EXPIRED: peer of a", "orch certs renew"),
    broken(
        &[("/certificates/0/condition", "\"due\"")],
        (3, "Certificate"),
        "CERTIFICATE EXPIRES: serving of a",
        "orch certs renew",
    ),
    broken(
        &[("/dead_webhooks", WEBHOOK)],
        (4, "WebhookDead"),
        "w of ValidatingWebhookConfiguration p does not answer a, for 3m20s; writes that it is about are refused \
         (connection refused)",
        "orch cluster bypass-webhook p",
    ),
    broken(
        &[("/backups", BACKUP)],
        (3, "BackupFails"),
        "backups of a to its directory fail (2 in a row), and the newest one is 2h old: no space left",
        "--backup-dir",
    ),
    broken(
        &[("/backups", BUCKET)],
        (3, "BackupFails"),
        "backups of a to its bucket fail (2 in a row), and there is none: denied",
        "--backup-s3",
    ),
    broken(&[("/members/1/report", REPORT)], (4, "Certificate"), "EXPIRED: peer of b", "orch certs renew"),
    broken(
        &[("/members/2/report", REPORT_OF_BACKUPS)],
        (3, "BackupFails"),
        "backups of c to its directory fail (2 in a row)",
        "--backup-dir",
    ),
    broken(
        &[("/members/2/report", REPORT_OF_WEBHOOKS)],
        (4, "WebhookDead"),
        "does not answer c",
        "orch cluster bypass-webhook p",
    ),
];

/// The healthy cluster with differences.
fn with(differs: &[(&str, &str)]) -> Value {
    let mut cluster = healthy();
    for (path, value) in differs {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = cluster.pointer_mut(parent).unwrap();
        let place = match field.parse::<usize>() {
            Ok(at) => &mut parent[at],
            Err(_) => &mut parent[field],
        };
        *place = serde_json::from_str(value).unwrap();
    }
    cluster
}

#[test]
fn each_fault_is_named_with_the_next_step() {
    for Broken { differs, code, name, message, next } in TABLE {
        let cluster = with(differs);
        let found = conditions(&cluster);
        assert_eq!(exit_code(&found), code, "{name}: {found:?}");
        let of_name = found.iter().find(|condition| condition.name == name);
        let told = of_name.unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert!(told.message.contains(message) && told.next.contains(next), "{told:?}");
        let shown = with_conditions(cluster, &found);
        assert!(shown["conditions"].as_array().unwrap().iter().any(|shown| shown["type"] == name));
    }
}

#[test]
fn a_dead_webhook_is_reported_once_and_many_have_a_bound() {
    let webhook = json!({"webhook": "w", "configuration": "p", "refuses": false, "remedy": "r"});
    let shown = |count: usize| {
        let mut cluster = healthy();
        cluster["dead_webhooks"] = json!(vec![webhook.clone(); count]);
        super::super::table::table(&cluster)
    };
    let one = shown(1);
    assert_eq!(one.to_lowercase().matches("webhook").count(), 1, "{one}");
    let many = shown(11);
    assert_eq!(many.matches("WEBHOOK DEAD").count(), 8, "{many}");
    assert!(many.contains("\n    3 more like these (WebhookDead); --output json has all\n"), "{many}");
}

#[test]
fn a_learner_that_is_filled_needs_time_alone() {
    let filled = with(&[("/members/2/role", "\"learner\""), ("/members/2/lag", "70")]);
    assert_eq!(conditions(&filled), []);
}

#[test]
fn an_older_server_makes_no_conditions_of_what_it_does_not_tell() {
    let cluster =
        json!({"name": "a", "leader": "a", "members": [{"name": "a", "role": "voter", "matched": 42}]});
    assert_eq!(conditions(&cluster), []);
}

#[test]
fn the_gravest_condition_comes_first() {
    let mut cluster = healthy();
    cluster["members"][1]["clock_skew_ms"] = json!(2000);
    cluster["space"]["short"] = json!(["c"]);
    let text = lines(&conditions(&cluster));
    let [first, second] = ["!! LITTLE DISK SPACE", " ! the clock of b"].map(|line| text.find(line).unwrap());
    assert!(first < second && text.starts_with("NOT HEALTHY:\n"), "{text}");
}

#[test]
fn durations_have_the_unit_that_they_reach() {
    let shown = [0, 999, 1500, 25_000, 2_000_000, 75_000_000].map(micros);
    assert_eq!(shown, ["0us", "999us", "1.5ms", "25ms", "2000ms", "1m15s"]);
}
