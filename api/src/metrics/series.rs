//! The numbers of one kind of request, and their text.
//!
//! Owns counters, a gauge and histograms that live as long as the kind of the requests is served: a recorder of the process would
//! keep the series of every definition there ever was. Adding takes no lock. A number that few kinds of requests have takes no room before it
//! is there, because there are thousands of series (`requests`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use super::codes::CodeCounts;
#[cfg(test)]
use super::held::block;
use super::histogram::{Histogram, Lines, Shift, Snapshot, seconds};
use super::write_series;

/// Upper bounds of durations in seconds: the reference's.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// So many of the first bounds are left out of the service level's histogram, as in the reference.
const SLI_LEFT_OUT: usize = 2;

/// Upper bounds of the bytes of responses: a kilobyte to a gigabyte, as in the reference.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// The numbers of one kind of request.
#[derive(Debug)]
pub(super) struct Series {
    codes: CodeCounts,
    durations: Histogram<{ DURATIONS.len() }>,
    /// `None` before the first read.
    sizes: OnceLock<Box<Histogram<{ SIZES.len() }>>>,
    /// `None` before the first request that lasts, waited, or was terminated.
    rare: OnceLock<Box<Rare>>,
}

/// Numbers that few kinds of requests have.
#[derive(Debug, Default)]
struct Rare {
    /// The durations without waits for webhooks and seats. `None` before the first request that waited.
    waits: OnceLock<Box<Shift<{ DURATIONS.len() }>>>,
    /// Terminated requests by their codes. `None` before the first.
    terminations: OnceLock<Box<CodeCounts>>,
    /// `None` before the first that lasts.
    long_running: OnceLock<AtomicI64>,
}

/// The labels of a series, as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LabelText {
    text: String,
    /// Bytes of the labels before `dry_run`, which is the last one.
    sent_bytes: usize,
}

impl LabelText {
    /// The labels `sent`, and `dry_run` with this value.
    pub(super) fn new(sent: String, dry_run: &str) -> LabelText {
        let sent_bytes = sent.len();
        LabelText { text: sent + ",dry_run=\"" + dry_run + "\"", sent_bytes }
    }

    /// All labels.
    fn all(&self) -> &str {
        &self.text
    }

    /// Those without `dry_run`.
    fn sent(&self) -> &str {
        &self.text[..self.sent_bytes]
    }
}

impl Series {
    pub(super) fn new() -> Series {
        Series {
            codes: CodeCounts::default(),
            durations: Histogram::default(),
            sizes: OnceLock::new(),
            rare: OnceLock::new(),
        }
    }

    pub(super) fn count(&self, code: u16) {
        self.codes.count(code);
    }

    /// Counts a request that the server ended early to protect itself.
    pub(super) fn count_terminated(&self, code: u16) {
        self.rare().terminations.get_or_init(Box::default).count(code);
    }

    /// Observes a duration, of which the request waited `waited_micros` for webhooks and seats.
    pub(super) fn observe_micros(&self, micros: u64, waited_micros: u64) {
        let duration = seconds(micros);
        self.durations.observe(&DURATIONS, duration);
        if waited_micros > 0 {
            let waits = self.rare().waits.get_or_init(Box::default);
            waits.lower(&DURATIONS, duration, waited_micros.min(micros));
        }
    }

    /// The durations without waits.
    fn service_level(&self) -> Snapshot<{ DURATIONS.len() }> {
        let durations = self.durations.snapshot();
        match self.rare.get().and_then(|rare| rare.waits.get()) {
            Some(waits) => durations.shifted(waits),
            None => durations,
        }
    }

    pub(super) fn observe_bytes(&self, bytes: f64) {
        self.sizes.get_or_init(Box::default).observe(&SIZES, bytes);
    }

    /// Adds to the number of those under way.
    pub(super) fn add_long_running(&self, count: i64) {
        self.rare().long_running.get_or_init(AtomicI64::default).fetch_add(count, Ordering::Relaxed);
    }

    /// The number of those under way; `None` before the first that lasts.
    fn long_running(&self) -> Option<i64> {
        Some(self.rare.get()?.long_running.get()?.load(Ordering::Relaxed))
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    /// Bytes of its blocks.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let sizes = self.sizes.get().map_or(0, |sizes| block(size_of_val(&**sizes)) + sizes.heap_bytes());
        let rare = self.rare.get().map_or(0, |rare| {
            let waits = rare.waits.get().map_or(0, |waits| block(size_of_val(&**waits)) + waits.heap_bytes());
            let ended = rare.terminations.get();
            let ended = ended.map_or(0, |ended| block(size_of_val(&**ended)) + ended.heap_bytes());
            block(size_of_val(&**rare)) + waits + ended
        });
        self.codes.heap_bytes() + self.durations.heap_bytes() + sizes + rare
    }
}

/// The sum of the histograms of several series; `None` of none.
fn sum<const N: usize>(mut all: impl Iterator<Item = Snapshot<N>>) -> Option<Snapshot<N>> {
    let mut sum = all.next()?;
    all.for_each(|more| sum.add(&more));
    Some(sum)
}

