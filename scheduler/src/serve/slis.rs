//! `/metrics/slis`: results of health checks, by check and path, for indicators of the service level.
//!
//! Owns its two metrics, which are apart from all others, so that they can be collected often. A check is counted when a
//! request for the whole path runs it. Names of checks and paths are the program's own, which bounds the series.

use std::collections::BTreeMap;
use std::fmt::Write;

use orch_proto::Brand;
use parking_lot::Mutex;

/// The results of health checks.
#[derive(Debug, Default)]
pub(super) struct Slis(Mutex<BTreeMap<(String, &'static str), Results>>);

/// The results of one check at one path.
#[derive(Debug, Default)]
struct Results {
    is_healthy: bool,
    successes: u64,
    errors: u64,
}

impl Slis {
    /// Counts that the check `name` passed or failed for the path `root`.
    pub(super) fn observe(&self, name: &str, root: &'static str, outcome: &Result<(), String>) {
        let mut results = self.0.lock();
        let results = results.entry((name.to_owned(), root)).or_default();
        results.is_healthy = outcome.is_ok();
        *(if results.is_healthy { &mut results.successes } else { &mut results.errors }) += 1;
    }

    /// Forgets all results.
    pub(super) fn reset(&self) {
        self.0.lock().clear();
    }

    /// The text of the page.
    pub(super) fn render(&self, brand: &Brand) -> String {
        let results = self.0.lock();
        if results.is_empty() {
            return String::new();
        }
        let (single, total) =
            (format!("{}_healthcheck", brand.name), format!("{}_healthchecks_total", brand.name));
        let mut text = format!(
            "# HELP {single} [STABLE] Whether a health check passed when it last ran.\n# TYPE {single} gauge\n"
        );
        for ((name, root), results) in &*results {
            let healthy = u8::from(results.is_healthy);
            // A string takes every write.
            let _ = writeln!(text, "{single}{{name=\"{name}\",type=\"{root}\"}} {healthy}");
        }
        // A string takes every write.
        let _ = writeln!(text, "# HELP {total} [STABLE] Runs of health checks by their results.");
        let _ = writeln!(text, "# TYPE {total} counter");
        for ((name, root), results) in &*results {
            for (status, count) in [("error", results.errors), ("success", results.successes)] {
                if count > 0 {
                    let labels = format!("name=\"{name}\",status=\"{status}\",type=\"{root}\"");
                    // A string takes every write.
                    let _ = writeln!(text, "{total}{{{labels}}} {count}");
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;

    #[test]
    fn results_are_counted_by_check_path_and_status() {
        let slis = Slis::default();
        assert_eq!(slis.render(&ORCH), "");
        slis.observe("ping", "livez", &Ok(()));
        slis.observe("ping", "livez", &Ok(()));
        slis.observe("leaderElection", "healthz", &Ok(()));
        slis.observe("leaderElection", "healthz", &Err("lost".to_owned()));
        let text = slis.render(&KUBERNETES);
        let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            series,
            [
                "kubernetes_healthcheck{name=\"leaderElection\",type=\"healthz\"} 0",
                "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
                "kubernetes_healthchecks_total{name=\"leaderElection\",status=\"error\",type=\"healthz\"} 1",
                "kubernetes_healthchecks_total{name=\"leaderElection\",status=\"success\",type=\"healthz\"} 1",
                "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 2",
            ]
        );
        assert!(slis.render(&ORCH).contains("orch_healthcheck{"));
        slis.reset();
        assert_eq!(slis.render(&ORCH), "");
    }
}
