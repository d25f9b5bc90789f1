//! The conditions of a cluster that somebody has to do something about, each with the next step.
//!
//! Owns what counts as one, how grave it is, and the exit code. It reads the document that a server answers with, and asks nothing: values
//! that an older server does not tell make no condition.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::table::{bytes, duration, text};
use crate::certs::remedy;

/// A wall clock may be off by this much, in milliseconds: tokens and certificates allow for more, events and leases show it.
const SKEW_MS_MAX: u64 = 500;
/// 99 of 100 syncs of a disk that suits take less, in microseconds: of a busy one on a busy machine, too.
const SYNC_P99_US_MAX: u64 = 250_000;
/// An append that waits for so long has a disk that hangs, in microseconds.
const SYNC_PENDING_US_MAX: u64 = 1_000_000;
/// A member that lags for longer, in milliseconds, does not follow: a busy one catches up within a round.
const BEHIND_MS_MAX: u64 = 10_000;
/// Part of the quota from which on its end is near, in percent.
const STATE_PERCENT_MAX: u64 = 80;

/// Exit code of a healthy cluster.
const CODE_HEALTHY: u8 = 0;
/// Exit code of a cluster that serves, and needs something done.
const CODE_WARNING: u8 = 3;
/// Exit code of a cluster that does not serve, or not all of it.
const CODE_CRITICAL: u8 = 4;

/// How grave a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// It serves, and something has to be done.
    Warning,
    /// Clients are refused, or will be at any moment.
    Critical,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) severity: Severity,
    /// A word for programs.
    pub(super) name: &'static str,
    /// What is the matter, and where.
    pub(super) message: String,
    /// The next step.
    pub(super) next: String,
}

/// The conditions of `cluster`, the gravest first.
pub(super) fn conditions(cluster: &Value) -> Vec<Condition> {
    let mut found = Vec::new();
    let server = text(&cluster["name"]);
    members(cluster, &mut found);
    agreement(&server, &cluster["agreement"], &mut found);
    space(cluster, &mut found);
    certificates(&server, &cluster["certificates"], &mut found);
    webhooks(&server, &cluster["dead_webhooks"], &mut found);
    if cluster["changing"] == true {
        let message = "a change of the members is under way".to_owned();
        let next = "it takes seconds; if it stays, start the member that is missing, or: orch cluster undo"
            .to_owned();
        found.push(Condition { severity: Severity::Warning, name: "MembersChanging", message, next });
    }
    found.sort_by_key(|condition| std::cmp::Reverse(condition.severity));
    found
}

/// The exit code of a status with these conditions.
pub(super) fn exit_code(conditions: &[Condition]) -> u8 {
    match conditions.iter().map(|condition| condition.severity).max() {
        None => CODE_HEALTHY,
        Some(Severity::Warning) => CODE_WARNING,
        Some(Severity::Critical) => CODE_CRITICAL,
    }
}

/// Conditions of one kind that are shown, such as dead webhooks: the rest of the text should stay on the screen.
const ALIKE_SHOWN_MAX: usize = 8;

/// The verdict and the conditions, as lines.
pub(super) fn lines(conditions: &[Condition]) -> String {
    let mut out = match exit_code(conditions) {
        CODE_HEALTHY => "HEALTHY\n".to_owned(),
        CODE_WARNING => "SERVING, and something is to be done:\n".to_owned(),
        _ => "NOT HEALTHY:\n".to_owned(),
    };
    let mut rest = conditions;
    while let Some(Condition { name, .. }) = rest.first() {
        // Conditions of one kind stand side by side, but for their severity.
        let alike = rest.iter().take_while(|condition| condition.name == *name).count();
        let (alike, others) = rest.split_at(alike);
        for Condition { severity, message, next, .. } in alike.iter().take(ALIKE_SHOWN_MAX) {
            let mark = if *severity == Severity::Critical { "!!" } else { " !" };
            out += &format!("{mark} {message}\n     -> {next}\n");
        }
        if let Some(more @ 1..) = alike.len().checked_sub(ALIKE_SHOWN_MAX) {
            out += &format!("    {more} more are like these ({name}); --output json has all\n");
        }
        rest = others;
    }
    out + "\n"
}

