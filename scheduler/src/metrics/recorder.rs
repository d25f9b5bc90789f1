//! Series by name and label set, and their text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use parking_lot::RwLock;

use super::catalog::{self, CATALOG, DEFAULT_BUCKETS, Kind, Stability};
use super::cell::{Count, Level, Spread};
use super::policy::Policy;

/// Most series of a family: far more than labels of the program's own words make. Beyond it nothing is counted.
pub(super) const SERIES_MAX: usize = 10_000;

/// Counts values of labels that were replaced.
const REPLACED: &str = "cardinality_enforcement_unexpected_categorizations_total";

type Labels = Vec<(String, String)>;

#[derive(Clone, Debug)]
enum Cell {
    Count(Arc<Count>),
    Level(Arc<Level>),
    Spread(Arc<Spread>),
}

/// The series of one name.
#[derive(Debug)]
struct Family {
    kind: Kind,
    series: BTreeMap<Labels, Cell>,
}

/// The recorder.
#[derive(Debug)]
pub(super) struct Recorder {
    policy: Policy,
    families: RwLock<BTreeMap<String, Family>>,
}

impl Recorder {
    pub(super) fn new(policy: Policy) -> Recorder {
        Recorder { policy, families: RwLock::default() }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Makes the series that are there from the start, and counts definitions.
    pub(super) fn fill(&self) {
        for definition in CATALOG {
            for labels in definition.initial {
                self.cell(definition.name, owned(labels), definition.kind);
            }
            if self.policy.is_disabled(definition.name) {
                self.count("disabled_metrics_total", &[]);
            } else if self.policy.hides(definition) {
                self.count("hidden_metrics_total", &[]);
            } else {
                let stability = definition.stability.name();
                let deprecated = definition.deprecated.unwrap_or_default();
                let labels = [("deprecated_version", deprecated), ("stability_level", stability)];
                self.count("registered_metrics_total", &labels);
            }
        }
    }

    /// Sets a gauge.
    pub(super) fn set(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        if let Some(Cell::Level(level)) = self.cell(name, owned(labels), Kind::Gauge) {
            level.set(value);
        }
    }

    fn count(&self, name: &str, labels: &[(&str, &str)]) {
        if let Some(Cell::Count(count)) = self.cell(name, owned(labels), Kind::Counter) {
            count.increment(1);
        }
    }

    pub(super) fn reset(&self) {
        for family in self.families.read().values() {
            for cell in family.series.values() {
                match cell {
                    Cell::Count(count) => count.reset(),
                    Cell::Spread(spread) => spread.reset(),
                    Cell::Level(_) => {}
                }
            }
        }
    }

    /// The series with these labels, made where it is missing. `None` where the metric is not shown, has another type,
    /// or has too many series.
    fn cell(&self, name: &str, labels: Labels, kind: Kind) -> Option<Cell> {
        if !self.policy.shows(name) {
            return None;
        }
        let labels = self.allowed(name, labels);
        if let Some(family) = self.families.read().get(name)
            && let Some(cell) = family.series.get(&labels)
        {
            return (family.kind == kind).then(|| cell.clone());
        }
        let mut families = self.families.write();
        let family =
            families.entry(name.to_owned()).or_insert_with(|| Family { kind, series: BTreeMap::new() });
        if family.kind != kind || family.series.len() >= SERIES_MAX {
            return None;
        }
        let new = || match kind {
            Kind::Counter => Cell::Count(Arc::default()),
            Kind::Gauge => Cell::Level(Arc::default()),
            Kind::Histogram => {
                let buckets = catalog::definition(name).map_or(DEFAULT_BUCKETS, |found| found.buckets);
                Cell::Spread(Arc::new(Spread::new(buckets)))
            }
        };
        Some(family.series.entry(labels).or_insert_with(new).clone())
    }

    /// The labels with values that are allowed, in order of names.
    fn allowed(&self, name: &str, mut labels: Labels) -> Labels {
        let mut replaced = 0;
        for (label, value) in &mut labels {
            if let Some(other) = self.policy.replaced(name, label, value) {
                other.clone_into(value);
                replaced += 1;
            }
        }
        labels.sort();
        if replaced > 0
            && name != REPLACED
            && let Some(Cell::Count(count)) = self.cell(REPLACED, Vec::new(), Kind::Counter)
        {
            count.increment(replaced);
        }
        labels
    }

    fn registered(&self, key: &Key, kind: Kind) -> Option<Cell> {
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned()));
        self.cell(key.name(), labels.collect(), kind)
    }

    /// Appends the text of every family.
    pub(super) fn render(&self, text: &mut String) {
        for (name, family) in self.families.read().iter() {
            let definition = catalog::definition(name);
            let stability = definition.map_or(Stability::Alpha, |found| found.stability);
            let help = definition.map(|found| found.help).unwrap_or_default();
            let deprecated = match definition.and_then(|found| found.deprecated) {
                Some(version) => format!("(Deprecated since {version}) "),
                None => String::new(),
            };
            // A string takes every write.
            let _ = writeln!(text, "# HELP {name} [{}] {deprecated}{help}", stability.name());
            let _ = writeln!(text, "# TYPE {name} {}", family.kind.name());
            for (labels, cell) in &family.series {
                match cell {
                    Cell::Count(count) => sample(text, name, labels, None, &count.value()),
                    Cell::Level(level) => sample(text, name, labels, None, &level.value()),
                    Cell::Spread(spread) => histogram(text, name, labels, spread),
                }
            }
        }
    }
}

fn owned(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn histogram(text: &mut String, name: &str, labels: &Labels, spread: &Spread) {
    let mut total = 0;
    for (bound, count) in spread.cumulative() {
        let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
        sample(text, &format!("{name}_bucket"), labels, Some(&bound), &count);
        total = count;
    }
    sample(text, &format!("{name}_sum"), labels, None, &spread.sum());
    sample(text, &format!("{name}_count"), labels, None, &total);
}

fn sample(
    text: &mut String,
    name: &str,
    labels: &Labels,
    bound: Option<&str>,
    value: &dyn std::fmt::Display,
) {
    text.push_str(name);
    let bound = bound.map(|bound| ("le", bound));
    let all = labels.iter().map(|(label, value)| (label.as_str(), value.as_str())).chain(bound);
    for (at, (label, value)) in all.enumerate() {
        text.push(if at == 0 { '{' } else { ',' });
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        // A string takes every write.
        let _ = write!(text, "{label}=\"{value}\"");
    }
    if !labels.is_empty() || bound.is_some() {
        text.push('}');
    }
    // A string takes every write.
    let _ = writeln!(text, " {value}");
}

impl metrics::Recorder for Recorder {
    // Descriptions are the catalog's.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.registered(key, Kind::Counter) {
            Some(Cell::Count(count)) => Counter::from_arc(count),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.registered(key, Kind::Gauge) {
            Some(Cell::Level(level)) => Gauge::from_arc(level),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.registered(key, Kind::Histogram) {
            Some(Cell::Spread(spread)) => Histogram::from_arc(spread),
            _ => Histogram::noop(),
        }
    }
}
