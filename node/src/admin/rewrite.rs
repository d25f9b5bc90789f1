//! `orch encryption rewrite` of running members: starts each member's rewrite and shows its progress.
//!
//! A member that restarts meanwhile has forgotten its rewrite and not what it rewrote: it is started again.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use http::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::access::Access;
use super::request::{RequestError, send};
use crate::cli::RewriteArgs;

/// Path of a member's rewrite.
const REWRITE: &str = "/orch/v1/cluster/encryption/rewrite";
/// Between two questions: a line of progress a second, at most.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long a member may not answer once its rewrite began: a restart with a large state takes as long.
const ABSENCE_MAX: Duration = Duration::from_secs(120);

/// Rewrites the records of running members, one member after another.
pub fn rewrite_running(arguments: &RewriteArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let access = Access::of(&arguments.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for server in &access.servers {
        let member = access.with_servers(vec![server.clone()]);
        runtime.block_on(rewrite(&member, out))?;
    }
    Ok(())
}

async fn rewrite(member: &Access, out: &mut impl Write) -> anyhow::Result<()> {
    let mut view = send(member, Method::POST, REWRITE, Value::Null).await?;
    let mut shown = String::new();
    let mut answered = Instant::now();
    loop {
        let name = view["member"].as_str().unwrap_or("-");
        match view["state"].as_str() {
            Some("done") => return Ok(writeln!(out, "{name}: {}", result(&view))?),
            Some("failed") => bail!("{name}: {}", view["reason"].as_str().unwrap_or("no reason given")),
            Some("running") => {
                let line = progress(&view);
                if line != shown {
                    writeln!(out, "{name}: {line}")?;
                    shown = line;
                }
            }
            _ => writeln!(out, "{name}: it has restarted, the rewrite is started again")?,
        }
        sleep(ASK_EVERY).await;
        let method = if view["state"] == "idle" { Method::POST } else { Method::GET };
        match send(member, method, REWRITE, Value::Null).await {
            Ok(next) => (view, answered) = (next, Instant::now()),
            // The server may be restarting. The question changes nothing but the start of a rewrite that is wanted.
            Err(error) if answered.elapsed() > ABSENCE_MAX => return Err(error.into()),
            Err(
                RequestError::Unreachable(_)
                | RequestError::Gone(_)
                | RequestError::Lost { .. }
                | RequestError::Refused { .. },
            ) => {}
        }
    }
}

fn number(view: &Value, field: &str) -> u64 {
    view[field].as_u64().unwrap_or_default()
}

/// The progress of a running rewrite.
fn progress(view: &Value) -> String {
    let (examined, rewritten) = (number(view, "examined"), number(view, "rewritten"));
    match number(view, "ranges") {
        0 => {
            let estimated = number(view, "estimated").max(examined);
            format!("{examined} of about {estimated} records, {rewritten} rewritten")
        }
        ranges => format!(
            "{rewritten} rewritten, older forms dropped in {} of {ranges} ranges",
            number(view, "compacted")
        ),
    }
}

/// The result of a rewrite that went to its end.
fn result(view: &Value) -> String {
    let (examined, rewritten) = (number(view, "examined"), number(view, "rewritten"));
    let unneeded = view["unneeded"].as_array().into_iter().flatten();
    let unneeded: Vec<&str> = unneeded.filter_map(Value::as_str).collect();
    match &unneeded[..] {
        [] => format!("{rewritten} of {examined} records rewritten"),
        keys => {
            let keys = keys.join(", ");
            format!(
                "{rewritten} of {examined} records rewritten; no record needs these keys any more: {keys}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_and_result_are_lines() {
        let mut view = json!({"examined": 10, "estimated": 7, "rewritten": 3, "ranges": 0, "unneeded": []});
        assert_eq!(progress(&view), "10 of about 10 records, 3 rewritten");
        assert_eq!(result(&view), "3 of 10 records rewritten");
        (view["ranges"], view["compacted"], view["unneeded"]) =
            (4.into(), 1.into(), json!(["aesgcm:a", "kms:b:1"]));
        assert_eq!(progress(&view), "3 rewritten, older forms dropped in 1 of 4 ranges");
        let expected = "3 of 10 records rewritten; no record needs these keys any more: aesgcm:a, kms:b:1";
        assert_eq!(result(&view), expected);
    }
}