/// Appends the text of `all`, each with its labels, in their order. `head`: the lines before the series of a name and type.
pub(super) fn write(text: &mut String, all: &[(LabelText, &Series)], head: impl Fn(&str, &str) -> String) {
    let mut series = |name: &str, kind: &str, write: &dyn Fn(&mut String, &str)| {
        write_series(text, &head, (name, kind), write);
    };
    // Series that differ in `dry_run` are one in the metrics that lack the label. In their order they are neighbours.
    let sent = || {
        let alike = all.chunk_by(|(one, _), (next, _)| one.sent() == next.sent());
        alike.map(|alike| (alike[0].0.sent(), alike.iter().map(|(_, series)| *series)))
    };
    series("apiserver_longrunning_requests", "gauge", &|text, name| {
        for (labels, alike) in sent() {
            if let Some(count) = alike.filter_map(Series::long_running).reduce(|sum, more| sum + more) {
                // A string takes every write.
                let _ = writeln!(text, "{name}{{{labels}}} {count}");
            }
        }
    });
    series("apiserver_request_duration_seconds", "histogram", &|text, name| {
        let lines = Lines::new(name, &DURATIONS, 0);
        all.iter().for_each(|(labels, series)| lines.write(text, labels.all(), &series.durations.snapshot()));
    });
    series("apiserver_request_sli_duration_seconds", "histogram", &|text, name| {
        let lines = Lines::new(name, &DURATIONS, SLI_LEFT_OUT);
        for (labels, alike) in sent() {
            if let Some(sum) = sum(alike.map(Series::service_level)) {
                lines.write(text, labels, &sum);
            }
        }
    });
    series("apiserver_request_terminations_total", "counter", &|text, name| {
        for (labels, alike) in sent() {
            let mut codes: BTreeMap<String, u64> = BTreeMap::new();
            let all = alike.filter_map(|series| series.rare.get()?.terminations.get());
            all.flat_map(|all| all.counted())
                .for_each(|(code, count)| *codes.entry(code).or_default() += count);
            for (code, count) in codes {
                let _ = writeln!(text, "{name}{{{labels},code=\"{code}\"}} {count}");
            }
        }
    });
    series("apiserver_request_total", "counter", &|text, name| {
        for (labels, series) in all {
            for (code, count) in series.codes.counted() {
                let _ = writeln!(text, "{name}{{{},code=\"{code}\"}} {count}", labels.all());
            }
        }
    });
    series("apiserver_response_sizes", "histogram", &|text, name| {
        let lines = Lines::new(name, &SIZES, 0);
        for (labels, alike) in sent() {
            let sizes = alike.filter_map(|series| series.sizes.get());
            if let Some(sum) = sum(sizes.map(|sizes| sizes.snapshot())) {
                lines.write(text, labels, &sum);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_was_observed_and_no_empty_series() {
        let [busy, dry, idle] = [(); 3].map(|()| Series::new());
        busy.count(200);
        busy.count(200);
        busy.count(299);
        busy.observe_micros(30_000, 0);
        busy.observe_micros(50_000, 0);
        busy.observe_micros(70_000_000, 69_000_000);
        busy.count_terminated(504);
        dry.observe_micros(30_000, 0);
        dry.count_terminated(504);
        busy.observe_bytes(1e6);
        busy.add_long_running(2);
        busy.add_long_running(-1);
        let labels = LabelText::new("verb=\"GET\"".into(), "");
        let mut text = String::new();
        let run_dry = LabelText::new("verb=\"GET\"".into(), "All");
        write(
            &mut text,
            &[(labels.clone(), &busy), (labels.clone(), &idle), (run_dry, &dry)],
            |name, kind| format!("# TYPE {name} {kind}\n"),
        );
        for expected in [
            "# TYPE apiserver_longrunning_requests gauge\napiserver_longrunning_requests{verb=\"GET\"} 1\n",
            "# TYPE apiserver_request_total counter\napiserver_request_total{verb=\"GET\",dry_run=\"\",code=\"200\"} 2\n",
            "apiserver_request_total{verb=\"GET\",dry_run=\"\",code=\"other\"} 1\n",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"0.025\"} 0\n",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"0.05\"} 2\n",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"60\"} 2\n",
            "# TYPE apiserver_request_sli_duration_seconds histogram\napiserver_request_sli_duration_seconds_bucket{verb=\"GET\",le=\"0.05\"} 3\n",
            "apiserver_request_sli_duration_seconds_bucket{verb=\"GET\",le=\"1\"} 4\n",
            "apiserver_request_sli_duration_seconds_bucket{verb=\"GET\",le=\"+Inf\"} 4\n",
            "apiserver_request_terminations_total{verb=\"GET\",code=\"504\"} 2\n",
            "apiserver_request_duration_seconds_sum{verb=\"GET\",dry_run=\"\"} 70.08\n",
            "apiserver_response_sizes_bucket{verb=\"GET\",le=\"1e+06\"} 1\n",
            "apiserver_response_sizes_count{verb=\"GET\"} 1\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(text.matches("_count").count(), 4, "{text}");
        let mut none = String::new();
        write(&mut none, &[(labels, &idle)], |name, _| name.to_owned());
        assert_eq!(none, "");
    }
}
