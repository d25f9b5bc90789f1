//! The view of a cluster as text for terminals, with units and an explanation of its columns.
//!
//! Values that a server does not tell, because its program is older, are shown as `unknown` or left out.

use std::fmt::Write as _;

use serde_json::Value;

use super::health::{conditions, lines, micros};

/// Titles of the columns of the list of members.
const TITLES: [&str; 10] =
    ["NAME", "ROLE", "STATE", "LAST HEARD", "LAG", "SYNC", "CLOCK", "DISK LEFT", "ADDRESS", "FEATURES"];

/// The whole text.
pub(super) fn table(cluster: &Value) -> String {
    let members = || cluster["members"].as_array().into_iter().flatten();
    let voters = Voters::of(members().filter(|member| member["role"] == "voter"));
    let last = cluster["leader"].as_str();
    // A member keeps the leader of its term until it hears of another one, which without a majority it does not.
    let leader = last.filter(|_| voters.have_majority());
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(members().map(|member| row(member, leader)));
    let mut out = lines(&conditions(cluster)) + &columns(&rows);
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
    out.push_str(&state_line(cluster));
    out.push_str(&space_line(&server, &cluster["space"]));
    out.push_str(&certificate_line(&server, &cluster["certificates"]));
    out.push_str(&legend(&server));
    out
}

fn row(member: &Value, leader: Option<&str>) -> [String; 10] {
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
    let lag = match member["behind_ms"].as_u64() {
        Some(behind @ 1..) if member["lag"] != 0 => format!("{lag}, {}", duration(behind / 1000)),
        _ => lag,
    };
    let syncs = &member["syncs"];
    let sync = match (syncs["p50_us"].as_u64(), syncs["p99_us"].as_u64()) {
        (Some(_), Some(_)) if syncs["count"] == 0 => "none".to_owned(),
        (Some(p50), Some(p99)) => format!("{}/{}", micros(p50), micros(p99)),
        _ => "unknown".to_owned(),
    };
    let clock =
        member["clock_skew_ms"].as_i64().map_or_else(|| "unknown".to_owned(), |ms| format!("{ms:+}ms"));
    let room = member["room"].as_u64().map_or_else(|| "unknown".to_owned(), bytes);
    let known = |field: &str| match &member[field] {
        Value::Null => "unknown".to_owned(),
        value => text(value),
    };
    let (address, level) = (text(&member["address"]), known("feature_level_max"));
    [name, role, known("state"), heard, lag, sync, clock, room, address, level]
}

