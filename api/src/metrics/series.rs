//! The numbers of one kind of request, and their text.
//!
//! Owns counters, a gauge and histograms that live as long as the kind of the requests is served: a recorder of the process would
//! keep the series of every definition there ever was. Adding takes no lock.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

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

/// Upper bounds of the bytes of responses: a kilobyte to a gigabyte, as in the reference.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// The numbers of one kind of request.
#[derive(Debug)]
pub(super) struct Series {
    /// By the index of the code in [`CODES`].
    codes: [AtomicU64; CODES.len()],
    durations: Histogram<{ DURATIONS.len() }>,
    /// `None` before the first that lasts.
    long_running: OnceLock<AtomicI64>,
    /// `None` before the first read.
    sizes: OnceLock<Box<Histogram<{ SIZES.len() }>>>,
}

/// Observations by bucket.
#[derive(Debug)]
struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    /// Of each bound; those above it are in none.
    buckets: [AtomicU64; N],
    count: AtomicU64,
    /// The bits of an `f64`.
    sum: AtomicU64,
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
            long_running: OnceLock::new(),
            sizes: OnceLock::new(),
        }
    }

    pub(super) fn count(&self, code: u16) {
        // few: the codes of this server.
        let at = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
        self.codes[at].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn observe_seconds(&self, seconds: f64) {
        self.durations.observe(seconds);
    }

    pub(super) fn observe_bytes(&self, bytes: f64) {
        self.sizes.get_or_init(|| Box::new(Histogram::new(&SIZES))).observe(bytes);
    }

    /// Adds to the number of those under way.
    pub(super) fn add_long_running(&self, count: i64) {
        self.long_running.get_or_init(AtomicI64::default).fetch_add(count, Ordering::Relaxed);
    }
}

/// Appends the text of `all`, each with its labels. `head`: the lines before the series of a name and type.
pub(super) fn write<'a>(
    text: &mut String,
    all: &[(&LabelText, &'a Series)],
    head: impl Fn(&str, &str) -> String,
) {
    let mut series = |name: &str, kind: &str, write: &dyn Fn(&mut String, &str, &LabelText, &'a Series)| {
        let mut lines = String::new();
        for (labels, series) in all {
            write(&mut lines, name, labels, series);
        }
        if !lines.is_empty() {
            text.push_str(&head(name, kind));
            text.push_str(&lines);
        }
    };
    series("apiserver_longrunning_requests", "gauge", &|text, name, labels, series| {
        if let Some(count) = series.long_running.get() {
            // A string takes every write.
            let _ = writeln!(text, "{name}{{{}}} {}", labels.sent, count.load(Ordering::Relaxed));
        }
    });
    series("apiserver_request_duration_seconds", "histogram", &|text, name, labels, series| {
        series.durations.write(text, name, &labels.all);
    });
    // The same numbers: no time of a request is spent on webhooks, which the reference leaves out of this one.
    series("apiserver_request_sli_duration_seconds", "histogram", &|text, name, labels, series| {
        series.durations.write(text, name, &labels.all);
    });
    series("apiserver_request_total", "counter", &|text, name, labels, series| {
        for (code, count) in CODES.iter().zip(&series.codes) {
            let count = count.load(Ordering::Relaxed);
            let code = if *code == 0 { "other".to_owned() } else { code.to_string() };
            if count > 0 {
                let _ = writeln!(text, "{name}{{{},code=\"{code}\"}} {count}", labels.all);
            }
        }
    });
    series("apiserver_response_sizes", "histogram", &|text, name, labels, series| {
        if let Some(sizes) = series.sizes.get() {
            sizes.write(text, name, &labels.sent);
        }
    });
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [f64; N]) -> Self {
        let buckets = std::array::from_fn(|_| AtomicU64::default());
        let (count, sum) = (AtomicU64::default(), AtomicU64::new(0.0_f64.to_bits()));
        Histogram { bounds, buckets, count, sum }
    }

    fn observe(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // It always gives a sum.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Appends the text of the series, if it has observations.
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        // Observations that come meanwhile are in the next text.
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let mut total = 0;
        let count = self.count.load(Ordering::Relaxed).max(buckets.iter().sum());
        if count == 0 {
            return;
        }
        for (bound, bucket) in self.bounds.iter().zip(buckets) {
            total += bucket;
            // A string takes every write.
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_was_observed_and_no_empty_series() {
        let (busy, idle) = (Series::new(), Series::new());
        busy.count(200);
        busy.count(200);
        busy.count(299);
        busy.observe_seconds(0.03);
        busy.observe_seconds(0.05);
        busy.observe_seconds(70.0);
        busy.observe_bytes(1e6);
        busy.add_long_running(2);
        busy.add_long_running(-1);
        let labels = LabelText { all: "verb=\"GET\",dry_run=\"\"".into(), sent: "verb=\"GET\"".into() };
        let mut text = String::new();
        write(&mut text, &[(&labels, &busy), (&labels, &idle)], |name, kind| {
            format!("# TYPE {name} {kind}\n")
        });
        for expected in [
            "# TYPE apiserver_longrunning_requests gauge\napiserver_longrunning_requests{verb=\"GET\"} 1\n",
            "# TYPE apiserver_request_total counter\napiserver_request_total{verb=\"GET\",dry_run=\"\",code=\"200\"} 2\n",
            "apiserver_request_total{verb=\"GET\",dry_run=\"\",code=\"other\"} 1\n",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"0.025\"} 0\n",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"0.05\"} 2\n",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"60\"} 2\n",
            "apiserver_request_sli_duration_seconds_bucket{verb=\"GET\",dry_run=\"\",le=\"+Inf\"} 3\n",
            "apiserver_request_duration_seconds_sum{verb=\"GET\",dry_run=\"\"} 70.08\n",
            "apiserver_response_sizes_bucket{verb=\"GET\",le=\"1000000\"} 1\n",
            "apiserver_response_sizes_count{verb=\"GET\"} 1\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(text.matches("_count").count(), 3, "{text}");
        let mut none = String::new();
        write(&mut none, &[(&labels, &idle)], |name, _| name.to_owned());
        assert_eq!(none, "");
    }
}
