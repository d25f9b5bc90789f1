//! Feature gates: which there are, and which are on.
//!
//! Owns the table of the gates that `/metrics` shows, with their stages and defaults. None changes what this program does:
//! what is on by default in the reference is built in, the rest is not, and a gate that is moved is warned of. A gate that
//! it does not know is accepted, as in the reference, whose gates come and go with its versions.

use super::flags::FeatureGate;

/// How settled a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Experimental, off unless it is turned on.
    Alpha,
    /// Tried, and mostly on.
    Beta,
    /// Settled.
    Stable,
}

/// A gate with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The gate's name.
    pub name: &'static str,
    /// How settled it is.
    pub stage: Stage,
    /// Whether it is on.
    pub is_on: bool,
}

/// The gates with their defaults, in order of names.
const KNOWN: [Feature; 8] = [
    Feature { name: "AllAlpha", stage: Stage::Alpha, is_on: false },
    Feature { name: "AllBeta", stage: Stage::Beta, is_on: false },
    Feature { name: "ContextualLogging", stage: Stage::Stable, is_on: true },
    Feature { name: "DynamicResourceAllocation", stage: Stage::Stable, is_on: true },
    Feature { name: "LoggingAlphaOptions", stage: Stage::Alpha, is_on: false },
    Feature { name: "LoggingBetaOptions", stage: Stage::Beta, is_on: true },
    Feature { name: "SchedulerAsyncPreemption", stage: Stage::Beta, is_on: true },
    Feature { name: "SchedulerQueueingHints", stage: Stage::Stable, is_on: true },
];

/// The gates in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    known: Vec<Feature>,
    unknown: Vec<FeatureGate>,
}

impl Features {
    /// The gates after those of `--feature-gates`, the later of which win. The error says what is wrong with one.
    pub fn parse(texts: &[String]) -> Result<Features, String> {
        let mut features = Features { known: KNOWN.to_vec(), unknown: Vec::new() };
        let gates = super::flags::feature_gates(texts).map_err(|reason| reason.0)?;
        let stage = |gate: &FeatureGate| match gate.name.as_str() {
            "AllAlpha" => Some(Stage::Alpha),
            "AllBeta" => Some(Stage::Beta),
            _ => None,
        };
        // A stage first: a gate that is named wins over its stage, in whatever order they stand.
        for gate in &gates {
            if let Some(stage) = stage(gate) {
                for feature in features.known.iter_mut().filter(|feature| feature.stage == stage) {
                    feature.is_on = gate.is_on;
                }
            }
        }
        for gate in gates.into_iter().filter(|gate| stage(gate).is_none()) {
            match features.known.iter_mut().find(|feature| feature.name == gate.name) {
                Some(feature) => feature.is_on = gate.is_on,
                None => features.unknown.push(gate),
            }
        }
        Ok(features)
    }

    /// The gates whose state is not their default.
    pub fn moved(&self) -> impl Iterator<Item = &Feature> {
        self.known.iter().filter(|feature| !KNOWN.contains(feature))
    }

    /// The gates that this program knows.
    pub fn known(&self) -> &[Feature] {
        &self.known
    }

    /// The gates that were given and that it does not know.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(|gate| gate.name.as_str())
    }
}