/// The document with its conditions, for programs.
pub(super) fn with_conditions(mut cluster: Value, conditions: &[Condition]) -> Value {
    let of = |condition: &Condition| {
        let severity = if condition.severity == Severity::Critical { "critical" } else { "warning" };
        json!({"severity": severity, "type": condition.name, "message": condition.message, "next": condition.next})
    };
    cluster["conditions"] = conditions.iter().map(of).collect();
    cluster["health"] = json!(match exit_code(conditions) {
        CODE_HEALTHY => "healthy",
        CODE_WARNING => "warning",
        _ => "critical",
    });
    cluster
}

fn members(cluster: &Value, found: &mut Vec<Condition>) {
    let all: Vec<&Value> = cluster["members"].as_array().into_iter().flatten().collect();
    let voters = all.iter().filter(|member| member["role"] == "voter").count();
    let down: Vec<&&Value> = all.iter().filter(|member| member["state"] == "down").collect();
    let down_voters: Vec<String> =
        down.iter().filter(|member| member["role"] == "voter").map(|member| text(&member["name"])).collect();
    let has_majority = down_voters.is_empty() || (voters - down_voters.len()) * 2 > voters;
    if !has_majority {
        found.push(Condition {
            severity: Severity::Critical,
            name: "NoMajority",
            message: format!(
                "{} of {voters} voters are down ({}): NO MAJORITY, nothing can be written",
                down_voters.len(),
                down_voters.join(", ")
            ),
            next: "start them; if their disks are lost for good, stop the others and: orch cluster recover --data-dir DIR".to_owned(),
        });
    } else if !cluster["leader"].is_string() {
        found.push(Condition {
            severity: Severity::Critical,
            name: "NoLeader",
            message: "no member leads: nothing can be written".to_owned(),
            next: "an election takes a second; if it stays, look at the members' logs and at the peer ports between them".to_owned(),
        });
    }
    for member in &down {
        let (name, address) = (text(&member["name"]), text(&member["address"]));
        let heard = match member["heard_ms_ago"].as_u64() {
            Some(ms) => format!("last heard {} ago", duration(ms / 1000)),
            None => "not heard since the others started".to_owned(),
        };
        found.push(Condition {
            severity: if has_majority { Severity::Warning } else { Severity::Critical },
            name: "MemberDown",
            message: format!("{name} is down, {heard} (peers reach it at {address})"),
            next: format!(
                "look at its process, its log and its network; gone for good: orch cluster remove {name}"
            ),
        });
    }
    for member in all.iter().filter(|member| member["state"] != "down") {
        one_member(member, found);
    }
    let levels: BTreeSet<u64> =
        all.iter().filter_map(|member| member["feature_level_max"].as_u64()).collect();
    if let (Some(first), Some(last)) = (levels.first(), levels.last())
        && first != last
    {
        let behind =
            all.iter().filter(|member| member["feature_level_max"].as_u64().is_some_and(|max| max < *last));
        let behind: Vec<String> = behind.map(|member| text(&member["name"])).collect();
        found.push(Condition {
            severity: Severity::Warning,
            name: "MixedPrograms",
            message: format!(
                "the programs differ: some read feature level {last}, {} read {first}",
                behind.join(", ")
            ),
            next: "end the upgrade: start those members with the newest program".to_owned(),
        });
    }
}

