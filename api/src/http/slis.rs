//! `/metrics/slis`: what the checks of health found, for indicators of the service level.
//!
//! Owns its two metrics, under the reference's names after the brand's. They are apart from all others, so that they can be collected
//! often. A check is counted where a request for a whole endpoint carries it out; one that is excluded, or asked for alone,
//! is not. Names of checks and endpoints are the program's own, which bounds the series.

use std::collections::BTreeMap;
use std::fmt::Write;

use orch_proto::Brand;
use parking_lot::Mutex;

use crate::metrics::Exposition;

/// Name of the gauge without the brand's prefix: whether a check passed when it was last carried out.
const LAST: &str = "_healthcheck";

/// Name of the counter of checks by their result, without the brand's prefix.
const TOTAL: &str = "_healthchecks_total";

/// The results of the checks, by name and endpoint.
#[derive(Default)]
pub(super) struct Slis(Mutex<BTreeMap<(&'static str, &'static str), Results>>);

/// The results of one check at one endpoint.
#[derive(Default)]
struct Results {
    passes: bool,
    successes: u64,
    errors: u64,
}

impl Slis {
    /// Counts that the check `name` passed or failed for `endpoint`.
    pub(super) fn observe(&self, name: &'static str, endpoint: &'static str, passes: bool) {
        let mut all = self.0.lock();
        let results = all.entry((name, endpoint)).or_default();
        results.passes = passes;
        *(if passes { &mut results.successes } else { &mut results.errors }) += 1;
    }

    /// Forgets all results.
    pub(super) fn reset(&self) {
        self.0.lock().clear();
    }

    /// The text of the page; empty before the first check.
    pub(super) fn render(&self, brand: &Brand, exposition: &dyn Exposition) -> String {
        let all = self.0.lock();
        if all.is_empty() {
            return String::new();
        }
        let [last, total] = [LAST, TOTAL].map(|end| format!("{}{end}", brand.name));
        let mut text = exposition.head(&last, "gauge");
        for ((name, endpoint), results) in &*all {
            let passes = u8::from(results.passes);
            // A string takes every write.
            let _ = writeln!(text, "{last}{{name=\"{name}\",type=\"{endpoint}\"}} {passes}");
        }
        text += &exposition.head(&total, "counter");
        for ((name, endpoint), results) in &*all {
            for (status, count) in [("error", results.errors), ("success", results.successes)] {
                if count > 0 {
                    // A string takes every write.
                    let _ = writeln!(
                        text,
                        "{total}{{name=\"{name}\",status=\"{status}\",type=\"{endpoint}\"}} {count}"
                    );
                }
            }
        }
        text
    }
}
