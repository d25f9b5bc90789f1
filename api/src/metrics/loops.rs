//! Numbers of the loops' work queues and of their requests, under the names of the reference's libraries.
//!
//! Owns the series of queues, by the name of the loop, and of requests, by code and method. Adding takes no lock: a loop looks its
//! queue's numbers up once. The time that work under way has taken is worked out when the text is written, so that an idle loop
//! need not wake for it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::codes::CodeCounts;
use super::histogram::{Histogram, Lines, seconds};
use super::write_series;

/// Upper bounds of waits and of work in seconds: the reference's, ten nanoseconds to ten seconds.
const WORK: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// Upper bounds of the durations of requests in seconds: those of the reference's clients.
const REQUESTS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The methods of the loops' requests.
const METHODS: [&str; 4] = ["DELETE", "PATCH", "POST", "PUT"];

/// The host in the labels of requests: they do not leave the process.
const HOST: &str = "loopback";

/// The numbers of all loops.
#[derive(Debug)]
pub(crate) struct LoopFigures {
    queues: Mutex<BTreeMap<&'static str, Arc<QueueFigures>>>,
    /// By the index in [`METHODS`].
    requests: [RequestFigures; METHODS.len()],
}

/// The requests of one method.
#[derive(Debug)]
struct RequestFigures {
    codes: CodeCounts,
    durations: Histogram<{ REQUESTS.len() }>,
}

/// The numbers of one work queue.
#[derive(Debug)]
pub(crate) struct QueueFigures {
    adds: AtomicU64,
    retries: AtomicU64,
    depth: AtomicI64,
    waits: Histogram<{ WORK.len() }>,
    works: Histogram<{ WORK.len() }>,
    /// Keys that are being worked on.
    taken: AtomicU64,
    /// The sum of the times at which their work began, in microseconds.
    starts_micros: AtomicU64,
    /// The first of these times; [`NEVER`] where there is no work.
    first_micros: AtomicU64,
}

/// No time.
const NEVER: u64 = u64::MAX;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(NEVER)
}

impl Default for LoopFigures {
    fn default() -> Self {
        let of_method = || RequestFigures { codes: CodeCounts::default(), durations: Histogram::default() };
        LoopFigures { queues: Mutex::default(), requests: std::array::from_fn(|_| of_method()) }
    }
}

impl LoopFigures {
    /// The numbers of the queue of the loop `name`.
    pub(crate) fn queue(&self, name: &'static str) -> Arc<QueueFigures> {
        self.queues.lock().entry(name).or_insert_with(|| Arc::new(QueueFigures::new())).clone()
    }

    /// Counts a request with `method` that was answered with `code` after `took`. Methods that no loop uses are not counted.
    pub(crate) fn note_request(&self, method: &str, code: u16, took: Duration) {
        // few: the methods of loops.
        let Some(at) = METHODS.iter().position(|known| *known == method) else { return };
        self.requests[at].codes.count(code);
        self.requests[at].durations.observe(&REQUESTS, took.as_secs_f64());
    }

