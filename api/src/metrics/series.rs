//! The numbers of one kind of request, and their text.
//!
//! Owns counters, a gauge and histograms that live as long as the kind of the requests is served: a recorder of the process would
//! keep the series of every definition there ever was. Adding takes no lock.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::histogram::{Histogram, Shift, Snapshot, seconds};
use super::write_series;

/// Codes with a counter of their own; others share one, labelled `other`.
pub(super) const CODES: [u16; 24] = [
    101, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 501, 502,
    503, 504, 0,
];

/// Upper bounds of durations in seconds: the reference's.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// So many of the first bounds are left out of the service level's histogram, as in the reference.
const SLI_LEFT_OUT: usize = 2;

/// Upper bounds of the bytes of responses: a kilobyte to a gigabyte, as in the reference.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// A count for each of [`CODES`].
pub(super) type Codes = [AtomicU64; CODES.len()];

/// The numbers of one kind of request.
#[derive(Debug)]
pub(super) struct Series {
    /// By the index of the code in [`CODES`].
    codes: Codes,
    durations: Histogram<{ DURATIONS.len() }>,
    /// The durations without waits for webhooks and seats. `None` before the first request that waited.
    waits: OnceLock<Box<Shift<{ DURATIONS.len() }>>>,
    /// Terminated requests by the index of the code in [`CODES`]. `None` before the first.
    terminations: OnceLock<Box<Codes>>,
    /// `None` before the first that lasts.
    long_running: OnceLock<AtomicI64>,
    /// `None` before the first read.
    sizes: OnceLock<Box<Histogram<{ SIZES.len() }>>>,
}

/// The labels of a series, as text, with those of the scope of `SENT` metrics apart.
#[derive(Clone, Debug)]
pub(super) struct LabelText {
    /// All labels.
    pub(super) all: String,
    /// Those without `dry_run`.
    pub(super) sent: String,
}

impl Series {
    pub(super) fn new() -> Series {
        Series {
            codes: Default::default(),
            durations: Histogram::new(&DURATIONS),
            waits: OnceLock::new(),
            terminations: OnceLock::new(),
            long_running: OnceLock::new(),
            sizes: OnceLock::new(),
        }
    }

    pub(super) fn count(&self, code: u16) {
        count(&self.codes, code);
    }

    /// Counts a request that the server ended early to protect itself.
    pub(super) fn count_terminated(&self, code: u16) {
        let terminations = self.terminations.get_or_init(Box::default);
        count(terminations, code);
    }

    /// Observes a duration, of which the request waited `waited_micros` for webhooks and seats.
    pub(super) fn observe_micros(&self, micros: u64, waited_micros: u64) {
        let duration = seconds(micros);
        self.durations.observe(duration);
        if waited_micros > 0 {
            let waits = self.waits.get_or_init(Box::default);
            waits.lower(&DURATIONS, duration, waited_micros.min(micros));
        }
    }

    /// The durations without waits.
    fn service_level(&self) -> Snapshot<{ DURATIONS.len() }> {
        let durations = self.durations.snapshot();
        match self.waits.get() {
            Some(waits) => durations.shifted(waits),
            None => durations,
        }
    }

    pub(super) fn observe_bytes(&self, bytes: f64) {
        self.sizes.get_or_init(|| Box::new(Histogram::new(&SIZES))).observe(bytes);
    }

    /// Adds to the number of those under way.
    pub(super) fn add_long_running(&self, count: i64) {
        self.long_running.get_or_init(AtomicI64::default).fetch_add(count, Ordering::Relaxed);
    }
}

/// Counts `code`.
pub(super) fn count(codes: &Codes, code: u16) {
    // few: the codes of this server.
    let at = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
    codes[at].fetch_add(1, Ordering::Relaxed);
}

/// The codes that were counted, as labels show them, with their counts.
pub(super) fn counted(codes: &Codes) -> impl Iterator<Item = (String, u64)> {
    let counts = CODES.iter().zip(codes).map(|(code, count)| (*code, count.load(Ordering::Relaxed)));
    counts.filter(|(_, count)| *count > 0).map(|(code, count)| {
        let code = if code == 0 { "other".to_owned() } else { code.to_string() };
        (code, count)
    })
}

/// Appends the text of `all`, each with its labels. `head`: the lines before the series of a name and type.
pub(super) fn write(text: &mut String, all: &[(&LabelText, &Series)], head: impl Fn(&str, &str) -> String) {
    let mut series = |name: &str, kind: &str, write: &dyn Fn(&mut String, &str)| {
        write_series(text, &head, (name, kind), write);
    };
    // Series that differ in `dry_run` are one in the metrics that lack the label.
    let mut sent: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for (labels, series) in all {
        sent.entry(&labels.sent).or_default().push(series);
    }
    series("apiserver_longrunning_requests", "gauge", &|text, name| {
        for (labels, series) in all {
            if let Some(count) = series.long_running.get() {
                // A string takes every write.
                let _ = writeln!(text, "{name}{{{}}} {}", labels.sent, count.load(Ordering::Relaxed));
            }
        }
    });
    series("apiserver_request_duration_seconds", "histogram", &|text, name| {
        all.iter().for_each(|(labels, series)| series.durations.write(text, name, &labels.all));
    });
    series("apiserver_request_sli_duration_seconds", "histogram", &|text, name| {
        for (labels, series) in &sent {
            let mut levels = series.iter().map(|series| series.service_level());
            let Some(mut sum) = levels.next() else { continue };
            levels.for_each(|level| sum.add(&level));
            sum.write(text, name, labels, SLI_LEFT_OUT);
        }
    });
    series("apiserver_request_terminations_total", "counter", &|text, name| {
        for (labels, series) in &sent {
            let all = series.iter().filter_map(|series| series.terminations.get());
            let mut codes: BTreeMap<String, u64> = BTreeMap::new();
            all.flat_map(|all| counted(all))
                .for_each(|(code, count)| *codes.entry(code).or_default() += count);
            for (code, count) in codes {
                let _ = writeln!(text, "{name}{{{labels},code=\"{code}\"}} {count}");
            }
        }
    });
    series("apiserver_request_total", "counter", &|text, name| {
        for (labels, series) in all {
            for (code, count) in counted(&series.codes) {
                let _ = writeln!(text, "{name}{{{},code=\"{code}\"}} {count}", labels.all);
            }
        }
    });
    series("apiserver_response_sizes", "histogram", &|text, name| {
        for (labels, series) in all {
            if let Some(sizes) = series.sizes.get() {
                sizes.write(text, name, &labels.sent);
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
        let labels = LabelText { all: "verb=\"GET\",dry_run=\"\"".into(), sent: "verb=\"GET\"".into() };
        let mut text = String::new();
        let run_dry = LabelText { all: "verb=\"GET\",dry_run=\"All\"".into(), ..labels.clone() };
        write(&mut text, &[(&labels, &busy), (&run_dry, &dry), (&labels, &idle)], |name, kind| {
            format!("# TYPE {name} {kind}\n")
        });
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
        write(&mut none, &[(&labels, &idle)], |name, _| name.to_owned());
        assert_eq!(none, "");
    }
}
