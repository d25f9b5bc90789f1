//! The commands of `orch cluster`: the request of each, its result in words, and the cluster after it.
//!
//! A change is answered by the member that was asked, which may show it a moment later, or was itself removed. So the cluster
//! is asked, one server after another, until it shows the change; what was changed is printed before that. `--server` chooses
//! who carries out the change. The view after it may come from any server of the client configuration: the chosen one may have
//! ended by the change.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::access::Access;
use super::health::{conditions, exit_code, with_conditions};
use super::request::{RequestError, send};
use super::table::table;
use crate::cli::{AccessArgs, ClusterCommand, Output};

/// Prefix of the cluster's paths.
const CLUSTER: &str = "/orch/v1/cluster";

/// The status, for which the member that is asked asks all others.
const STATUS: &str = "/orch/v1/cluster?survey=true";

/// Longest time until a change shows: an election, and a node that loads its state after the founding.
const SHOWN_MAX: Duration = Duration::from_secs(30);
/// Longest time for founders to start.
const FOUNDERS_MAX: Duration = Duration::from_secs(20);
/// End of the refusal of a founding for which a founder is missing.
const SILENT: &str = " does not answer";
/// Moves the cursor to the beginning of an empty screen.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J\x1b[3J";
/// Between two questions whether it shows.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Carries out `command` and prints the cluster's view after it. The exit code of a status tells the health of the cluster.
pub fn run(command: &ClusterCommand, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let access = Access::of(access(command))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ClusterCommand::Status(arguments) = command else {
            carry_out(command, &access, out).await?;
            return Ok(ExitCode::SUCCESS);
        };
        match arguments.watch {
            Some(pause) => watch(&access, (arguments.output, pause), out).await,
            None => show(&access, arguments.output, out).await.map(ExitCode::from),
        }
    })
}

/// Prints the status; returns the exit code that tells the health.
async fn show(access: &Access, output: Output, out: &mut impl Write) -> anyhow::Result<u8> {
    let answer = send(access, Method::GET, STATUS, Value::Null).await?;
    let found = conditions(&answer);
    match output {
        Output::Json => writeln!(out, "{:#}", with_conditions(answer, &found))?,
        Output::Text => write!(out, "{}", table(&answer))?,
    }
    Ok(exit_code(&found))
}

/// Prints the status again and again, until it is interrupted. A cluster that does not answer is what one watches for: it is told, and asked
/// again.
async fn watch(
    access: &Access,
    (output, pause): (Output, Duration),
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    loop {
        let mut text = Vec::new();
        if let Err(error) = show(access, output, &mut text).await {
            match output {
                Output::Json => {
                    writeln!(text, "{:#}", json!({"health": "unknown", "error": error.to_string()}))?
                }
                Output::Text => writeln!(text, "NO ANSWER: {error}")?,
            }
        }
        if output == Output::Text {
            out.write_all(CLEAR_SCREEN.as_bytes())?;
        }
        out.write_all(&text)?;
        out.flush()?;
        sleep(pause).await;
    }
}

fn access(command: &ClusterCommand) -> &AccessArgs {
    match command {
        ClusterCommand::Status(arguments) => &arguments.access,
        ClusterCommand::Add(arguments) => &arguments.access,
        ClusterCommand::Promote(arguments)
        | ClusterCommand::Remove(arguments)
        | ClusterCommand::TransferLeader(arguments) => &arguments.access,
        ClusterCommand::Found(arguments) | ClusterCommand::Undo(arguments) => &arguments.access,
    }
}

/// Carries out `command` at the servers of `access`.
pub(super) async fn carry_out(
    command: &ClusterCommand,
    access: &Access,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let (method, path, body) = request(command);
    let answer = match command {
        ClusterCommand::Found(_) => found(access, &path, out).await?,
        _ => match send(access, method, &path, body).await {
            Err(error) => removed(command, access, error).await?,
            Ok(answer) => answer,
        },
    };
    if let Some(reason) = unchanged(&answer) {
        return Ok(write!(out, "{reason}\n\n{}", table(&answer))?);
    }
    writeln!(out, "{}\n", result(command, &answer))?;
    out.flush()?;
    if let ClusterCommand::Found(_) = command {
        wait_for_all(access).await;
    }
    match after(command, access, answer).await {
        Ok(view) if is_shown(command, &view) => write!(out, "{}", table(&view))?,
        Ok(view) => {
            let server = view["name"].as_str().unwrap_or("the server");
            write!(
                out,
                "{}\n{server} does not show the change yet: look again with `orch cluster status`\n",
                table(&view)
            )?;
        }
        Err(error) => {
            writeln!(out, "the members cannot be shown: {error}\nname another server with --server")?
        }
    }
    Ok(())
}

/// The view of a cluster that shows a removal whose answer was lost: the member that was asked ends once it is removed, and may be the
/// removed one. The others are asked until one shows it.
///
/// # Errors
/// `error`, where it has another cause, or the removal does not show.
async fn removed(
    command: &ClusterCommand,
    access: &Access,
    error: RequestError,
) -> Result<Value, RequestError> {
    let (ClusterCommand::Remove(_), RequestError::Lost { .. }) = (command, &error) else { return Err(error) };
    match after(command, access, Value::Null).await {
        Ok(view) if is_shown(command, &view) => Ok(view),
        _ => Err(error),
    }
}

