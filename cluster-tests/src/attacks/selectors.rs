//! Selectors of devices whose patterns take long to compile, in objects as large as the server reads.

use std::time::{Duration, Instant};

use anyhow::Result;
use orch_proto::brand::ORCH;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::report::status_counts;
use super::stage::{Stage, TENANT};

/// Clients that write such objects.
const ATTACKERS: usize = 4;
/// Time in which they begin another one.
const ATTACK: Duration = Duration::from_secs(20);
/// Longest wait of an attacker, longer than the server's limit of a request.
const WAIT_MAX: Duration = Duration::from_secs(90);
/// Selectors of a request, requests of a claim, and patterns of a selector: 9.9 kB of text for each selector, 1.1 MB in
/// all.
const SELECTORS: usize = 16;
const REQUESTS: usize = 7;
const PATTERNS: usize = 209;

/// Writes such templates of claims, one after the other from each attacker.
pub(super) async fn attack(stage: &Stage) -> Result<String> {
    let path = format!("/apis/{}/v1/namespaces/{TENANT}/resourceclaimtemplates", ORCH.group("resource"));
    let began = Instant::now();
    let mut attackers = JoinSet::new();
    for attacker in 0..ATTACKERS {
        let (client, path) = (stage.tenant.with_timeout(WAIT_MAX), path.clone());
        attackers.spawn(async move {
            let mut answers = Vec::new();
            while began.elapsed() < ATTACK {
                let number = attacker + ATTACKERS * answers.len();
                answers.push(client.post(&path, &template(number)).await.map_or(0, |answer| answer.status));
            }
            answers
        });
    }
    Ok(status_counts(attackers.join_all().await.into_iter().flatten()))
}

/// A template of more than a megabyte of selectors, each with some two hundred patterns.
pub fn template(number: usize) -> Value {
    let request = |of: usize| {
        let selectors: Vec<_> =
            (0..SELECTORS).map(|at| selector(number + (of * SELECTORS + at) * 7, PATTERNS)).collect();
        let exactly = json!({"deviceClassName": "c", "selectors": selectors});
        json!({"name": format!("r{of}"), "exactly": exactly})
    };
    let requests: Vec<_> = (0..REQUESTS).map(request).collect();
    json!({
        "apiVersion": format!("{}/v1", ORCH.group("resource")),
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": format!("hostile-{number}")},
        "spec": {"spec": {"devices": {"requests": requests}}},
    })
}

/// A selector of `count` patterns that match no driver and differ from those of other `first`s.
pub(super) fn selector(first: usize, count: usize) -> Value {
    let pattern = |at: usize| format!("device.driver.matches('(?i)[x\\\\W]{{{at}}}')");
    let patterns: Vec<String> = (1..=count).map(|at| pattern(at + first)).collect();
    json!({"cel": {"expression": patterns.join("||")}})
}
