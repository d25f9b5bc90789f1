//! The conditions of a cluster that somebody has to do something about, each with the next step.
//!
//! Owns what counts as one, how grave it is, and the exit code. It reads the document that a server answers with, and asks nothing: values
//! that an older server does not tell make no condition.

mod members;
mod server;

use serde_json::{Value, json};

use self::members::members;
use self::server::{agreement, backups, certificates, signing_key, space, webhooks};
use super::table::{duration, text};

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
    /// The fault, with the member or file that has it.
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
    signing_key(&server, &cluster["signing_key"], &mut found);
    webhooks(&server, &cluster["dead_webhooks"], &mut found);
    backups(&server, &cluster["backups"], &mut found);
    // The reports of the other members about themselves.
    for member in cluster["members"].as_array().into_iter().flatten() {
        let (name, report) = (text(&member["name"]), &member["report"]);
        certificates(&name, &report["certificates"], &mut found);
        signing_key(&name, &report["signing_key"], &mut found);
        webhooks(&name, &report["dead_webhooks"], &mut found);
        backups(&name, &report["backups"], &mut found);
    }
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
    // Conditions of one kind and severity stand side by side.
    for alike in conditions.chunk_by(|one, next| (one.name, one.severity) == (next.name, next.severity)) {
        let (shown, more) = alike.split_at(alike.len().min(ALIKE_SHOWN_MAX));
        for Condition { severity, message, next, .. } in shown {
            let mark = if *severity == Severity::Critical { "!!" } else { " !" };
            out += &format!("{mark} {message}\n     -> {next}\n");
        }
        if let [Condition { name, .. }, ..] = more {
            out += &format!("    {} more like these ({name}); --output json has all\n", more.len());
        }
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
mod tests;
