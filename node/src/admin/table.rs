//! The view of a cluster as text for terminals, with units and an explanation of its columns.
//!
//! Values that a server does not tell, because its program is older, are shown as `unknown` or left out.

use std::fmt::Write as _;

use serde_json::Value;

use crate::certs::remedy;

/// Titles of the columns of the list of members.
const TITLES: [&str; 7] = ["NAME", "ROLE", "STATE", "LAST HEARD", "LAG", "ADDRESS", "FEATURES"];

/// Dead webhooks that are shown: the rest of the text should stay on the screen.
const WEBHOOKS_SHOWN_MAX: usize = 8;

/// The whole text.
pub(super) fn table(cluster: &Value) -> String {
    let members = || cluster["members"].as_array().into_iter().flatten();
    let voters = Voters::of(members().filter(|member| member["role"] == "voter"));
    let last = cluster["leader"].as_str();
    // A member keeps the leader of its term until it hears of another one, which without a majority it does not.
    let leader = last.filter(|_| voters.have_majority());
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(members().map(|member| row(member, leader)));
    let mut out = columns(&rows);
    let server = text(&cluster["name"]);
    let leader = match (leader, last) {
        (Some(leader), _) => format!("leader {leader}"),
        (None, Some(last)) => format!("no leader (the last was {last})"),
        (None, None) => "no leader".to_owned(),
    };
    let _ = writeln!(
        out,
        "\n{leader}, term {}, feature level {}; {server} has applied the log to entry {}",
        cluster["term"],
        text(&cluster["feature_level"]),
        cluster["applied"]
    );
    out.push_str(&voters.line());
    if cluster["changing"] == true {
        out.push_str("a change of the members is under way\n");
    }
    out.push_str(&state_line(cluster));
    out.push_str(&space_lines(&server, &cluster["space"]));
    out.push_str(&agreement_lines(&server, &cluster["agreement"]));
    out.push_str(&certificate_lines(&server, &cluster["certificates"]));
    out.push_str(&webhook_lines(&server, &cluster["dead_webhooks"]));
    out.push_str(&legend(&server));
    out
}

fn row(member: &Value, leader: Option<&str>) -> [String; 7] {
    let name = text(&member["name"]);
    let role = if leader == Some(name.as_str()) { "leader".to_owned() } else { text(&member["role"]) };
    let is_told = member["state"].is_string();
    let heard = match member["heard_ms_ago"].as_u64() {
        Some(ms) => age(ms),
        None if is_told => "never".to_owned(),
        None => "unknown".to_owned(),
    };
    let lag = match member["lag"].as_u64() {
        Some(0) => "none".to_owned(),
        Some(1) => "1 entry".to_owned(),
        Some(entries) => format!("{entries} entries"),
        None => "unknown".to_owned(),
    };
    let known = |field: &str| match &member[field] {
        Value::Null => "unknown".to_owned(),
        value => text(value),
    };
    [name, role, known("state"), heard, lag, text(&member["address"]), known("feature_level_max")]
}

/// Rows as columns that are as wide as their widest cell.
fn columns(rows: &[[String; 7]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}  ", width = width(column));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        other => other.to_string(),
    }
}

/// An age in the two largest units that it has.
fn age(ms: u64) -> String {
    match ms / 1000 {
        0 => "now".to_owned(),
        s => format!("{} ago", duration(s)),
    }
}

/// `s` seconds in the two largest units that they have.
fn duration(s: u64) -> String {
    let pair = |large: u64, unit: &str, small: u64, lesser: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{lesser}"),
    };
    match s {
        0..60 => format!("{s}s"),
        60..3600 => pair(s / 60, "m", s % 60, "s"),
        3600..86_400 => pair(s / 3600, "h", s / 60 % 60, "m"),
        _ => pair(s / 86_400, "d", s / 3600 % 24, "h"),
    }
}

/// A number of bytes in the largest binary unit that it reaches, with one decimal.
pub(super) fn bytes(count: u64) -> String {
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, size)) = units.into_iter().find(|(_, size)| count >= *size) else {
        return format!("{count} bytes");
    };
    let tenths = u128::from(count) * 10 / u128::from(size);
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        tenth => format!("{}.{tenth} {unit}", tenths / 10),
    }
}

