//! Times of admission, under the reference's names: of each plugin, and of the steps that they form.
//!
//! Owns the handles of the series, which are made when they are first needed: a write passes some thirty plugins, and must not
//! look up a series by its labels for each. A plugin that refuses in a view that may be old is asked again and counts again.
//! The reserving phase counts as validation, as in the reference. Labels are the server's own words: plugins, four
//! operations, two steps.

use std::sync::{Arc, OnceLock};

use metrics::{Histogram, histogram};

use super::{Attributes, Operation, Plugin, resource_quota};
use crate::ambient::{Ambient, Timestamp};

/// A step of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Admit,
    Validate,
    /// Reserving, which is a part of validation in the reference.
    Reserve,
}

/// Plugins that only mutate: the time in which they validate nothing is not observed. One that is in neither list is observed in
/// both steps.
const MUTATING: [&str; 11] = [
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "ExtendedResourceToleration",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NodeRestriction",
    "PodTopologyLabels",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
];

/// Plugins that only validate.
const VALIDATING: [&str; 14] = [
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClaimStatus",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodResizeValidator",
    "PodSecurity",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Plugins that reserve, and do nothing else.
const RESERVING: [&str; 1] = [resource_quota::NAME];

const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Create, "CREATE"),
    (Operation::Update, "UPDATE"),
    (Operation::Delete, "DELETE"),
    (Operation::Connect, "CONNECT"),
];

/// By operation, and whether the write is refused.
type Series = [[OnceLock<Histogram>; 2]; OPERATIONS.len()];

/// The series of one plugin.
#[derive(Default)]
struct PluginSeries {
    /// `None` where it does nothing in the step.
    admit: Option<Box<Series>>,
    validate: Option<Box<Series>>,
    reserve: Option<Box<Series>>,
}

/// The series of a chain.
pub(super) struct Timing {
    ambient: Arc<dyn Ambient>,
    /// By place in the chain.
    plugins: Vec<PluginSeries>,
    admit: Series,
    validate: Series,
}

/// A step that is under way.
pub(super) struct Watch<'a> {
    timing: &'a Timing,
    step: Step,
    operation: Operation,
    began: Timestamp,
    /// The end of the last plugin.
    last: Timestamp,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Admit => "admit",
            Step::Validate | Step::Reserve => "validate",
        }
    }
}

impl Timing {
    /// The series of `plugins`, timed by `ambient`.
    pub(super) fn of(plugins: &[Box<dyn Plugin>], ambient: Arc<dyn Ambient>) -> Timing {
        let series = |name: &'static str| {
            // few: lists of a dozen names, when the chain is made.
            let [mutates, validates] = [MUTATING.contains(&name), VALIDATING.contains(&name)];
            // few: one name.
            let reserves = RESERVING.contains(&name);
            PluginSeries {
                admit: (!validates && !reserves).then(Box::default),
                validate: (!mutates && !reserves).then(Box::default),
                reserve: reserves.then(Box::default),
            }
        };
        let plugins = plugins.iter().map(|plugin| series(plugin.name())).collect();
        Timing { ambient, plugins, admit: Series::default(), validate: Series::default() }
    }

    /// Begins to time `step` for the write of `attributes`.
    pub(super) fn begin(&self, step: Step, attributes: &Attributes<'_>) -> Watch<'_> {
        let now = self.ambient.now();
        Watch { timing: self, step, operation: attributes.operation, began: now, last: now }
    }
}

impl Watch<'_> {
    /// Observes that the plugin `plugin` at place `at` has ruled.
    pub(super) fn observe(&mut self, (at, plugin): (usize, &dyn Plugin), is_rejected: bool) {
        let series = self.timing.plugins.get(at).and_then(|series| match self.step {
            Step::Admit => series.admit.as_deref(),
            Step::Validate => series.validate.as_deref(),
            Step::Reserve => series.reserve.as_deref(),
        });
        let Some(series) = series else { return };
        let now = self.timing.ambient.now();
        let (operation, rejected) = self.labels(is_rejected);
        let (name, step) = (plugin.name(), self.step.name());
        let make = || {
            histogram!(
                "apiserver_admission_controller_admission_duration_seconds",
                "name" => name, "operation" => operation, "rejected" => rejected, "type" => step
            )
        };
        self.handle(series, is_rejected).get_or_init(make).record(seconds(self.last, now));
        self.last = now;
    }

    /// Observes that the step has ended.
    pub(super) fn end(self, is_rejected: bool) {
        let series = match self.step {
            Step::Admit => &self.timing.admit,
            Step::Validate | Step::Reserve => &self.timing.validate,
        };
        let (operation, rejected) = self.labels(is_rejected);
        let step = self.step.name();
        let make = || {
            histogram!(
                "apiserver_admission_step_admission_duration_seconds",
                "operation" => operation, "rejected" => rejected, "type" => step
            )
        };
        let now = self.timing.ambient.now();
        self.handle(series, is_rejected).get_or_init(make).record(seconds(self.began, now));
    }

    fn handle<'s>(&self, series: &'s Series, is_rejected: bool) -> &'s OnceLock<Histogram> {
        &series[self.place()][usize::from(is_rejected)]
    }

    fn labels(&self, is_rejected: bool) -> (&'static str, &'static str) {
        (OPERATIONS[self.place()].1, if is_rejected { "true" } else { "false" })
    }

    fn place(&self) -> usize {
        // few: four operations.
        let place = OPERATIONS.iter().position(|(operation, _)| *operation == self.operation);
        place.expect("the table has every operation")
    }
}

/// Seconds from `began` to `now`; none where the clock was set back.
#[expect(clippy::cast_precision_loss, reason = "a write takes less than minutes")]
fn seconds(began: Timestamp, now: Timestamp) -> f64 {
    now.0.saturating_sub(began.0) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Chain, PluginSelection};

    #[test]
    fn lists_name_plugins_of_the_chain() {
        let chain = Chain::selected(&PluginSelection::all());
        let names: Vec<&str> = chain.names().collect();
        let unknown =
            MUTATING.iter().chain(&VALIDATING).chain(&RESERVING).filter(|name| !names.contains(name));
        assert_eq!(unknown.count(), 0);
    }
}
