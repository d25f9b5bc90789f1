//! Claims with the costliest selectors that the server accepts, for the scheduler's one thread, and pods that use them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use orch_proto::brand::ORCH;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::report::status_counts;
use super::selectors::selector;
use super::stage::{Stage, TENANT};

/// Claims, and selectors of each.
const CLAIMS: usize = 8;
const SELECTORS: usize = 32;
/// Patterns of a selector that are tried first; half as many are tried where the server refuses them.
const PATTERNS_MAX: usize = 32;
/// Pods of the attacker; every other one uses all claims.
const PODS: usize = 60;
/// Time in which they wait.
const ATTACK: Duration = Duration::from_secs(40);
/// Time of the scheduler for its first lists.
const START: Duration = Duration::from_secs(2);
/// Flags of the scheduler: it is the only one.
const FLAGS: [&str; 1] = ["--leader-elect=false"];

/// Where device classes and slices are; claims are in namespaces below.
fn resource_api() -> String {
    format!("/apis/{}/v1", ORCH.group("resource"))
}

/// A cluster with a node, a device class, devices and a scheduler.
pub(super) async fn prepare() -> Result<Stage> {
    let mut stage = Stage::start(Vec::new()).await?;
    let offer = json!({"cpu": "64", "memory": "256Gi", "pods": "5000"});
    stage.make("/api/v1/nodes", json!({"metadata": {"name": "n"}, "status": {"allocatable": offer}})).await?;
    let untainted = stage.admin.merge_patch("/api/v1/nodes/n", &json!({"spec": {"taints": null}})).await?;
    untainted.success().context("cannot take the taint from the node")?;
    stage
        .make(&format!("{}/deviceclasses", resource_api()), json!({"metadata": {"name": "c"}, "spec": {}}))
        .await?;
    let devices: Vec<_> = (0..8).map(|number| json!({"name": format!("d{number}")})).collect();
    let slice = json!({
        "metadata": {"name": "s"},
        "spec": {
            "driver": "devices.example.org", "allNodes": true, "devices": devices,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        },
    });
    stage.make(&format!("{}/resourceslices", resource_api()), slice).await?;
    stage.scheduler = Some(stage.cluster.scheduler("attacked", &FLAGS)?);
    sleep(START).await;
    Ok(stage)
}

/// Makes the claims and the pods, and waits.
pub(super) async fn attack(stage: &Stage) -> Result<String> {
    let mut patterns = PATTERNS_MAX;
    for number in 0..CLAIMS {
        patterns = claim(stage, number, patterns).await?;
    }
    let path = format!("/api/v1/namespaces/{TENANT}/pods");
    let mut statuses = Vec::new();
    for number in 0..PODS {
        let used: Vec<usize> = if number % 2 == 0 { vec![number % CLAIMS] } else { (0..CLAIMS).collect() };
        statuses.push(stage.tenant.post(&path, &pod(number, &used)).await?.status);
    }
    sleep(ATTACK).await;
    Ok(format!(
        "{CLAIMS} claims of {SELECTORS} selectors with {patterns} patterns; pods: {}",
        status_counts(statuses)
    ))
}

/// Makes a claim with `patterns` in each selector, or as many as the server accepts; returns their number.
async fn claim(stage: &Stage, number: usize, patterns: usize) -> Result<usize> {
    let (mut patterns, mut refusal) = (patterns, String::new());
    while patterns > 0 {
        let selectors: Vec<_> =
            (0..SELECTORS).map(|at| selector(67 - at, patterns)).map(|made| distinct(made, number)).collect();
        let exactly = json!({"deviceClassName": "c", "selectors": selectors});
        let claim = json!({
            "metadata": {"name": format!("c{number}")},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        });
        let path = format!("{}/namespaces/{TENANT}/resourceclaims", resource_api());
        let answer = stage.tenant.with_timeout(Duration::from_secs(90)).post(&path, &claim).await?;
        if answer.status == 201 {
            return Ok(patterns);
        }
        refusal = String::from_utf8_lossy(&answer.body).into_owned();
        patterns /= 2;
    }
    bail!("the server accepts no pattern: {refusal:.400}")
}

/// The same patterns with another letter, so that no claim's are those of another.
fn distinct(mut selector: Value, number: usize) -> Value {
    let letter = ["x", "y", "z", "q", "w", "v", "u", "t"][number % 8];
    let text =
        selector["cel"]["expression"].as_str().unwrap_or_default().replace("[x", &format!("[{letter}"));
    // A selector that holds lets the following ones be asked.
    selector["cel"]["expression"] = format!("!({text})").into();
    selector
}

fn pod(number: usize, used: &[usize]) -> Value {
    let claims: Vec<_> = used
        .iter()
        .map(|claim| json!({"name": format!("c{claim}"), "resourceClaimName": format!("c{claim}")}))
        .collect();
    json!({
        "metadata": {"name": format!("p{number}")},
        "spec": {"containers": [{"name": "main", "image": "image"}], "resourceClaims": claims},
    })
}
