//! Recorded scenarios: the reference's responses, replayed against a server of ours.
//!
//! `scenario` reads the recordings, `replay` runs their steps, `normalize` replaces values that differ from run to run
//! by placeholders (as was done when recording), `diff` compares, `floor` keeps steps that once matched from being
//! lost. `cluster-tests/vectors/README.md` describes the format of a recording.

mod answers;
mod claims;
mod diff;
mod envelope;
mod expected;
mod floor;
pub mod mirror;
mod normalize;
mod pick;
mod replay;
mod scenario;
mod servers;
mod spelling;
mod watches;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::client::{Client, Identity};
use crate::cluster::{self, ALICE_TOKEN, Cluster};
pub use floor::Floor;
pub use scenario::{Scenario, Selection, load};

/// Differences printed for one step before the rest is only counted.
const DIFFERENCES_SHOWN_MAX: usize = 12;

/// Directory of the recordings in the source tree.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// A cluster without the loops that did not run where the scenarios were recorded, and with what `needs` names.
pub fn recorded(nodes: usize, needs: &[String]) -> cluster::Options {
    let has = |wanted: &str| needs.iter().any(|needed| needed == wanted);
    let mut loops = vec![
        // Three requests change the propagation policy of one deletion, one after the other (delete, `options`).
        "garbage-collector-controller",
        // A claim that is deleted still has its finalizer when the next request removes it (admission, `adm-protection`).
        "persistentvolume-protection-controller",
        "persistentvolumeclaim-protection-controller",
        "volumeattributesclass-protection-controller",
        "disruption-controller",
        "resourcequota-controller",
        "serviceaccount-controller",
        "root-ca-certificate-publisher-controller",
        "validatingadmissionpolicy-status-controller",
    ];
    // Scenarios of aggregation name servers on this machine.
    let mut flags = vec!["--allow-loopback-aggregation".to_owned()];
    if !has("controllers") {
        loops.push("clusterrole-aggregation-controller");
    }
    if !has("serviceaccounts") {
        flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    flags.push(format!("--controllers=*,-{}", loops.join(",-")));
    cluster::Options { flags, ..cluster::Options::nodes(nodes) }
}

/// Clients by the users that scenarios name.
pub struct Users {
    /// The administrator, in `system:masters`.
    pub admin: Client,
    /// A user in the group `devs`, without a role.
    pub alice: Client,
    /// A client without credentials.
    pub anonymous: Client,
}

impl Users {
    /// The users of `cluster`, reaching it through member `node`.
    pub fn of(cluster: &Cluster, node: usize) -> Result<Self> {
        Ok(Self {
            admin: cluster.client(node)?,
            alice: cluster.client_as(node, Identity::Token(ALICE_TOKEN.into()))?,
            anonymous: cluster.client_as(node, Identity::Anonymous)?,
        })
    }
}

/// Judged and matched steps of an area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// Steps that match.
    pub matched: usize,
    /// Steps judged.
    pub judged: usize,
}

/// Result of a replay.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Scores by area.
    pub scores: BTreeMap<String, Score>,
    /// The differences of each area, ready to print.
    pub differences: BTreeMap<String, String>,
}

impl Outcome {
    /// Sum of all areas.
    pub fn total(&self) -> Score {
        self.scores.values().fold(Score::default(), |sum, score| Score {
            matched: sum.matched + score.matched,
            judged: sum.judged + score.judged,
        })
    }

    /// The figures by area, a line each, and the total.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (area, score) in &self.scores {
            let _ = writeln!(text, "{area:18} {:4} of {}", score.matched, score.judged);
        }
        let total = self.total();
        let _ = write!(text, "{} of {} steps match", total.matched, total.judged);
        text
    }

    /// Adds the result of another replay.
    pub fn add(&mut self, other: Outcome) {
        for (area, score) in other.scores {
            let sum = self.scores.entry(area).or_default();
            sum.matched += score.matched;
            sum.judged += score.judged;
        }
        for (area, text) in other.differences {
            self.differences.entry(area).or_default().push_str(&text);
        }
    }

    fn judge(&mut self, scenario: &Scenario, step: usize, title: &str, differences: &[String]) {
        let score = self.scores.entry(scenario.area.clone()).or_default();
        score.judged += 1;
        if differences.is_empty() {
            score.matched += 1;
            return;
        }
        let text = self.differences.entry(scenario.area.clone()).or_default();
        let _ = writeln!(text, "{}/{} step {step}: {title}", scenario.area, scenario.name);
        for difference in differences.iter().take(DIFFERENCES_SHOWN_MAX) {
            let _ = writeln!(text, "    {difference}");
        }
        if differences.len() > DIFFERENCES_SHOWN_MAX {
            let _ = writeln!(text, "    ... and {} more", differences.len() - DIFFERENCES_SHOWN_MAX);
        }
    }
}

/// Replays `scenarios` in order and judges every step that has an expectation.
pub async fn replay(scenarios: &[Scenario], users: &Users) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for scenario in scenarios {
        let mut run = replay::Run::new(users);
        for (number, step) in scenario.steps.iter().enumerate() {
            let got = match run.step(step).await {
                Ok(answer) => answer,
                Err(error) => serde_json::json!({"error": format!("{error:#}")}),
            };
            if let Some(want) = step.get("expect") {
                let want = run.expected(want);
                outcome.judge(scenario, number, &replay::title(step), &diff::differences(&want, &got));
            }
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` with an address and a port in the place of those that a server allots.
    fn allotted(expected: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match expected {
            Value::String(text) if text == "<ip>" => "10.0.0.7".into(),
            Value::String(text) if text == "<nodeport>" => 30_000.into(),
            Value::Array(items) => items.iter().map(allotted).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), allotted(field))).collect()
            }
            other => other.clone(),
        }
    }

    #[test]
    fn every_recorded_answer_matches_itself() {
        let scenarios = load(&folder(), &Selection::default()).unwrap();
        for scenario in &scenarios {
            for expected in scenario.steps.iter().filter_map(|step| step.get("expect")) {
                if expected["status"] != "4xx" && expected.get("claims").is_none() {
                    let again = normalize::normalize(allotted(expected), None);
                    assert_eq!(
                        diff::differences(expected, &again),
                        [""; 0],
                        "{}/{}",
                        scenario.area,
                        scenario.name
                    );
                }
            }
        }
    }
}