/// The voters of a cluster, and those of them that are down.
struct Voters {
    all: usize,
    down: usize,
}

impl Voters {
    fn of<'a>(voters: impl Iterator<Item = &'a Value>) -> Voters {
        voters.fold(Voters { all: 0, down: 0 }, |so_far, voter| Voters {
            all: so_far.all + 1,
            down: so_far.down + usize::from(voter["state"] == "down"),
        })
    }

    /// Whether those that are up or unknown are a majority. True also where none is down.
    fn have_majority(&self) -> bool {
        self.down == 0 || (self.all - self.down) * 2 > self.all
    }

    /// How many are down, and whether the others are a majority; empty while all are up or unknown.
    fn line(&self) -> String {
        let Voters { all, down } = self;
        if *down == 0 {
            return String::new();
        }
        let verb = if *down == 1 { "is" } else { "are" };
        match self.have_majority() {
            true => format!("{down} of {all} voters {verb} down; the others are a majority, and serve\n"),
            false => format!("{down} of {all} voters {verb} down: NO MAJORITY, nothing can be written\n"),
        }
    }
}

/// The size of the state; empty if the server does not report it.
fn state_line(cluster: &Value) -> String {
    let state = &cluster["state"];
    match (state["bytes"].as_u64(), state["quota"].as_u64()) {
        (None, _) => String::new(),
        (Some(used), None) => format!("objects use {}, without a limit\n", bytes(used)),
        (Some(used), Some(quota)) => format!("objects use {} of {}\n", bytes(used), bytes(quota)),
    }
}

