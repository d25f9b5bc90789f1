//! Series of single plans: durations by extension point and plugin, and which plugins had something to do.
//!
//! Owns the series that are asked for several times with each plan, on the thread that plans. They are looked up once,
//! which spares that thread the look-up in the recorder; a value of a label that an allow-list replaces is therefore
//! counted as such when its series is first asked for, and not with each sample.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::{Counter, Histogram};
use parking_lot::Mutex;

use crate::plan::costs::{Cost, Costs, Status};
use crate::plugin::{ExtensionPoint, Plugin};

/// The series at hand.
pub(super) struct Plans {
    profiles: Vec<Arc<str>>,
    durations: Mutex<HashMap<DurationKey, Histogram>>,
    evaluations: Mutex<HashMap<(usize, ExtensionPoint, Plugin), Counter>>,
}

/// Durations of plugins have no profile, as in the reference.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum DurationKey {
    ExtensionPoint(usize, ExtensionPoint, Status),
    Plugin(Plugin, ExtensionPoint, Status),
}

impl Plans {
    pub(super) fn new(profiles: Vec<Arc<str>>) -> Plans {
        Plans { profiles, durations: Mutex::default(), evaluations: Mutex::default() }
    }

    /// Takes in what a plan of a profile cost.
    pub(super) fn observe(&self, profile: usize, costs: &Costs) {
        for cost in &costs.measured {
            self.measured(profile, cost);
        }
        for (point, plugins) in &costs.evaluated {
            match point {
                // Evaluations are counted at these extension points only, as in the reference.
                ExtensionPoint::PreFilter
                | ExtensionPoint::Filter
                | ExtensionPoint::PreScore
                | ExtensionPoint::Score => {
                    plugins.iter().for_each(|plugin| self.evaluated(profile, *point, plugin));
                }
                ExtensionPoint::PostFilter if plugins.contains(Plugin::DefaultPreemption) => {
                    ::metrics::counter!("scheduler_preemption_attempts_total").increment(1);
                }
                _ => {}
            }
        }
    }

    /// Takes in a duration.
    pub(super) fn measured(&self, profile: usize, cost: &Cost) {
        let Cost { point, plugin, status, took } = *cost;
        let key = match plugin {
            None => DurationKey::ExtensionPoint(profile, point, status),
            Some(plugin) => DurationKey::Plugin(plugin, point, status),
        };
        let mut durations = self.durations.lock();
        let series = durations.entry(key).or_insert_with(|| self.duration(key));
        series.record(took.as_secs_f64());
    }

    fn evaluated(&self, profile: usize, point: ExtensionPoint, plugin: Plugin) {
        let mut evaluations = self.evaluations.lock();
        let series = evaluations.entry((profile, point, plugin)).or_insert_with(|| {
            ::metrics::counter!(
                "scheduler_plugin_evaluation_total",
                "extension_point" => point.name(),
                "plugin" => plugin.name(),
                "profile" => self.profiles[profile].to_string()
            )
        });
        series.increment(1);
    }

    fn duration(&self, key: DurationKey) -> Histogram {
        match key {
            DurationKey::ExtensionPoint(profile, point, status) => ::metrics::histogram!(
                "scheduler_framework_extension_point_duration_seconds",
                "extension_point" => point.name(),
                "profile" => self.profiles[profile].to_string(),
                "status" => status.name()
            ),
            DurationKey::Plugin(plugin, point, status) => ::metrics::histogram!(
                "scheduler_plugin_execution_duration_seconds",
                "extension_point" => point.name(),
                "plugin" => plugin.name(),
                "status" => status.name()
            ),
        }
    }
}
