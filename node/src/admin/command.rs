//! The commands of `orch cluster`: the request of each, and the text of its response.

use std::fmt::Write as _;
use std::io::Write;

use http::Method;
use serde_json::{Value, json};

use super::access::Access;
use super::request::{RequestError, send};
use crate::cli::{ClusterCommand, Output};

/// Prefix of the cluster's paths.
const CLUSTER: &str = "/orch/v1/cluster";

/// Carries out `command` and prints the cluster's view after it.
pub fn run(command: &ClusterCommand, out: &mut impl Write) -> anyhow::Result<()> {
    let (access, output) = match command {
        ClusterCommand::Status(arguments) => (&arguments.access, arguments.output),
        ClusterCommand::Add(arguments) => (&arguments.access, Output::Text),
        ClusterCommand::Promote(arguments)
        | ClusterCommand::Remove(arguments)
        | ClusterCommand::TransferLeader(arguments) => (&arguments.access, Output::Text),
        ClusterCommand::Found(arguments) | ClusterCommand::Undo(arguments) => {
            (&arguments.access, Output::Text)
        }
    };
    let access = Access::read(&access.kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(ask(command, &access))?;
    match output {
        Output::Json => writeln!(out, "{answer:#}")?,
        Output::Text => write!(out, "{}", table(&answer))?,
    }
    Ok(())
}

async fn ask(command: &ClusterCommand, access: &Access) -> Result<Value, RequestError> {
    let (method, path, body) = match command {
        ClusterCommand::Status(_) => (Method::GET, CLUSTER.to_owned(), Value::Null),
        ClusterCommand::Add(arguments) => {
            let body = json!({"name": arguments.name, "address": arguments.address});
            (Method::POST, format!("{CLUSTER}/members"), body)
        }
        ClusterCommand::Promote(member) => {
            (Method::POST, format!("{CLUSTER}/members/{}/promote", member.name), Value::Null)
        }
        ClusterCommand::TransferLeader(member) => {
            (Method::POST, format!("{CLUSTER}/members/{}/lead", member.name), Value::Null)
        }
        ClusterCommand::Found(_) => (Method::POST, format!("{CLUSTER}/found"), Value::Null),
        ClusterCommand::Undo(_) => (Method::POST, format!("{CLUSTER}/undo"), Value::Null),
        ClusterCommand::Remove(member) => {
            (Method::DELETE, format!("{CLUSTER}/members/{}", member.name), Value::Null)
        }
    };
    send(access, method, &path, body).await
}

/// The cluster's view as text for terminals.
pub(super) fn table(cluster: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let leader = text(&cluster["leader"]);
    let mut rows = vec![[
        "NAME".to_owned(),
        "ROLE".to_owned(),
        "ADDRESS".to_owned(),
        "LOG".to_owned(),
        "FEATURES".to_owned(),
    ]];
    for member in cluster["members"].as_array().into_iter().flatten() {
        let name = text(&member["name"]);
        let role = if name == leader { "leader".to_owned() } else { text(&member["role"]) };
        let features = text(&member["feature_level_max"]);
        rows.push([name, role, text(&member["address"]), text(&member["matched"]), features]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let mut out = String::new();
    let [of_name, of_role, of_address, of_log] = widths;
    for [name, role, address, log, features] in &rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{name:<of_name$}  {role:<of_role$}  {address:<of_address$}  {log:<of_log$}  {features}"
        );
    }
    let _ = writeln!(
        out,
        "\nleader {leader}, term {}, feature level {}; {} has applied {}",
        cluster["term"],
        text(&cluster["feature_level"]),
        text(&cluster["name"]),
        cluster["applied"]
    );
    out.push_str(&state_line(cluster));
    out.push_str(&space_lines(&cluster["space"]));
    out.push_str(&agreement_lines(&cluster["agreement"]));
    out
}

/// The size of the state; empty if the server does not report it.
fn state_line(cluster: &Value) -> String {
    match (&cluster["state"]["bytes"], &cluster["state"]["quota"]) {
        (Value::Null, _) => String::new(),
        (bytes, Value::Null) => format!("objects use {bytes} bytes, without a limit\n"),
        (bytes, quota) => format!("objects use {bytes} of {quota} bytes\n"),
    }
}

/// Room on the server's disk, and the members whose room is short.
fn space_lines(space: &Value) -> String {
    let mut out = String::new();
    if let (Some(used), Some(room)) = (space["used"].as_u64(), space["room"].as_u64()) {
        out += &format!("the store takes {used} bytes of its disk and has room for {room}\n");
    }
    let short: Vec<&str> =
        space["short"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !short.is_empty() {
        let (short, reserve) = (short.join(", "), &space["reserve"]);
        out += &format!(
            "LITTLE DISK SPACE: {short} (less than the reserve, here {reserve} bytes): what would add to the state is \
             refused\n"
        );
    }
    out
}

/// Divergence of the members' states and this member's quarantine; empty while the states agree.
fn agreement_lines(agreement: &Value) -> String {
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
        out += &format!("STATES DIFFER: {} {what}\n", differing.join(", "));
    }
    if let Some(reason) = agreement["quarantine"].as_str() {
        out += &format!("this member is quarantined and serves no clients: {reason}\n");
    }
    out
}