    /// Appends the series, at `now` on the clock of the queues. `head`: the lines before the series of a name and type.
    pub(crate) fn write(&self, text: &mut String, now: Duration, head: impl Fn(&str, &str) -> String) {
        self.write_requests(text, &head);
        let queues = self.queues.lock().clone();
        let mut series = |name: &str, kind: &str, write: &dyn Fn(&mut String, &str, &QueueFigures)| {
            write_series(text, &head, (name, kind), |lines, _| {
                queues.iter().for_each(|(queue, of)| write(lines, &format!("name=\"{queue}\""), of));
            });
        };
        // A string takes every write, here and below.
        series("workqueue_adds_total", "counter", &|text, labels, of| {
            let _ = writeln!(text, "workqueue_adds_total{{{labels}}} {}", of.adds.load(Ordering::Relaxed));
        });
        series("workqueue_depth", "gauge", &|text, labels, of| {
            let _ = writeln!(text, "workqueue_depth{{{labels}}} {}", of.depth.load(Ordering::Relaxed).max(0));
        });
        series("workqueue_longest_running_processor_seconds", "gauge", &|text, labels, of| {
            let longest = of.longest_micros(micros(now));
            let name = "workqueue_longest_running_processor_seconds";
            let _ = writeln!(text, "{name}{{{labels}}} {}", seconds(longest));
        });
        series("workqueue_queue_duration_seconds", "histogram", &|text, labels, of| {
            let lines = Lines::new("workqueue_queue_duration_seconds", &WORK, 0);
            lines.write(text, labels, &of.waits.snapshot());
        });
        series("workqueue_retries_total", "counter", &|text, labels, of| {
            let _ =
                writeln!(text, "workqueue_retries_total{{{labels}}} {}", of.retries.load(Ordering::Relaxed));
        });
        series("workqueue_unfinished_work_seconds", "gauge", &|text, labels, of| {
            let all = of.unfinished_micros(micros(now));
            let _ = writeln!(text, "workqueue_unfinished_work_seconds{{{labels}}} {}", seconds(all));
        });
        series("workqueue_work_duration_seconds", "histogram", &|text, labels, of| {
            let lines = Lines::new("workqueue_work_duration_seconds", &WORK, 0);
            lines.write(text, labels, &of.works.snapshot());
        });
    }

    fn write_requests(&self, text: &mut String, head: impl Fn(&str, &str) -> String) {
        let all = || METHODS.iter().zip(&self.requests);
        let mut series = |name: &str, kind: &str, write: &dyn Fn(&mut String, &str)| {
            write_series(text, &head, (name, kind), write);
        };
        series("rest_client_request_duration_seconds", "histogram", &|text, name| {
            let lines = Lines::new(name, &REQUESTS, 0);
            for (method, requests) in all() {
                let labels = format!("host=\"{HOST}\",verb=\"{method}\"");
                lines.write(text, &labels, &requests.durations.snapshot());
            }
        });
        series("rest_client_requests_total", "counter", &|text, name| {
            for (method, requests) in all() {
                for (code, count) in requests.codes.counted() {
                    // A string takes every write.
                    let _ = writeln!(
                        text,
                        "{name}{{code=\"{code}\",host=\"{HOST}\",method=\"{method}\"}} {count}"
                    );
                }
            }
        });
    }
}

impl QueueFigures {
    fn new() -> Self {
        QueueFigures {
            adds: AtomicU64::default(),
            retries: AtomicU64::default(),
            depth: AtomicI64::default(),
            waits: Histogram::default(),
            works: Histogram::default(),
            taken: AtomicU64::default(),
            starts_micros: AtomicU64::default(),
            first_micros: AtomicU64::new(NEVER),
        }
    }