/// The conditions of a member that answers.
fn one_member(member: &Value, found: &mut Vec<Condition>) {
    let name = text(&member["name"]);
    let mut warn = |condition: &'static str, message: String, next: &str| {
        let severity = Severity::Warning;
        found.push(Condition { severity, name: condition, message, next: next.to_owned() });
    };
    let lag = member["lag"].as_u64().unwrap_or(0);
    if let Some(behind) = member["behind_ms"].as_u64().filter(|behind| *behind > BEHIND_MS_MAX && lag > 0) {
        let message = format!("{name} lags by {lag} entries, {}", duration(behind / 1000));
        warn(
            "Lagging",
            message,
            "look at its log, at its disk (SYNC) and its processor; clients read old states there",
        );
    }
    let syncs = &member["syncs"];
    let [p99, pending] = ["p99_us", "pending_us"].map(|field| syncs[field].as_u64().unwrap_or(0));
    if pending > SYNC_PENDING_US_MAX {
        let message = format!("the disk of {name} HANGS: a sync has been waiting for {}", micros(pending));
        warn(
            "DiskHangs",
            message,
            "look at the machine's kernel log (dmesg) and its storage; restart the member elsewhere",
        );
    } else if p99 > SYNC_P99_US_MAX {
        let message =
            format!("the disk of {name} is slow: one of a hundred syncs takes {} and more", micros(p99));
        warn(
            "DiskSlow",
            message,
            "see what else writes to it (iostat -x 1); orch doctor measures it; move the data to a faster disk",
        );
    }
    let skew = member["clock_skew_ms"].as_i64().unwrap_or(0);
    if skew.unsigned_abs() > SKEW_MS_MAX {
        let (side, away) = (if skew > 0 { "ahead" } else { "behind" }, skew.unsigned_abs());
        let message = format!("the clock of {name} is {away} ms {side} of the server's");
        warn("ClockSkew", message, "have both machines' clocks kept by NTP (chronyc tracking, timedatectl)");
    }
}

/// Divergence of the members' states, and the server's quarantine.
fn agreement(server: &str, agreement: &Value, found: &mut Vec<Condition>) {
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
fn space(cluster: &Value, found: &mut Vec<Condition>) {
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
fn certificates(server: &str, certificates: &Value, found: &mut Vec<Condition>) {
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

/// Admission webhooks that do not answer the server.
fn webhooks(server: &str, webhooks: &Value, found: &mut Vec<Condition>) {
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
                "WEBHOOK DEAD: {name} of {kind} {configuration} does not answer {server}, for {since}; writes that it is about \
                 {effect}{reason}"
            ),
            next: text(&webhook["remedy"]),
        });
    }
}