/// Room on the server's disk, and the members whose room is short.
fn space_lines(server: &str, space: &Value) -> String {
    let mut out = String::new();
    if let (Some(used), Some(room)) = (space["used"].as_u64(), space["room"].as_u64()) {
        let _ = writeln!(
            out,
            "the store of {server} takes {} of its disk and has room for {}",
            bytes(used),
            bytes(room)
        );
    }
    let short: Vec<&str> =
        space["short"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !short.is_empty() {
        let (short, reserve) =
            (short.join(", "), space["reserve"].as_u64().map_or_else(|| "unknown".to_owned(), bytes));
        let _ = writeln!(
            out,
            "LITTLE DISK SPACE: {short} (less than the reserve, here {reserve}): what would add to the state is refused"
        );
    }
    out
}

/// Divergence of the members' states and the server's quarantine; empty while the states agree.
fn agreement_lines(server: &str, agreement: &Value) -> String {
    let differing = agreement["differing"].as_array().into_iter().flatten();
    let differing: Vec<&str> = differing.filter_map(Value::as_str).collect();
    let mut out = String::new();
    if !differing.is_empty() {
        let what = match agreement["split"].as_bool() {
            Some(true) => {
                "differ, and none of their states has a majority: restore a backup, or remove who is wrong"
            }
            _ => "differ from the majority, and are repaired from it",
        };
        let _ = writeln!(out, "STATES DIFFER: {} {what}", differing.join(", "));
    }
    if let Some(reason) = agreement["quarantine"].as_str() {
        let _ = writeln!(out, "{server} is quarantined and serves no clients: {reason}");
    }
    out
}

/// The server's certificates that have to be renewed, or else the first one to end; empty if the server does not report them.
fn certificate_lines(server: &str, certificates: &Value) -> String {
    let certificates = || certificates.as_array().into_iter().flatten();
    let mut out = String::new();
    for certificate in certificates().filter(|certificate| certificate["condition"] != "valid") {
        let (used_as, expires) = (text(&certificate["use"]), text(&certificate["expires"]));
        let (verb, left) = match certificate["left_s"].as_i64() {
            Some(left_s @ ..0) => ("EXPIRED", format!("{} ago", duration(left_s.unsigned_abs()))),
            Some(left_s) => ("EXPIRES", format!("in {}", duration(left_s.unsigned_abs()))),
            None => ("EXPIRES", "unknown".to_owned()),
        };
        let remedy = remedy(&used_as);
        let _ = writeln!(out, "CERTIFICATE {verb}: {used_as} of {server}, {expires} ({left}): {remedy}");
    }
    if let (true, Some(first)) = (out.is_empty(), certificates().next()) {
        let left = first["left_s"].as_i64().unwrap_or_default();
        let _ = writeln!(
            out,
            "the first certificate of {server} to expire is {}, in {}",
            text(&first["use"]),
            duration(left.unsigned_abs())
        );
    }
    out
}

/// The admission webhooks that do not answer the server, with the command that leaves them out; empty while all answer.
fn webhook_lines(server: &str, webhooks: &Value) -> String {
    let webhooks = webhooks.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out = String::new();
    for webhook in webhooks.iter().take(WEBHOOKS_SHOWN_MAX) {
        let (name, kind, configuration) =
            (text(&webhook["webhook"]), text(&webhook["kind"]), text(&webhook["configuration"]));
        let effect = match webhook["refuses"].as_bool() {
            Some(false) => "pass without it",
            _ => "are refused",
        };
        let since = webhook["dead_s"].as_u64().map_or_else(|| "unknown".to_owned(), duration);
        let _ = writeln!(
            out,
            "WEBHOOK DEAD: {name} of {kind} {configuration} does not answer {server}, for {since}; writes that it is about {effect}: {}",
            text(&webhook["remedy"])
        );
        if let Some(reason) = webhook["reason"].as_str() {
            let _ = writeln!(out, "    {reason}");
        }
    }
    if let Some(more @ 1..) = webhooks.len().checked_sub(WEBHOOKS_SHOWN_MAX) {
        let _ = writeln!(out, "{more} more webhooks do not answer; --output json has all");
    }
    out
}

/// Meaning of the columns.
fn legend(server: &str) -> String {
    format!(
        "\nSTATE       whether the member answers {server}, the server that was asked\n\
         LAST HEARD  time since a member that answers had an answer from it\n\
         LAG         entries of the log, committed by now, that it had not applied when it was last heard\n\
         FEATURES    highest feature level of its program; the cluster uses the lowest of all\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_a_table_with_units_and_an_explanation() {
        let cluster = json!({
            "name": "b", "leader": "a", "term": 3, "applied": 41, "feature_level": 1, "changing": false,
            "members": [
                {"name": "a", "role": "voter", "address": "10.0.0.1:6444", "state": "up", "heard_ms_ago": 0, "lag": 0,
                 "feature_level_max": 2},
                {"name": "b", "role": "voter", "address": "10.0.0.2:6444", "state": "up", "heard_ms_ago": 3, "lag": 1,
                 "feature_level_max": 2},
                {"name": "long-name", "role": "voter", "address": "h:1", "state": "down", "heard_ms_ago": 200_000,
                 "lag": 1204, "feature_level_max": 1},
                {"name": "d", "role": "learner", "address": "h:2", "state": "down"},
            ],
            "state": {"bytes": 1_300_000, "quota": 4_u64 << 30},
            "space": {"used": 512, "room": 3 << 20, "reserve": 1 << 30, "short": ["a"]},
        });
        assert_eq!(
            table(&cluster),
            "NAME       ROLE     STATE  LAST HEARD  LAG           ADDRESS        FEATURES\n\
             a          leader   up     now         none          10.0.0.1:6444  2\n\
             b          voter    up     now         1 entry       10.0.0.2:6444  2\n\
             long-name  voter    down   3m20s ago   1204 entries  h:1            1\n\
             d          learner  down   never       unknown       h:2            unknown\n\
             \n\
             leader a, term 3, feature level 1; b has applied the log to entry 41\n\
             1 of 3 voters is down; the others are a majority, and serve\n\
             objects use 1.2 MiB of 4 GiB\n\
             the store of b takes 512 bytes of its disk and has room for 3 MiB\n\
             LITTLE DISK SPACE: a (less than the reserve, here 1 GiB): what would add to the state is refused\n\
             \n\
             STATE       whether the member answers b, the server that was asked\n\
             LAST HEARD  time since a member that answers had an answer from it\n\
             LAG         entries of the log, committed by now, that it had not applied when it was last heard\n\
             FEATURES    highest feature level of its program; the cluster uses the lowest of all\n"
        );
    }

    #[test]
    fn members_that_an_older_server_does_not_tell_are_unknown() {
        let cluster = json!({
            "name": "a", "leader": null, "term": 3, "applied": 4,
            "members": [{"name": "a", "role": "voter", "address": "h:1", "matched": 42}],
        });
        let table = table(&cluster);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "a     voter  unknown  unknown     unknown  h:1      unknown");
        assert_eq!(lines[3], "no leader, term 3, feature level unknown; a has applied the log to entry 4");
    }

    #[test]
    fn without_a_majority_there_is_no_leader_and_the_last_one_is_named() {
        let member = |name: &str, state: &str| json!({"name": name, "role": "voter", "state": state});
        let shown = |c: &str| {
            let members = [member("a", "up"), member("b", "down"), member("c", c)];
            table(&json!({"name": "a", "leader": "c", "term": 3, "applied": 4, "members": members}))
        };
        let gone = shown("down");
        assert!(gone.contains("\nno leader (the last was c), term 3"), "{gone}");
        assert!(gone.contains("\nc     voter  down"), "{gone}");
        let there = shown("up");
        assert!(there.contains("\nleader c, term 3") && there.contains("\nc     leader  up"), "{there}");
    }

    #[test]
    fn voters_without_a_majority_are_told() {
        let voter = |state: &str| json!({"state": state});
        let line = |states: &[&str]| {
            Voters::of(states.iter().map(|state| voter(state)).collect::<Vec<_>>().iter()).line()
        };
        assert_eq!(line(&["up", "up", "unknown"]), "");
        assert_eq!(
            line(&["up", "down", "down"]),
            "2 of 3 voters are down: NO MAJORITY, nothing can be written\n"
        );
        assert_eq!(line(&["up", "down"]), "1 of 2 voters is down: NO MAJORITY, nothing can be written\n");
    }

    #[test]
    fn certificates_that_have_to_be_renewed_are_told_with_the_command() {
        let certificate = |used_as: &str, left_s: i64, condition: &str| {
            json!({"use": used_as, "left_s": left_s,
            "expires": "2027-01-01T00:00:00Z", "condition": condition})
        };
        let lines = |certificates: &[Value]| certificate_lines("a", &json!(certificates));
        let (valid, due) =
            (certificate("serving", 8_640_000, "valid"), certificate("authority_peer", 266_400, "due"));
        let expired = certificate("peer", -90, "expired");
        assert_eq!(
            lines(&[expired, due, valid.clone()]),
            "CERTIFICATE EXPIRED: peer of a, 2027-01-01T00:00:00Z (1m30s ago): orch certs renew\n\
             CERTIFICATE EXPIRES: authority_peer of a, 2027-01-01T00:00:00Z (in 3d2h): orch certs rotate-ca\n"
        );
        assert_eq!(lines(&[valid]), "the first certificate of a to expire is serving, in 100d\n");
        assert_eq!(certificate_lines("a", &Value::Null), "", "of an older server");
    }

    #[test]
    fn dead_webhooks_are_told_with_the_command_and_a_bound() {
        let webhook = json!({
            "webhook": "w.example.com", "kind": "ValidatingWebhookConfiguration", "configuration": "policies", "dead_s": 200,
            "refuses": true, "reason": "connection refused", "remedy": "orch cluster bypass-webhook policies",
        });
        assert_eq!(
            webhook_lines("a", &json!([webhook])),
            "WEBHOOK DEAD: w.example.com of ValidatingWebhookConfiguration policies does not answer a, for 3m20s; writes that it is \
             about are refused: orch cluster bypass-webhook policies\n    connection refused\n"
        );
        let many = webhook_lines("a", &json!(vec![webhook; 11]));
        assert!(many.ends_with("\n3 more webhooks do not answer; --output json has all\n"), "{many}");
        assert_eq!(webhook_lines("a", &Value::Null), "");
    }

    #[test]
    fn ages_and_sizes_have_units() {
        let ages = [(999, "now"), (59_999, "59s"), (60_000, "1m"), (3_661_000, "1h1m"), (90_000_000, "1d1h")];
        for (ms, expected) in ages {
            assert_eq!(age(ms).trim_end_matches(" ago"), expected);
        }
        let sizes = [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (u64::MAX, "16777215.9 TiB")];
        for (count, expected) in sizes {
            assert_eq!(bytes(count), expected);
        }
    }
}
