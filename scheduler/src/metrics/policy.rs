//! Flags that disable metrics and restrict label values.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{self, Definition};
use crate::config::flags::MetricsFlags;

/// Stands for values of labels that no allow-list holds.
const UNEXPECTED: &str = "unexpected";

/// The settings of the metrics flags.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    disabled: BTreeSet<String>,
    shows_hidden: bool,
    /// Allowed values by metric and label.
    allowed: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Policy {
    /// The policy of `flags`, which have been checked.
    pub fn new(flags: &MetricsFlags) -> Policy {
        let mut allowed: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for (key, values) in flags.allow_metric_labels.iter().flat_map(|pairs| &pairs.0) {
            if let Some((metric, label)) = key.split_once(',') {
                let values = values.split(',').map(str::to_owned);
                allowed.entry((metric.to_owned(), label.to_owned())).or_default().extend(values);
            }
        }
        let disabled = flags.disabled_metrics.iter().flat_map(|list| list.0.iter().cloned());
        let version = flags.show_hidden_metrics_for_version.as_deref();
        Policy {
            disabled: disabled.collect(),
            shows_hidden: version.is_some_and(|version| !version.is_empty()),
            allowed,
        }
    }

    /// Whether the metric `name` is shown. Disabled ones are not, even where hidden ones are.
    pub(super) fn shows(&self, name: &str) -> bool {
        !self.is_disabled(name) && !catalog::definition(name).is_some_and(|found| self.hides(found))
    }

    pub(super) fn is_disabled(&self, name: &str) -> bool {
        self.disabled.contains(name)
    }

    /// Whether the metric is hidden, since it was deprecated in a former minor version.
    pub(super) fn hides(&self, definition: &Definition) -> bool {
        definition.deprecated.is_some() && !self.shows_hidden
    }

    /// The value that the label gets instead of `value`; `None` where it may have that.
    pub(super) fn replaced(&self, metric: &str, label: &str, value: &str) -> Option<&'static str> {
        if self.allowed.is_empty() {
            return None;
        }
        let allowed = self.allowed.get(&(metric.to_owned(), label.to_owned()))?;
        (!allowed.contains(value)).then_some(UNEXPECTED)
    }
}
