//! The counter of failures of aggregated servers, under the reference's name.
//!
//! Owns which APIServices it names: clients choose the names, and a series stays as long as the process.

use std::collections::BTreeSet;
use std::sync::Arc;

use metrics::counter;
use parking_lot::Mutex;

use super::availability::Finding;
use crate::aggregation::{MEASURED_MAX, OTHERS};

/// Names that the counter of failures has had as labels: the series of one that is gone stay as long as the process.
const EVER_MEASURED_MAX: usize = 1_000;

/// The APIServices that the counter of failures names.
#[derive(Debug, Default)]
pub(super) struct Measured(Mutex<MeasuredNames>);

#[derive(Debug, Default)]
struct MeasuredNames {
    now: BTreeSet<Arc<str>>,
    ever: BTreeSet<Arc<str>>,
}

impl Measured {
    fn label(&self, name: &Arc<str>) -> String {
        let MeasuredNames { now, ever } = &mut *self.0.lock();
        // set: of names.
        if now.contains(name) {
            return name.to_string();
        }
        let is_full = ever.len() >= EVER_MEASURED_MAX && !ever.contains(name);
        if is_full || now.len() >= MEASURED_MAX {
            return OTHERS.to_owned();
        }
        now.insert(name.clone());
        ever.insert(name.clone());
        name.to_string()
    }

    /// Counts that the server of `name` is away, where that was not known.
    pub(super) fn note(&self, name: &Arc<str>, finding: &Finding, is_new: bool) {
        if is_new && finding.status != "True" {
            let labels = [("name", self.label(name)), ("reason", finding.reason.to_owned())];
            counter!("aggregator_unavailable_apiservice_total", &labels).increment(1);
        }
    }

    /// Forgets `name`, whose server is not looked for any more.
    pub(super) fn forget(&self, name: &Arc<str>) {
        // set: as above.
        self.0.lock().now.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_name_a_bounded_number_of_servers_at_a_time_and_in_all() {
        let (measured, name) = (Measured::default(), |at: usize| Arc::<str>::from(format!("v1.g{at}")));
        for at in 0..MEASURED_MAX {
            assert_eq!(measured.label(&name(at)), *name(at));
        }
        assert_eq!(measured.label(&name(MEASURED_MAX)), OTHERS);
        measured.forget(&name(0));
        assert_eq!(measured.label(&name(MEASURED_MAX)), *name(MEASURED_MAX), "one has made room");
        let is_named = |at: usize| {
            let is_named = measured.label(&name(at)) != OTHERS;
            measured.forget(&name(at));
            is_named
        };
        // The one that has made room keeps its series.
        assert_eq!((1..2 * EVER_MEASURED_MAX).filter(|at| is_named(*at)).count(), EVER_MEASURED_MAX - 1);
        assert!(is_named(1) && !is_named(2 * EVER_MEASURED_MAX));
    }
}
