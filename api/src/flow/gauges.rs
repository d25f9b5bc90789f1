//! The metrics of flow control, under the reference's names.
//!
//! Labels are names of stored schemas and levels, which users with the right to write them choose; their number is that of
//! the objects.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::limits::Bounds;

/// Microseconds in a second.
const SECOND: f64 = 1e6;

/// The series of a level.
pub(super) struct LevelGauges {
    nominal: Gauge,
    lower: Gauge,
    upper: Gauge,
    current: Gauge,
    concurrency_limit: Gauge,
    pub current_r: Gauge,
    pub demand_high: Gauge,
    pub demand_mean: Gauge,
    pub demand_deviation: Gauge,
    pub demand_smoothed: Gauge,
    pub target: Gauge,
    pub in_use: Gauge,
}

impl LevelGauges {
    pub(super) fn of(level: &str) -> LevelGauges {
        let gauge = |name: &'static str| gauge!(name, "priority_level" => level.to_owned());
        LevelGauges {
            nominal: gauge("apiserver_flowcontrol_nominal_limit_seats"),
            lower: gauge("apiserver_flowcontrol_lower_limit_seats"),
            upper: gauge("apiserver_flowcontrol_upper_limit_seats"),
            current: gauge("apiserver_flowcontrol_current_limit_seats"),
            concurrency_limit: gauge("apiserver_flowcontrol_request_concurrency_limit"),
            current_r: gauge("apiserver_flowcontrol_current_r"),
            demand_high: gauge("apiserver_flowcontrol_demand_seats_high_watermark"),
            demand_mean: gauge("apiserver_flowcontrol_demand_seats_average"),
            demand_deviation: gauge("apiserver_flowcontrol_demand_seats_stdev"),
            demand_smoothed: gauge("apiserver_flowcontrol_demand_seats_smoothed"),
            target: gauge("apiserver_flowcontrol_target_seats"),
            in_use: gauge("apiserver_flowcontrol_request_concurrency_in_use"),
        }
    }

    pub(super) fn set_bounds(&self, bounds: Bounds) {
        self.nominal.set(f64::from(bounds.nominal));
        self.lower.set(f64::from(bounds.lower));
        self.upper.set(f64::from(bounds.upper));
        self.concurrency_limit.set(f64::from(bounds.nominal));
    }

    pub(super) fn set_current(&self, seats: u32) {
        self.current.set(f64::from(seats));
    }
}

/// The series of a schema's requests.
pub(super) struct SchemaGauges {
    labels: [(&'static str, String); 2],
    dispatched: Counter,
    in_queue: Gauge,
    in_queue_seats: Gauge,
    executing: Gauge,
    executing_seats: Gauge,
    waited: Histogram,
    waited_in_vain: Histogram,
    executed: Histogram,
    seats: Histogram,
    watches: Histogram,
    queue_length: Histogram,
}

impl SchemaGauges {
    pub(super) fn of(level: &str, schema: &str) -> SchemaGauges {
        let labels = [("priority_level", level.to_owned()), ("flow_schema", schema.to_owned())];
        let with = |name: &'static str, value: &'static str| {
            let [level, schema] = labels.clone();
            [level, schema, (name, value.to_owned())]
        };
        const WAIT: &str = "apiserver_flowcontrol_request_wait_duration_seconds";
        SchemaGauges {
            dispatched: counter!("apiserver_flowcontrol_dispatched_requests_total", &labels),
            in_queue: gauge!("apiserver_flowcontrol_current_inqueue_requests", &labels),
            in_queue_seats: gauge!("apiserver_flowcontrol_current_inqueue_seats", &labels),
            executing: gauge!("apiserver_flowcontrol_current_executing_requests", &labels),
            executing_seats: gauge!("apiserver_flowcontrol_current_executing_seats", &labels),
            waited: histogram!(WAIT, &with("execute", "true")),
            waited_in_vain: histogram!(WAIT, &with("execute", "false")),
            executed: histogram!("apiserver_flowcontrol_request_execution_seconds", &with("type", "regular")),
            seats: histogram!("apiserver_flowcontrol_work_estimated_seats", &labels),
            watches: histogram!("apiserver_flowcontrol_watch_count_samples", &labels),
            queue_length: histogram!("apiserver_flowcontrol_request_queue_length_after_enqueue", &labels),
            labels,
        }
    }

    /// A write's event will reach so many watches.
    pub(super) fn note_watches(&self, watches: u32) {
        self.watches.record(f64::from(watches));
    }

    /// A request waits in a queue that has so many requests now.
    pub(super) fn note_queue(&self, length: usize) {
        self.queue_length.record(f64::from(u32::try_from(length).unwrap_or(u32::MAX)));
    }

    /// A request begins to wait.
    pub(super) fn enqueue(&self, seats: u32) {
        self.in_queue.increment(1.0);
        self.in_queue_seats.increment(f64::from(seats));
    }

    /// A request waits no longer.
    pub(super) fn dequeue(&self, seats: u32) {
        self.in_queue.decrement(1.0);
        self.in_queue_seats.decrement(f64::from(seats));
    }

    /// A request has its seats after `micros`.
    pub(super) fn begin(&self, seats: u32, micros: u64) {
        self.dispatched.increment(1);
        self.executing.increment(1.0);
        self.executing_seats.increment(f64::from(seats));
        self.waited.record(seconds(micros));
        self.seats.record(f64::from(seats));
    }

    /// A request ends after `micros` on its seats.
    pub(super) fn end(&self, seats: u32, micros: u64) {
        self.executing.decrement(1.0);
        self.executing_seats.decrement(f64::from(seats));
        self.executed.record(seconds(micros));
    }

    /// A request is refused after `micros`.
    pub(super) fn refuse(&self, reason: &'static str, micros: u64) {
        let [level, schema] = self.labels.clone();
        let labels = [level, schema, ("reason", reason.to_owned())];
        counter!("apiserver_flowcontrol_rejected_requests_total", &labels).increment(1);
        self.waited_in_vain.record(seconds(micros));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a wait of centuries may be rounded")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / SECOND
}
