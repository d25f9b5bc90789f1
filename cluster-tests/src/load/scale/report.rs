//! The figures of a work of thousands of watches, as lines and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::link::Crowd;
use crate::load::tally::Tally;

/// Columns of a figure's name in the printed form.
const NAME_COLUMNS: usize = 60;

/// Everything measured in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    work: &'static str,
    figures: Vec<Figure>,
    /// Failures by kind.
    errors: BTreeMap<String, u64>,
    /// Requests that failed after the leader was killed, by kind; they are no errors.
    after_kill: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
    unit: Unit,
}

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    Count,
    Microseconds,
    Kilobytes,
    PerSecond,
    /// Of two figures, or a number of cores.
    Ratio,
}

impl Report {
    pub(super) fn new(work: &'static str) -> Self {
        Self { work, figures: Vec::new(), errors: BTreeMap::new(), after_kill: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, name: impl Into<String>, unit: Unit, value: f64) {
        self.figures.push(Figure { name: name.into(), value, unit });
    }

    pub(super) fn count(&mut self, name: impl Into<String>, value: u64) {
        self.add(name, Unit::Count, value as f64);
    }

    pub(super) fn time(&mut self, name: impl Into<String>, value: Duration) {
        self.add(name, Unit::Microseconds, value.as_secs_f64() * 1e6);
    }

    /// Median, 99th percentile and maximum of `tally`.
    pub(super) fn latencies(&mut self, of: &str, tally: &Tally) {
        let latencies = &tally.latencies;
        let at = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];
        for (word, quantile) in at {
            self.add(
                format!("{of}, {word}"),
                Unit::Microseconds,
                latencies.value_at_quantile(quantile) as f64,
            );
        }
    }

    /// Adds failures to those so far.
    pub(super) fn failures(&mut self, failures: &BTreeMap<String, u64>) {
        for (kind, count) in failures {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
    }

    /// Adds the counters and failures of `crowd`.
    pub(super) fn crowd(&mut self, crowd: &Crowd) {
        let load =
            |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Acquire);
        self.count("events of changes", load(&crowd.events));
        self.count("bookmarks", load(&crowd.bookmarks));
        self.count("streams of watches that ended", load(&crowd.ended));
        self.count("watches resumed from their version", load(&crowd.resumed));
        self.count("watches that listed again", load(&crowd.relisted));
        self.count("answers that said to come back later", load(&crowd.deferred));
        self.count("connections that failed", load(&crowd.connections_failed));
        self.failures(&crowd.failures());
        self.after_kill = crowd.excused();
    }

    /// Failures of all kinds.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.work)?;
        for figure in &self.figures {
            writeln!(f, "  {:<NAME_COLUMNS$}{:>14}", figure.name, shown(figure.value, figure.unit))?;
        }
        if !self.after_kill.is_empty() {
            writeln!(f, "  failed after the leader was killed: {:?}", self.after_kill)?;
        }
        write!(f, "  {:<NAME_COLUMNS$}{:>14}", "errors", self.errors())?;
        if !self.errors.is_empty() {
            write!(f, "  {:?}", self.errors)?;
        }
        Ok(())
    }
}

fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Microseconds if value < 10_000.0 => format!("{value:.0} us"),
        Unit::Microseconds if value < 10_000_000.0 => format!("{:.1} ms", value / 1e3),
        Unit::Microseconds => format!("{:.1} s", value / 1e6),
        Unit::Kilobytes if value.abs() < 10_000.0 => format!("{value:.1} kB"),
        Unit::Kilobytes => format!("{:.1} MB", value / 1e3),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Ratio => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_printed_in_units_that_fit() {
        for (value, unit, want) in [
            (12.0, Unit::Count, "12"),
            (550.4, Unit::Microseconds, "550 us"),
            (12_340.0, Unit::Microseconds, "12.3 ms"),
            (12_340_000.0, Unit::Microseconds, "12.3 s"),
            (-3.26, Unit::Kilobytes, "-3.3 kB"),
            (140_000.0, Unit::Kilobytes, "140.0 MB"),
            (1.0, Unit::Ratio, "1.000"),
        ] {
            assert_eq!(shown(value, unit), want);
        }
    }

    #[test]
    fn failures_of_two_sources_add_up() {
        let mut report = Report::new("watch-idle");
        let failures = BTreeMap::from([("status 503".to_owned(), 2)]);
        report.failures(&failures);
        report.failures(&failures);
        assert_eq!(report.errors(), 4);
        assert!(report.to_string().contains(r#""status 503": 4"#), "{report}");
    }
}
