//! Custom kinds that mirror built-in ones, and the recorded steps of these replayed against them.
//!
//! Owns which kinds and scenarios these are and the judgement. `schema` makes the definitions, `renaming` the steps, `excused` says what
//! may differ.

mod excused;
mod renaming;
mod schema;

use std::collections::HashSet;
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use orch_proto::brand::ORCH;
use serde_json::{Map, Value, json};

use super::diff::differences;
use super::{Scenario, Selection, Users, folder, load, replay};
use crate::client::Client;

/// The group of the mirrors.
const GROUP: &str = "mirror.example.com";

/// The areas whose scenarios are about objects and not about rights, policies or webhooks, whose rules name a group.
const AREAS: [&str; 16] = [
    "apply",
    "crud",
    "delete",
    "dryrun",
    "errors",
    "events",
    "fieldvalidation",
    "metadata",
    "paging",
    "patch",
    "rv",
    "selectors",
    "subresources",
    "table",
    "types",
    "watch",
];

/// A kind that is mirrored.
struct Kind {
    name: &'static str,
    plural: &'static str,
    api_version: String,
    /// The path of its group and version.
    prefix: String,
    has_status: bool,
}

static KINDS: LazyLock<[Kind; 3]> = LazyLock::new(|| {
    let kind = |name, plural, api_version: &str, root, has_status| {
        let prefix = format!("{root}/{api_version}");
        Kind { name, plural, api_version: api_version.to_owned(), prefix, has_status }
    };
    [
        kind("ConfigMap", "configmaps", "v1", "/api", false),
        kind("Deployment", "deployments", "apps/v1", "/apis", true),
        kind("Event", "events", &format!("{}/v1", ORCH.group("events")), "/apis", false),
    ]
});

/// The outcome of a replay against the mirrors.
#[derive(Debug, Default)]
pub struct Mirrored {
    /// Steps that were answered as recorded.
    pub matched: usize,
    /// Steps that differ and are excused.
    pub excused: usize,
    /// Steps that differ without an excuse, and excuses of steps that do not differ.
    pub faults: Vec<String>,
}

/// Creates the definitions that mirror built-in kinds, and waits until they are served.
pub async fn define(client: &Client) -> Result<()> {
    for kind in KINDS.iter() {
        let document = client.get(&format!("/openapi/v3{}", kind.prefix)).await?.success()?;
        let definitions = format!("/apis/{}/v1/customresourcedefinitions", ORCH.group("apiextensions"));
        client.post(&definitions, &schema::definition(kind, &document)).await?.success()?;
        let listed = client.get(&format!("/apis/{GROUP}/v1/{}", kind.plural)).await?;
        ensure!(listed.status == 200, "{} are not served: {}", kind.plural, listed.status);
    }
    Ok(())
}

/// Replays the recorded steps of the mirrored kinds against their mirrors.
pub async fn replay_mirrored(users: &Users) -> Result<Mirrored> {
    let areas = AREAS.map(str::to_owned).to_vec();
    let scenarios = load(&folder(), &Selection { areas, ..Selection::default() })?;
    let mut outcome = Mirrored::default();
    for scenario in &scenarios {
        let is_meant =
            |step: &Map<String, Value>| path(step).is_some_and(|path| renaming::kind_of(path).is_some());
        if scenario.steps.iter().any(is_meant) {
            replay_one(scenario, users, &mut outcome).await?;
        }
    }
    Ok(outcome)
}

/// Replays those steps of a scenario that are of mirrored kinds, and those that prepare them.
async fn replay_one(scenario: &Scenario, users: &Users, outcome: &mut Mirrored) -> Result<()> {
    let mut run = replay::Run::new(users);
    let name = format!("{}/{}", scenario.area, scenario.name);
    let mut opened = HashSet::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let of = |verb: &str| step.get(verb).and_then(Value::as_str);
        if !is_replayed(step) || of("collect").is_some_and(|watch| !opened.contains(watch)) {
            continue;
        }
        opened.extend(of("watch"));
        let mirrored = mirrored(step)?;
        let got = match run.step(&mirrored).await {
            Ok(answer) => answer,
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        let Some(want) = mirrored.get("expect") else { continue };
        let want = excused::without_shape(&run.expected(want));
        let found = differences(&want, &excused::without_shape(&got));
        let title = format!("{name} step {number}: {}", replay::title(step));
        let is_failure = got["status"].as_u64().unwrap_or_default() >= 500 || got.get("error").is_some();
        match (found.is_empty(), excused::reason(&name, number)) {
            (true, None) => outcome.matched += 1,
            (false, Some(_)) if !is_failure => outcome.excused += 1,
            (true, Some(reason)) => outcome.faults.push(format!("{title}: excused ({reason}) and matches")),
            (false, _) => outcome.faults.push(format!("{title}\n    {}", found.join("\n    "))),
        }
    }
    Ok(())
}

/// Whether a step is of a mirrored kind, of namespaces, or no request.
fn is_replayed(step: &Map<String, Value>) -> bool {
    path(step).is_none_or(|path| {
        renaming::kind_of(path).is_some()
            || path.starts_with("/api/v1/namespaces") && path.split('/').count() < 6
    })
}

fn path(step: &Map<String, Value>) -> Option<&str> {
    step.get("do").and_then(Value::as_str).and_then(|request| request.split_once(' ')).map(|(_, path)| path)
}

/// The step with the mirror's names.
fn mirrored(step: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for (name, value) in step {
        let value = match name.as_str() {
            "do" => json!(renaming::request(value.as_str().context("a request is a text")?)),
            "body" | "expect" => renaming::renamed(value),
            _ => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    Ok(out)
}
