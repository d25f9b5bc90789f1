//! `orch cluster bypass-webhook`: sets the time until which the webhooks of a configuration are not asked.
//!
//! Owns the one annotation that it writes, of the configurations of both kinds that have the name. Where the server keeps to it
//! is `orch_api::admission`'s. It may be given again: the same write twice is one.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use orch_api::admission::{BYPASS_UNTIL, LOCKOUT_GROUP};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::access::Access;
use super::session::{Call, MERGE_PATCH, OnConflict, Session};
use crate::cli::BypassArgs;

/// The group of the configurations, without its domain.
const GROUP: &str = "admissionregistration.";
/// Their resources.
const RESOURCES: [&str; 2] = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];

/// Bypasses the webhooks of the configurations that `arguments` name, from `now` on.
///
/// # Errors
/// There is none of that name, or it could not be written.
pub fn bypass_webhook(
    arguments: &BypassArgs,
    now: OffsetDateTime,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let access = Access::of(&arguments.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry_out(&access, arguments, now, out))
}

async fn carry_out(
    access: &Access,
    arguments: &BypassArgs,
    now: OffsetDateTime,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let (name, span) = (&arguments.configuration, arguments.span);
    let mut session = Session::new(access);
    let groups = session.ask(&call(Method::GET, "/apis".to_owned(), Bytes::new())).await?;
    let domain = domain(&groups.body).context("the server has no admission webhooks")?;
    let until = (!span.is_zero()).then(|| (now + span).format(&Rfc3339)).transpose()?;
    let patch = Bytes::from(patch(&domain, until.as_deref()).to_string());
    let mut written = 0;
    for resource in RESOURCES {
        let path = format!("/apis/{GROUP}{domain}/v1/{resource}/{name}");
        let reply = session.ask(&call(Method::PATCH, path, patch.clone())).await?;
        match reply.status {
            StatusCode::NOT_FOUND => {}
            status if status.is_success() => {
                written += 1;
                writeln!(out, "{}", result(resource, name, until.as_deref(), span))?;
            }
            _ => bail!("{} {name}: {}", resource, reply.message()),
        }
    }
    if written == 0 {
        bail!("there is no configuration of webhooks called {name:?}");
    }
    Ok(())
}

/// The patch of a configuration, where built-in groups end in `domain`; without a time it ends a bypass.
fn patch(domain: &str, until: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {format!("{LOCKOUT_GROUP}.{domain}/{BYPASS_UNTIL}"): until}}})
}

fn result(resource: &str, name: &str, until: Option<&str>, span: Duration) -> String {
    match until {
        Some(until) => format!(
            "{resource} {name}: its webhooks are not asked until {until} ({} s); --for 0s ends that",
            span.as_secs()
        ),
        None => format!("{resource} {name}: its webhooks are asked"),
    }
}

/// The domain of the built-in groups in the answer of `/apis`.
fn domain(groups: &Value) -> Option<String> {
    let names = groups["groups"].as_array()?.iter().filter_map(|group| group["name"].as_str());
    names.filter_map(|name| name.strip_prefix(GROUP)).next().map(str::to_owned)
}

fn call(method: Method, path: String, patch: Bytes) -> Call {
    let on_conflict = OnConflict::Repeat;
    Call { method, body: patch, body_type: MERGE_PATCH, on_conflict, ..Call::get(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_has_the_domain_of_the_server() {
        let groups = json!({"groups": [{"name": "apps"}, {"name": "admissionregistration.example.io"}]});
        let domain = domain(&groups).unwrap();
        let annotation = "lockout.admission.example.io/bypass-until";
        let expected = json!({"metadata": {"annotations": {annotation: "2026-01-01T00:00:00Z"}}});
        assert_eq!(patch(&domain, Some("2026-01-01T00:00:00Z")), expected);
        assert_eq!(patch(&domain, None), json!({"metadata": {"annotations": {annotation: null}}}));
        assert_eq!(super::domain(&json!({"groups": [{"name": "apps"}]})), None);
    }
}