/// A duration of `us` microseconds, in the unit that it reaches.
pub(super) fn micros(us: u64) -> String {
    match us {
        0..1000 => format!("{us}us"),
        1000..10_000 => format!("{}.{}ms", us / 1000, us % 1000 / 100),
        10_000..10_000_000 => format!("{}ms", us / 1000),
        _ => duration(us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_dead_webhook_is_told_once_and_many_have_a_bound() {
        let webhook = json!({"webhook": "w", "configuration": "p", "refuses": false, "remedy": "r"});
        let told = |count: usize| {
            let mut cluster = healthy();
            cluster["dead_webhooks"] = json!(vec![webhook.clone(); count]);
            super::super::table::table(&cluster)
        };
        let one = told(1);
        assert_eq!(one.to_lowercase().matches("webhook").count(), 1, "{one}");
        let many = told(11);
        assert_eq!(many.matches("WEBHOOK DEAD").count(), 8, "{many}");
        assert!(
            many.contains("\n    3 more are like these (WebhookDead); --output json has all\n"),
            "{many}"
        );
    }

    #[test]
    fn each_fault_is_named_with_the_next_step() {
        let set = |path: &str, value: Value| {
            let mut cluster = healthy();
            *cluster.pointer_mut(path).unwrap() = value;
            cluster
        };
        let add = |path: &str, field: &str, value: Value| {
            let mut cluster = healthy();
            cluster.pointer_mut(path).unwrap()[field] = value;
            cluster
        };
        let mut minority = set("/members/1/state", json!("down"));
        minority["members"][2]["state"] = json!("down");
        let expired =
            json!({"use": "peer", "left_s": -90, "expires": "2026-01-01T00:00:00Z", "condition": "expired"});
        let webhook = json!([{
            "webhook": "w", "kind": "ValidatingWebhookConfiguration", "configuration": "p", "dead_s": 200, "refuses": true,
            "reason": "connection refused", "remedy": "orch cluster bypass-webhook p",
        }]);
        let table = [
            (set("/members/1/state", json!("down")), 3, "MemberDown", "b is down", "orch cluster remove b"),
            (minority, 4, "NoMajority", "2 of 3 voters are down (b, c)", "orch cluster recover"),
            (set("/leader", Value::Null), 4, "NoLeader", "no member leads", "peer ports"),
            (set("/changing", json!(true)), 3, "MembersChanging", "under way", "orch cluster undo"),
            (
                {
                    let mut lagging = set("/members/1/behind_ms", json!(12_000));
                    lagging["members"][1]["lag"] = json!(70);
                    lagging
                },
                3,
                "Lagging",
                "b lags by 70 entries, 12s",
                "its disk",
            ),
            (
                set("/members/2/syncs/p99_us", json!(400_000)),
                3,
                "DiskSlow",
                "the disk of c is slow: one of a hundred syncs takes 400ms",
                "orch doctor",
            ),
            (
                set("/members/2/syncs/pending_us", json!(4_000_000)),
                3,
                "DiskHangs",
                "the disk of c HANGS",
                "dmesg",
            ),
            (
                set("/members/1/clock_skew_ms", json!(-900)),
                3,
                "ClockSkew",
                "the clock of b is 900 ms behind",
                "NTP",
            ),
            (
                set("/members/1/feature_level_max", json!(1)),
                3,
                "MixedPrograms",
                "b read 1",
                "end the upgrade",
            ),
            (set("/agreement/differing", json!(["c"])), 3, "StatesDiffer", "STATES DIFFER: c", "repaired"),
            (
                set("/agreement", json!({"differing": ["a", "b"], "split": true})),
                4,
                "StatesDiffer",
                "none of their states has a majority",
                "restore a backup",
            ),
            (
                add("/agreement", "quarantine", json!("it differs")),
                4,
                "Quarantined",
                "a is quarantined",
                "other members",
            ),
            (set("/space/short", json!(["b"])), 4, "DiskSpaceShort", "LITTLE DISK SPACE: b", "make room"),
            (set("/space/pressure", json!("tight")), 3, "DiskSpaceTight", "the disk of a", "make room"),
            (set("/state/bytes", json!(850_000)), 3, "StateNearQuota", "85% of the quota", "--state-quota"),
            (
                set("/state/bytes", json!(1_000_000)),
                4,
                "StateFull",
                "100% of the quota",
                "deletions always work",
            ),
            (
                set("/certificates/0", expired),
                4,
                "Certificate",
                "CERTIFICATE EXPIRED: peer of a",
                "orch certs renew",
            ),
            (
                set("/certificates/0/condition", json!("due")),
                3,
                "Certificate",
                "CERTIFICATE EXPIRES: serving of a",
                "orch certs renew",
            ),
            (
                add("", "dead_webhooks", webhook),
                4,
                "WebhookDead",
                "w of ValidatingWebhookConfiguration p does not answer a, for 3m20s; writes that it is about are refused \
                 (connection refused)",
                "orch cluster bypass-webhook p",
            ),
        ];
        for (cluster, code, name, message, next) in table {
            let found = conditions(&cluster);
            assert_eq!(exit_code(&found), code, "{name}: {found:?}");
            let of_name = found.iter().find(|condition| condition.name == name);
            let Condition { message: told, next: step, .. } =
                of_name.unwrap_or_else(|| panic!("{name}: {found:?}"));
            assert!(told.contains(message) && step.contains(next), "{name}: {told} -> {step}");
            let shown = with_conditions(cluster, &found);
            assert!(shown["conditions"].as_array().unwrap().iter().any(|shown| shown["type"] == name));
        }
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
        let [first, second] =
            ["!! LITTLE DISK SPACE", " ! the clock of b"].map(|line| text.find(line).unwrap());
        assert!(first < second && text.starts_with("NOT HEALTHY:\n"), "{text}");
    }

    #[test]
    fn durations_have_the_unit_that_they_reach() {
        let shown = [0, 999, 1500, 25_000, 2_000_000, 75_000_000].map(micros);
        assert_eq!(shown, ["0us", "999us", "1.5ms", "25ms", "2000ms", "1m15s"]);
    }
}
