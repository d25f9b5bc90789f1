//! Usage of a level's limits, as histograms over time.
//!
//! Owns the observations that weigh by the time for which a value held: a level that was full for half of the time has
//! half of its weight in the last bucket, whatever the rate of requests. As in the reference the unit of weight is a
//! nanosecond. The text is written here, because recorders of metrics count single observations.

use std::fmt::Write;

/// Buckets of shares of seats. Those for 0.99 and 1 tell full from almost full.
const SEAT_SHARES: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Buckets of requests as shares of a limit of seats or of places in queues, which are mostly small.
const REQUEST_SHARES: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Buckets of the demand in nominal limits, which may be several.
const DEMANDS: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// Nanoseconds of a microsecond.
const NANOS: u64 = 1_000;

/// The numbers of a level's requests and of their seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub waiting: u32,
    pub executing: u32,
    pub seats_waiting: u32,
    pub seats_in_use: u32,
}

impl Totals {
    /// Seats in use and waited for.
    pub(super) fn demand(self) -> u32 {
        self.seats_in_use + self.seats_waiting
    }
}

/// Denominators of the utilization metrics, in seats and queue places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Seats of the level until the next division.
    pub current: u32,
    /// Seats of the level by its shares.
    pub nominal: u32,
    /// Places in its queues; 0 without queues.
    pub places: u32,
}

/// The use of a level over time.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    limits: Limits,
    seats: TimedHistogram,
    executing: TimedHistogram,
    waiting: TimedHistogram,
    demand: TimedHistogram,
}

impl Usage {
    pub(super) fn new() -> Usage {
        Usage {
            limits: Limits { current: 0, nominal: 0, places: 0 },
            seats: TimedHistogram::new(SEAT_SHARES),
            executing: TimedHistogram::new(REQUEST_SHARES),
            waiting: TimedHistogram::new(REQUEST_SHARES),
            demand: TimedHistogram::new(DEMANDS),
        }
    }

    /// Later numbers are shares of `limits`.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The numbers were `totals` for `micros`.
    pub(super) fn add(&mut self, micros: u64, totals: Totals) {
        let Limits { current, nominal, places } = self.limits;
        self.seats.add(micros, share(totals.seats_in_use, current));
        self.executing.add(micros, share(totals.executing, current));
        self.waiting.add(micros, share(totals.waiting, places));
        self.demand.add(micros, share(totals.demand(), nominal));
    }
}

/// `part` of `whole`, which counts as 1 at least: an exempt level may have no seats of its own.
fn share(part: u32, whole: u32) -> f64 {
    f64::from(part) / f64::from(whole.max(1))
}

/// Weights of values by bucket.
#[derive(Clone, Debug)]
struct TimedHistogram {
    /// Upper bounds, ascending.
    bounds: &'static [f64],
    /// Nanoseconds for which the value was in each bucket; the last bucket has no bound.
    nanos: Vec<u64>,
    /// The value times the nanoseconds for which it held.
    sum: f64,
}

impl TimedHistogram {
    fn new(bounds: &'static [f64]) -> TimedHistogram {
        TimedHistogram { bounds, nanos: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, micros: u64, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        let nanos = micros.saturating_mul(NANOS);
        self.nanos[at] = self.nanos[at].saturating_add(nanos);
        #[expect(clippy::cast_precision_loss, reason = "a minute of nanoseconds is exact")]
        {
            self.sum += value * nanos as f64;
        }
    }

    /// Appends the series called `name` with `labels`.
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut total = 0_u64;
        let bounds = self.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, nanos) in bounds.zip(&self.nanos) {
            total = total.saturating_add(*nanos);
            // A string takes every write.
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {total}", self.sum);
    }
}

/// Selects one of the histograms.
type Selected = fn(&Usage) -> &TimedHistogram;

/// Appends the histograms of `levels`, each a name and its use, in the text format of Prometheus. Names of levels need no
/// escapes: they are names of objects. `head`: the lines before the series of a name.
pub(super) fn write(text: &mut String, levels: &[(&str, Usage)], head: impl Fn(&str) -> String) {
    if levels.is_empty() {
        return;
    }
    let mut series = |name: &str, select: &[(&str, Selected)]| {
        text.push_str(&head(name));
        for (level, usage) in levels {
            for (phase, histogram) in select {
                let labels = format!("{phase}priority_level=\"{level}\"");
                histogram(usage).write(text, name, &labels);
            }
        }
    };
    let (executing, waiting) = ("phase=\"executing\",", "phase=\"waiting\",");
    series("apiserver_flowcontrol_priority_level_seat_utilization", &[(executing, |usage| &usage.seats)]);
    series(
        "apiserver_flowcontrol_priority_level_request_utilization",
        &[(executing, |usage| &usage.executing), (waiting, |usage| &usage.waiting)],
    );
    series("apiserver_flowcontrol_demand_seats", &[("", |usage| &usage.demand)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str) -> String {
        format!("# TYPE {name} histogram\n")
    }

    #[test]
    fn values_weigh_by_the_time_for_which_they_held() {
        let mut usage = Usage::new();
        usage.set_limits(Limits { current: 10, nominal: 5, places: 100 });
        let totals = |seats_in_use| Totals { waiting: 2, executing: 5, seats_waiting: 5, seats_in_use };
        usage.add(30, totals(5));
        usage.add(10, totals(10));
        let mut text = String::new();
        write(&mut text, &[("l", usage)], head);
        for expected in [
            "# TYPE apiserver_flowcontrol_priority_level_seat_utilization histogram\n",
            "_seat_utilization_bucket{phase=\"executing\",priority_level=\"l\",le=\"0.4\"} 0\n",
            "_seat_utilization_bucket{phase=\"executing\",priority_level=\"l\",le=\"0.5\"} 30000\n",
            "_seat_utilization_bucket{phase=\"executing\",priority_level=\"l\",le=\"1\"} 40000\n",
            "_seat_utilization_bucket{phase=\"executing\",priority_level=\"l\",le=\"+Inf\"} 40000\n",
            "_seat_utilization_sum{phase=\"executing\",priority_level=\"l\"} 25000\n",
            "_seat_utilization_count{phase=\"executing\",priority_level=\"l\"} 40000\n",
            "_request_utilization_bucket{phase=\"waiting\",priority_level=\"l\",le=\"0.01\"} 0\n",
            "_request_utilization_bucket{phase=\"waiting\",priority_level=\"l\",le=\"0.03\"} 40000\n",
            "_request_utilization_bucket{phase=\"executing\",priority_level=\"l\",le=\"0.5\"} 40000\n",
            "_demand_seats_bucket{priority_level=\"l\",le=\"2\"} 30000\n",
            "_demand_seats_bucket{priority_level=\"l\",le=\"4\"} 40000\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn a_level_without_seats_or_queues_has_shares_of_one() {
        let mut usage = Usage::new();
        usage.add(1, Totals { seats_in_use: 3, executing: 3, ..Totals::default() });
        let mut text = String::new();
        write(&mut text, &[("exempt", usage)], head);
        assert!(
            text.contains("_seat_utilization_sum{phase=\"executing\",priority_level=\"exempt\"} 3000\n"),
            "{text}"
        );
        write(&mut text, &[], head);
    }
}
