//! The cost of a plan: durations by extension point and plugin, and the plugins that did not skip.
//!
//! Owns the measuring for the metrics; no plan depends on it. Extension points are measured in every plan. Plugins are
//! measured in one plan of [`SAMPLED_EVERY`], as in the reference, because looking at the clock takes about as long as a
//! filter does. Verdicts of filters are kept from plan to plan here, so that most plans run few of them: in a
//! sampled plan each filter and each score runs once more on one node, for its duration alone.

use std::time::Duration;

use crate::stopwatch::{Started, Stopwatch};

use super::profile::{ExtensionPoint, Plugin, PluginSet};
use super::verdict::Verdict;

/// Interval of plans whose plugins are measured.
const SAMPLED_EVERY: u32 = 10;

/// How a run ended, by the reference's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of the label `status`")]
pub enum Status {
    Success,
    Unschedulable,
    UnschedulableAndUnresolvable,
    Error,
}

impl Status {
    /// The value of the label `status`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Success => "Success",
            Status::Unschedulable => "Unschedulable",
            Status::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Status::Error => "Error",
        }
    }

    /// The status of a filter that gave `verdict`.
    pub(super) fn of(verdict: Verdict) -> Status {
        match verdict {
            verdict if verdict.fits() => Status::Success,
            verdict if verdict.is_resolvable() => Status::Unschedulable,
            _ => Status::UnschedulableAndUnresolvable,
        }
    }
}

/// A duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The extension point.
    pub point: ExtensionPoint,
    /// The plugin; `None` for all plugins of the extension point together.
    pub plugin: Option<Plugin>,
    /// How it ended.
    pub status: Status,
    /// How long it took.
    pub took: Duration,
}

/// Durations of the parts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Durations, in the order in which they ended.
    pub measured: Vec<Cost>,
    /// The plugins that had something to do at an extension point.
    pub evaluated: Vec<(ExtensionPoint, PluginSet)>,
}

/// Measures plans.
#[derive(Debug, Default)]
pub(super) struct Meter {
    stopwatch: Stopwatch,
    plans: u32,
    lap: Option<Started>,
    costs: Costs,
}

impl Meter {
    /// Measures with `stopwatch` from now on.
    pub(super) fn set(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = stopwatch;
    }

    /// A plan begins.
    pub(super) fn begin(&mut self) {
        self.costs = Costs::default();
        self.plans = self.plans.wrapping_add(1);
        self.lap = self.stopwatch.start();
    }

    /// The costs since [`Meter::begin`].
    pub(super) fn take(&mut self) -> Costs {
        std::mem::take(&mut self.costs)
    }

    /// Whether this plan measures its plugins.
    pub(super) fn is_sampling(&self) -> bool {
        self.stopwatch.is_on() && self.plans % SAMPLED_EVERY == 1
    }

    /// Begins a new lap, and gives the duration of the one before.
    pub(super) fn lap(&mut self) -> Duration {
        let took = self.stopwatch.since(self.lap).unwrap_or_default();
        self.lap = self.stopwatch.start();
        took
    }

    /// The lap was that of an extension point.
    pub(super) fn point(&mut self, point: ExtensionPoint, status: Status) {
        self.point_with(point, status, Duration::ZERO);
    }

    /// The lap was that of an extension point, to which an `earlier` one belongs, too.
    pub(super) fn point_with(&mut self, point: ExtensionPoint, status: Status, earlier: Duration) {
        if self.stopwatch.is_on() {
            let took = self.lap() + earlier;
            self.costs.measured.push(Cost { point, plugin: None, status, took });
        }
    }

    /// Plugins had something to do.
    pub(super) fn evaluated(&mut self, point: ExtensionPoint, plugins: impl IntoIterator<Item = Plugin>) {
        if self.stopwatch.is_on() {
            self.costs.evaluated.push((point, plugins.into_iter().collect()));
        }
    }

    /// The beginning of a run of one plugin; `None` in plans that do not measure plugins.
    pub(super) fn start(&self) -> Option<Started> {
        if self.is_sampling() { self.stopwatch.start() } else { None }
    }

    /// A run of one plugin ended.
    pub(super) fn plugin(
        &mut self,
        point: ExtensionPoint,
        plugin: Plugin,
        status: Status,
        started: Option<Started>,
    ) {
        if let Some(took) = self.stopwatch.since(started) {
            self.costs.measured.push(Cost { point, plugin: Some(plugin), status, took });
        }
    }
}