/// Rows as columns that are as wide as their widest cell.
fn columns(rows: &[[String; 10]]) -> String {
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

pub(super) fn text(value: &Value) -> String {
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
pub(super) fn duration(s: u64) -> String {
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
pub(crate) fn bytes(count: u64) -> String {
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

/// Room on the server's disk.
fn space_line(server: &str, space: &Value) -> String {
    let mut out = String::new();
    if let (Some(used), Some(room)) = (space["used"].as_u64(), space["room"].as_u64()) {
        let _ = writeln!(
            out,
            "the store of {server} takes {} of its disk and has room for {}",
            bytes(used),
            bytes(room)
        );
    }
    out
}

/// The first of the server's certificates to end; empty if the server does not report them, and where one has to be renewed, which is a
/// condition.
fn certificate_line(server: &str, certificates: &Value) -> String {
    let certificates = || certificates.as_array().into_iter().flatten();
    let is_due = certificates().any(|certificate| certificate["condition"] != "valid");
    match certificates().next().filter(|_| !is_due) {
        None => String::new(),
        Some(first) => format!(
            "the first certificate of {server} to expire is {}, in {}\n",
            text(&first["use"]),
            duration(first["left_s"].as_i64().unwrap_or_default().unsigned_abs())
        ),
    }
}

/// Meaning of the columns.
fn legend(server: &str) -> String {
    format!(
        "\nSTATE       whether the member answers {server}, the server that was asked\n\
         LAST HEARD  time since a member that answers had an answer from it\n\
         LAG         entries of the log, committed by now, that it had not applied when it was last heard, and for how long\n\
         SYNC        time until its disk had written entries of the last minute: of half of them, and of 99 of 100\n\
         CLOCK       its clock, before (+) or behind (-) that of {server}\n\
         DISK LEFT   what its store may still take of its disk\n\
         FEATURES    highest feature level of its program; the cluster uses the lowest of all\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_a_table_with_units_and_an_explanation() {
        let syncs = |count: u64| json!({"count": count, "p50_us": 300, "p99_us": 2000, "pending_us": 0});
        let cluster = json!({
            "name": "b", "leader": "a", "term": 3, "applied": 41, "feature_level": 1, "changing": false,
            "members": [
                {"name": "a", "role": "voter", "address": "10.0.0.1:6444", "state": "up", "heard_ms_ago": 0, "lag": 0,
                 "feature_level_max": 2, "behind_ms": 0, "syncs": syncs(7), "clock_skew_ms": 3, "room": 3 << 20},
                {"name": "b", "role": "voter", "address": "10.0.0.2:6444", "state": "up", "heard_ms_ago": 3, "lag": 1,
                 "feature_level_max": 2, "behind_ms": 4000, "syncs": syncs(0), "clock_skew_ms": -12},
                {"name": "long-name", "role": "voter", "address": "h:1", "state": "down", "heard_ms_ago": 200_000,
                 "lag": 1204, "behind_ms": 182_000, "feature_level_max": 2},
            ],
            "state": {"bytes": 1_300_000, "quota": 4_u64 << 30},
            "space": {"used": 512, "room": 3 << 20, "reserve": 1 << 30, "short": ["a"]},
        });
        assert_eq!(
            table(&cluster).split("\nSTATE ").next().unwrap(),
            "NOT HEALTHY:\n\
             !! LITTLE DISK SPACE: a (less than the reserve, here 1 GiB): what would add to the state is refused\n     \
             -> make room on that disk, or raise --disk-quota; deletions work\n \
             ! long-name is down, last heard 3m20s ago (peers reach it at h:1)\n     \
             -> look at its process, its log and its network; gone for good: orch cluster remove long-name\n\
             \n\
             NAME       ROLE    STATE  LAST HEARD  LAG                 SYNC         CLOCK    DISK LEFT  ADDRESS        FEATURES\n\
             a          leader  up     now         none                300us/2.0ms  +3ms     3 MiB      10.0.0.1:6444  2\n\
             b          voter   up     now         1 entry, 4s         none         -12ms    unknown    10.0.0.2:6444  2\n\
             long-name  voter   down   3m20s ago   1204 entries, 3m2s  unknown      unknown  unknown    h:1            2\n\
             \n\
             leader a, term 3, feature level 1; b has applied the log to entry 41\n\
             objects use 1.2 MiB of 4 GiB\n\
             the store of b takes 512 bytes of its disk and has room for 3 MiB\n"
        );
        assert!(table(&cluster).contains("\nSYNC        time until its disk"));
    }

    #[test]
    fn members_that_an_older_server_does_not_tell_are_unknown() {
        let cluster = json!({
            "name": "a", "leader": null, "term": 3, "applied": 4,
            "members": [{"name": "a", "role": "voter", "address": "h:1", "matched": 42}],
        });
        let table = table(&cluster);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[5].starts_with("a     voter  unknown  unknown     unknown  unknown"), "{lines:?}");
        assert_eq!(lines[7], "no leader, term 3, feature level unknown; a has applied the log to entry 4");
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
    fn the_first_certificate_to_expire_is_told_while_none_is_due() {
        let certificate =
            |condition: &str| json!({"use": "serving", "left_s": 8_640_000, "condition": condition});
        let line = |certificates: &[Value]| certificate_line("a", &json!(certificates));
        assert_eq!(
            line(&[certificate("valid")]),
            "the first certificate of a to expire is serving, in 100d\n"
        );
        assert_eq!(line(&[certificate("due"), certificate("valid")]), "", "a condition says so");
        assert_eq!(certificate_line("a", &Value::Null), "", "of an older server");
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
