//! Metrics under the reference's names, which dashboards use.
//!
//! Owns the catalog of metrics, the recorder that every part's counters, gauges and histograms go to, and the text of
//! `/metrics`. The recorder and not the exporter of the ecosystem, because series are to be hidden, disabled, relabelled
//! and reset at run time, which that one cannot.
//!
//! - [`catalog`](self::catalog): names, types, stability, buckets;
//! - [`policy`](self::policy): which metrics are shown, and which values labels may have;
//! - [`recorder`](self::recorder) and [`cell`](self::cell): the series and their values;
//! - The series of the process come from [`orch_serving::process`], read from the kernel when somebody asks.
//!
//! Invariant: a family has at most [`SERIES_MAX`](recorder::SERIES_MAX) series, whatever labels come.

mod catalog;
mod cell;
mod policy;
mod recorder;
pub mod resources;

use std::fmt::Write;
use std::sync::Arc;

use orch_proto::Brand;
use orch_proto::brand::KUBERNETES;
pub use policy::Policy;
use recorder::Recorder;

use crate::config::{Features, Stage};
use crate::version;

/// The series of the reference's runtime that public dashboards show.
const TASKS: &str = "go_goroutines";

/// Another recorder of metrics is installed in the process.
#[derive(Debug, thiserror::Error)]
#[error("another recorder of metrics is installed already")]
pub struct InstallError;

/// The metrics of the process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    brand: &'static Brand,
    recorder: Arc<Recorder>,
}

impl Metrics {
    /// Metrics with every series of the catalog that is there from the start.
    pub fn new(policy: Policy, features: &Features, brand: &'static Brand) -> Metrics {
        let recorder = Arc::new(Recorder::new(policy));
        let metrics = Metrics { brand, recorder };
        metrics.recorder.fill();
        metrics.describe_build(features);
        metrics
    }

    /// Makes this the recorder of the process: all that its parts count from now on is here.
    pub fn install(&self) -> Result<(), InstallError> {
        metrics::set_global_recorder(Arc::clone(&self.recorder)).map_err(|_| InstallError)
    }

    /// Counts what `work` counts here, in a test that must not change the recorder of the process.
    #[cfg(test)]
    pub(crate) fn count_into<R>(&self, work: impl FnOnce() -> R) -> R {
        metrics::with_local_recorder(&*self.recorder, work)
    }

    /// The name of every metric of the catalog under this brand.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<String> {
        let full = |name: &str| match name.starts_with('_') {
            true => format!("{}{name}", self.brand.name),
            false => name.to_owned(),
        };
        catalog::CATALOG.iter().map(|definition| full(definition.name)).collect()
    }

    /// The text of `/metrics`.
    pub fn render(&self) -> String {
        let mut text = String::new();
        self.recorder.render(&mut text);
        orch_serving::process::write_series(&mut text, &|name| self.recorder.policy().shows(name));
        self.write_tasks(&mut text);
        text
    }

    /// Under the reference's brand the tasks of the process stand for its threads of execution, because public dashboards show them.
    fn write_tasks(&self, text: &mut String) {
        let shows = self.brand.name == KUBERNETES.name && self.recorder.policy().shows(TASKS);
        if shows && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let tasks = runtime.metrics().num_alive_tasks();
            // A string takes every write.
            let _ = writeln!(
                text,
                "# HELP {TASKS} [ALPHA] Tasks of the process.\n# TYPE {TASKS} gauge\n{TASKS} {tasks}"
            );
        }
    }

    /// Sets counters and histograms to nothing. Gauges stay: they say what is, not what was.
    pub fn reset(&self) {
        self.recorder.reset();
    }

    fn describe_build(&self, features: &Features) {
        let build = [
            ("major", version::MAJOR),
            ("minor", version::MINOR),
            ("git_version", version::GIT_VERSION),
            ("git_commit", version::GIT_COMMIT),
            ("git_tree_state", version::GIT_TREE_STATE),
            ("build_date", version::BUILD_DATE),
            ("platform", version::PLATFORM),
        ];
        self.recorder.set(&format!("{}_build_info", self.brand.name), &build, 1.0);
        let versions = [
            ("binary", version::GIT_VERSION.trim_start_matches('v')),
            ("component", self.brand.component_prefix),
            ("emulation", version::MAJOR_MINOR),
            ("min_compat", crate::config::PREVIOUS_MINOR),
        ];
        self.recorder.set("version_info", &versions, 1.0);
        for feature in features.known() {
            let stage = match feature.stage {
                Stage::Alpha => "ALPHA",
                Stage::Beta => "BETA",
                Stage::Stable => "",
            };
            let value = if feature.is_on { 1.0 } else { 0.0 };
            let labels = [("name", feature.name), ("stage", stage)];
            self.recorder.set(&format!("{}_feature_enabled", self.brand.name), &labels, value);
        }
    }
}

#[cfg(test)]
mod tests;
