//! Dependents that stay because an owner is absent whose end nobody has seen.
//!
//! Owns their number as a metric, and the warning about them: only a person can tell whether such an owner is gone, or is yet to come with an
//! import or a restore.

use metrics::gauge;
use orch_bounded::WarningLimit;

use crate::controllers::client::Moment;

/// The metric of their number.
const METRIC: &str = "orch_garbage_undecided_dependents";

/// Limits the warnings: clients write the references.
static UNDECIDED: WarningLimit<Moment> = WarningLimit::new();

/// Where the dependents are: the label of the metric.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keeper {
    /// They are this cluster's own; their owners are at aggregated servers.
    Cluster,
    /// They are at aggregated servers.
    Aggregated,
}

impl Keeper {
    fn as_str(self) -> &'static str {
        match self {
            Keeper::Cluster => "cluster",
            Keeper::Aggregated => "aggregated",
        }
    }
}

/// The number of such dependents that a leader knows.
#[derive(Debug)]
pub(super) struct Undecided {
    keeper: Keeper,
    count: usize,
}

impl Undecided {
    /// None is known.
    pub(super) fn new(keeper: Keeper) -> Undecided {
        Undecided { keeper, count: 0 }
    }

    /// Notes that there are `count`; `example` names one.
    pub(super) fn set(&mut self, count: usize, now: Moment, example: impl FnOnce() -> String) {
        if count == self.count {
            return;
        }
        gauge!(METRIC, "place" => self.keeper.as_str()).set(count as f64);
        if count > self.count
            && let Some(left_out) = UNDECIDED.pass_at(now)
        {
            tracing::warn!(
                keeper = self.keeper.as_str(),
                count,
                example = example(),
                left_out,
                "dependents stay because owners are absent whose end nobody has seen"
            );
        }
        self.count = count;
    }
}

impl Drop for Undecided {
    fn drop(&mut self) {
        // Another leader counts them.
        if self.count > 0 {
            gauge!(METRIC, "place" => self.keeper.as_str()).set(0.0);
        }
    }
}

#[cfg(test)]
impl Undecided {
    pub(super) fn count(&self) -> usize {
        self.count
    }
}