    /// Counts keys that are due from now on, and not worked on yet.
    pub(crate) fn note_due(&self, keys: usize) {
        self.adds.fetch_add(keys as u64, Ordering::Relaxed);
        self.depth.fetch_add(i64::try_from(keys).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Counts the begin of the work for a key that was due for `waited`, at `now`.
    pub(crate) fn note_taken(&self, waited: Duration, now: Duration) {
        self.depth.fetch_sub(1, Ordering::Relaxed);
        self.waits.observe(&WORK, waited.as_secs_f64());
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.starts_micros.fetch_add(micros(now), Ordering::Relaxed);
        self.first_micros.fetch_min(micros(now), Ordering::Relaxed);
    }

    /// Counts the end of the work for a key that began at `start`, at `now`. `first`: when the first of the others began.
    pub(crate) fn note_released(&self, start: Duration, now: Duration, first: Option<Duration>) {
        self.works.observe(&WORK, now.saturating_sub(start).as_secs_f64());
        self.forget_taken(start, first);
    }

    /// Counts a further attempt for a key.
    pub(crate) fn note_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets keys that are due, and those that are being worked on since `starts`: their loop has ended.
    pub(crate) fn forget(&self, due: usize, starts: impl Iterator<Item = Duration>) {
        self.depth.fetch_sub(i64::try_from(due).unwrap_or(i64::MAX), Ordering::Relaxed);
        starts.for_each(|start| self.forget_taken(start, None));
    }

    fn forget_taken(&self, start: Duration, first: Option<Duration>) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.starts_micros.fetch_sub(micros(start), Ordering::Relaxed);
        self.first_micros.store(first.map_or(NEVER, micros), Ordering::Relaxed);
    }

    fn longest_micros(&self, now: u64) -> u64 {
        match self.first_micros.load(Ordering::Relaxed) {
            NEVER => 0,
            first => now.saturating_sub(first),
        }
    }

    fn unfinished_micros(&self, now: u64) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed);
        // Work that begins or ends between the two reads may be in one of them only.
        now.saturating_mul(taken).saturating_sub(self.starts_micros.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(figures: &LoopFigures, seconds: u64) -> String {
        let mut text = String::new();
        figures
            .write(&mut text, Duration::from_secs(seconds), |name, kind| format!("# TYPE {name} {kind}\n"));
        text
    }

    #[test]
    fn a_queue_shows_its_depth_its_waits_and_the_work_under_way() {
        let figures = LoopFigures::default();
        let queue = figures.queue("garbage");
        assert!(Arc::ptr_eq(&queue, &figures.queue("garbage")));
        let at = Duration::from_secs;
        queue.note_due(3);
        queue.note_taken(at(1), at(10));
        queue.note_taken(at(2), at(12));
        queue.note_retry();
        let found = text(&figures, 15);
        for line in [
            "# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"garbage\"} 1\n",
            "workqueue_adds_total{name=\"garbage\"} 3\n",
            "workqueue_queue_duration_seconds_bucket{name=\"garbage\",le=\"1e-08\"} 0\n",
            "workqueue_queue_duration_seconds_bucket{name=\"garbage\",le=\"1\"} 1\n",
            "workqueue_longest_running_processor_seconds{name=\"garbage\"} 5\n",
            "workqueue_unfinished_work_seconds{name=\"garbage\"} 8\n",
            "workqueue_retries_total{name=\"garbage\"} 1\n",
        ] {
            assert!(found.contains(line), "{line}: {found}");
        }
        queue.note_released(at(10), at(15), Some(at(12)));
        let found = text(&figures, 15);
        assert!(found.contains("workqueue_work_duration_seconds_sum{name=\"garbage\"} 5\n"), "{found}");
        assert!(found.contains("workqueue_unfinished_work_seconds{name=\"garbage\"} 3\n"), "{found}");
        queue.forget(1, [at(12)].into_iter());
        let found = text(&figures, 99);
        assert!(found.contains("workqueue_depth{name=\"garbage\"} 0\n"), "{found}");
        assert!(found.contains("workqueue_unfinished_work_seconds{name=\"garbage\"} 0\n"), "{found}");
    }

    #[test]
    fn requests_are_counted_by_code_and_method() {
        let figures = LoopFigures::default();
        assert_eq!(text(&figures, 0), "");
        figures.note_request("PATCH", 200, Duration::from_millis(20));
        figures.note_request("PATCH", 409, Duration::from_millis(20));
        figures.note_request("TRACE", 200, Duration::ZERO);
        let found = text(&figures, 0);
        let line = "rest_client_requests_total{code=\"409\",host=\"loopback\",method=\"PATCH\"} 1\n";
        assert!(found.contains(line) && !found.contains("TRACE"), "{found}");
        let line =
            "rest_client_request_duration_seconds_bucket{host=\"loopback\",verb=\"PATCH\",le=\"0.025\"} 2\n";
        assert!(found.contains(line), "{found}");
    }
}
