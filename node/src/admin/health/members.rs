//! The conditions of members: those that are down, lag, or have a slow disk or a wrong clock, and those that wait to vote.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::table::{duration, text};
use super::{Condition, Severity, micros};

/// A wall clock may be off by this much, in milliseconds: tokens and certificates allow for more, events and leases show it.
const SKEW_MS_MAX: u64 = 500;
/// 99 of 100 syncs of a disk that suits take less, in microseconds: of a busy one on a busy machine, too.
const SYNC_P99_US_MAX: u64 = 250_000;
/// An append that waits for so long has a disk that hangs, in microseconds.
const SYNC_PENDING_US_MAX: u64 = 1_000_000;
/// A member that lags for longer, in milliseconds, does not follow: a busy one catches up within a round.
const BEHIND_MS_MAX: u64 = 10_000;

/// The conditions of all members of `cluster`.
pub(super) fn members(cluster: &Value, found: &mut Vec<Condition>) {
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
    learners(&all, found);
    programs(&all, found);
}

/// Learners that have the whole log.
fn learners(all: &[&Value], found: &mut Vec<Condition>) {
    let has_caught_up =
        |member: &&&Value| member["role"] == "learner" && member["state"] == "up" && member["lag"] == 0;
    for learner in all.iter().filter(has_caught_up) {
        let name = text(&learner["name"]);
        found.push(Condition {
            severity: Severity::Warning,
            name: "LearnerWaits",
            message: format!("{name} has the whole log and does not vote: it is a learner still"),
            next: format!("orch cluster promote {name}; not wanted any more: orch cluster remove {name}"),
        });
    }
}

/// Members whose programs differ.
fn programs(all: &[&Value], found: &mut Vec<Condition>) {
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
