//! The commands: what each asks for and how the answer is shown.

use std::fmt::Write as _;
use std::io::Write;

use http::Method;
use serde_json::{Value, json};

use super::access::Access;
use super::request::{RequestError, send};
use crate::cli::{ClusterCommand, Output};

/// The cluster's paths.
const CLUSTER: &str = "/orch/v1/cluster";

/// Carries out `command` and prints the cluster as it then is.
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

/// The cluster for people.
pub(super) fn table(cluster: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let leader = text(&cluster["leader"]);
    let mut rows = vec![["NAME".to_owned(), "ROLE".to_owned(), "ADDRESS".to_owned(), "LOG".to_owned()]];
    for member in cluster["members"].as_array().into_iter().flatten() {
        let name = text(&member["name"]);
        let role = if name == leader { "leader".to_owned() } else { text(&member["role"]) };
        rows.push([name, role, text(&member["address"]), text(&member["matched"])]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    let mut out = String::new();
    for [name, role, address, log] in &rows {
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, "{name:<0$}  {role:<1$}  {address:<2$}  {log}", widths[0], widths[1], widths[2]);
    }
    let _ = writeln!(
        out,
        "\nleader {leader}, term {}; {} has applied {}",
        cluster["term"],
        text(&cluster["name"]),
        cluster["applied"]
    );
    out
}