/// Waits until every known server answers a status after the founding: each has to open its API first, and the next command should not
/// fail meanwhile. One that does not in time is the next command's to tell.
async fn wait_for_all(access: &Access) {
    let deadline = Instant::now() + SHOWN_MAX;
    for server in access.all_servers() {
        let one = access.with_servers(vec![server]);
        while send(&one, Method::GET, STATUS, Value::Null).await.is_err() && Instant::now() < deadline {
            sleep(ASK_EVERY).await;
        }
    }
}

/// Founds the cluster. Founders that do not answer yet are waited for: they may be starting, and nothing is changed by an
/// attempt without one of them.
async fn found(access: &Access, path: &str, out: &mut impl Write) -> anyhow::Result<Value> {
    let deadline = Instant::now() + FOUNDERS_MAX;
    let mut is_told = false;
    loop {
        let error = match send(access, Method::POST, path, Value::Null).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let may_start = match &error {
            RequestError::Unreachable(_) => true,
            RequestError::Refused { message, .. } => message.ends_with(SILENT),
            RequestError::Lost { .. } | RequestError::Gone(_) => false,
        };
        if !may_start || Instant::now() > deadline {
            return Err(error.into());
        }
        if !is_told {
            writeln!(out, "waiting for all founders: {error}")?;
            is_told = true;
        }
        sleep(ASK_EVERY * 5).await;
    }
}

fn request(command: &ClusterCommand) -> (Method, String, Value) {
    match command {
        ClusterCommand::Status(_) => (Method::GET, STATUS.to_owned(), Value::Null),
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
    }
}

/// The reason why a request changed nothing, where it was granted and did not: the cluster is as it was asked for.
fn unchanged(answer: &Value) -> Option<&str> {
    answer["unchanged"].as_str()
}

/// A change that a server has carried out, in words.
pub(super) fn result(command: &ClusterCommand, answer: &Value) -> String {
    match command {
        ClusterCommand::Status(_) => String::new(),
        ClusterCommand::Found(_) => {
            let members = answer["members"].as_array().into_iter().flatten();
            let names: Vec<&str> = members.filter_map(|member| member["name"].as_str()).collect();
            format!("founded the cluster of {}", names.join(", "))
        }
        ClusterCommand::Add(arguments) => {
            let members = answer["members"].as_array();
            let some = members.and_then(|members| members.iter().find(|member| member["role"] == "voter"));
            let join = some.and_then(|member| member["address"].as_str()).unwrap_or("HOST:PORT");
            let (name, address) = (&arguments.name, &arguments.address);
            format!(
                "added {name}, without a vote\n\
                 next: orch serve --name {name} --join {join} --peer-address {address} --certs-dir DIR\n\
                 then: orch cluster promote {name}      (once it is up and has no lag)"
            )
        }
        ClusterCommand::Promote(member) => format!("{} has a vote", member.name),
        ClusterCommand::Remove(member) => format!("removed {}", member.name),
        ClusterCommand::TransferLeader(member) => format!("the lead goes to {}", member.name),
        ClusterCommand::Undo(_) => "the change of the voters is taken back".to_owned(),
    }
}

/// Whether `view` shows the cluster after `command`.
pub(super) fn is_shown(command: &ClusterCommand, view: &Value) -> bool {
    let members = view["members"].as_array().into_iter().flatten();
    let role_of =
        |name: &str| members.clone().find(|member| member["name"] == name).map(|member| &member["role"]);
    let (is_settled, leader) = (view["changing"] == false, &view["leader"]);
    match command {
        ClusterCommand::Status(_) => true,
        ClusterCommand::Found(_) => leader.is_string(),
        ClusterCommand::Add(arguments) => is_settled && role_of(&arguments.name).is_some(),
        ClusterCommand::Promote(member) => {
            is_settled && role_of(&member.name).is_some_and(|role| role == "voter")
        }
        // A removed member tells of a cluster that does not answer it any more.
        ClusterCommand::Remove(member) => {
            is_settled && role_of(&member.name).is_none() && view["name"] != member.name.as_str()
        }
        ClusterCommand::TransferLeader(member) => leader == member.name.as_str(),
        ClusterCommand::Undo(_) => is_settled,
    }
}

/// The cluster's view once it shows the change, or the last one before the time is over. `answer`: that of the server which
/// carried out the change. After a founding it does not count, because that server may not serve `status` yet.
async fn after(command: &ClusterCommand, access: &Access, answer: Value) -> Result<Value, RequestError> {
    let mut last = match command {
        ClusterCommand::Found(_) => Value::Null,
        _ => answer,
    };
    let deadline = Instant::now() + SHOWN_MAX;
    let mut servers = access.all_servers();
    loop {
        if last.is_object() && is_shown(command, &last) {
            return Ok(last);
        }
        // A removed member shows itself until it ends: the others are asked first.
        if let ClusterCommand::Remove(member) = command
            && last["name"] == member.name.as_str()
        {
            servers.rotate_left(1);
        }
        let asked = access.with_servers(servers.clone());
        let error = match send(&asked, Method::GET, STATUS, Value::Null).await {
            Ok(view) => {
                last = view;
                None
            }
            Err(error) => Some(error),
        };
        let is_late = Instant::now() > deadline;
        match error {
            // The only server that is known is the removed member, and has ended.
            Some(error @ RequestError::Unreachable(_))
                if matches!(command, ClusterCommand::Remove(_)) && servers.len() < 2 =>
            {
                return Err(error);
            }
            Some(error) if is_late && !last.is_object() => return Err(error),
            _ if is_late => return Ok(last),
            _ => sleep(ASK_EVERY).await,
        }
    }
}
