//! Debug pages: the levels, the queues, and the waiting requests, in the reference's text format.
//!
//! Owns the tables and their columns. Queues without a request are shown as empty, up to a bound.

use std::fmt::Write;

use super::config::Placed;
use super::level::LevelView;
use super::usage::Totals;
use super::{FlowControl, usage};
use crate::follow::Applied;
use crate::request::Query;

// Paths of the debug pages.
const LEVELS: &str = "/debug/api_priority_and_fairness/dump_priority_levels";
const QUEUES: &str = "/debug/api_priority_and_fairness/dump_queues";
const REQUESTS: &str = "/debug/api_priority_and_fairness/dump_requests";

/// Rows of the queues of one level: beyond this, only queues with a request are shown.
const QUEUES_SHOWN_MAX: u32 = 4096;

/// Seat-microseconds of a seat-second.
const SEAT_SECOND: f64 = 1e6;

/// Rows of cells, the headings first.
type Table = Vec<Vec<String>>;

impl FlowControl {
    /// The text of a debug page; `None` for any other path.
    pub(crate) fn page(&self, path: &str, query: &Query, applied: &Applied) -> Option<String> {
        // few: three pages.
        let page = self.pages().iter().find(|page| **page == path)?;
        let config = self.config(applied);
        Some(print(&match *page {
            LEVELS => levels(&config.levels),
            QUEUES => queues(&config.levels),
            _ => requests(&config.levels, !query.text("includeRequestDetails").is_empty()),
        }))
    }

    /// The paths of the debug pages that are served.
    pub(crate) fn pages(&self) -> &'static [&'static str] {
        if self.options.is_fair { &[LEVELS, QUEUES, REQUESTS] } else { &[] }
    }

    /// Brings the gauges that no request sets up to date.
    pub(crate) fn refresh_gauges(&self) {
        let Some(config) = self.config.load_full() else { return };
        for placed in &config.levels {
            let view = placed.level.view();
            placed.level.gauges.current_r.set(seat_seconds(view.r));
            placed.level.gauges.in_use.set(f64::from(view.totals.seats_in_use));
        }
    }

    /// Appends the histograms of what the levels use over time to the text of the metrics.
    pub(crate) fn write_usage(&self, text: &mut String, head: impl Fn(&str) -> String) {
        let Some(config) = self.config.load_full() else { return };
        let levels = config.levels.iter();
        let levels: Vec<_> =
            levels.map(|placed| (placed.level.name.as_str(), placed.level.usage())).collect();
        usage::write(text, &levels, head);
    }
}

fn headings(names: &[&str]) -> Table {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

/// The cells of a level without queues, behind its name.
fn nothing(name: &str, columns: usize) -> Vec<String> {
    std::iter::once(name.to_owned()).chain((1..columns).map(|_| "<none>".to_owned())).collect()
}

fn levels(levels: &[Placed]) -> Table {
    const COLUMNS: [&str; 6] = [
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
    ];
    let mut table = headings(&COLUMNS);
    for placed in levels {
        let name = placed.level.name.clone();
        let LevelView { totals: Totals { waiting, executing, .. }, queues, .. } = placed.level.view();
        let active = queues.iter().filter(|queue| !queue.waiting.is_empty()).count();
        let is_idle = waiting == 0 && executing == 0;
        table.push(vec![
            name,
            active.to_string(),
            is_idle.to_string(),
            false.to_string(),
            waiting.to_string(),
            executing.to_string(),
        ]);
    }
    table
}

fn queues(levels: &[Placed]) -> Table {
    const COLUMNS: [&str; 9] = [
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ];
    let mut table = headings(&COLUMNS);
    for placed in levels {
        let (name, view) = (&placed.level.name, placed.level.view());
        if view.queue_count == 0 {
            table.push(nothing(name, COLUMNS.len()));
            continue;
        }
        let idle = if view.queue_count > QUEUES_SHOWN_MAX { 0 } else { view.queue_count };
        let mut busy = view.queues.iter().peekable();
        let mut indexes: Vec<u32> = (0..idle).collect();
        indexes.extend(view.queues.iter().map(|queue| queue.index).filter(|index| *index >= idle));
        for index in indexes {
            let queue = busy.next_if(|queue| queue.index == index);
            let pending = queue.map_or(0, |queue| queue.waiting.len());
            let (executing, in_use) = queue.map_or((0, 0), |queue| (queue.executing, queue.seats_in_use));
            let (next_r, seats) = queue.map_or((0, 0), |queue| (queue.next_r, queue.seats_waiting));
            table.push(vec![
                name.clone(),
                index.to_string(),
                pending.to_string(),
                executing.to_string(),
                in_use.to_string(),
                format!("{:.8}ss", seat_seconds(next_r)),
                seats.to_string(),
                seats.to_string(),
                format!("{:.8}ss", seat_seconds(super::queueset::work_of(seats))),
            ]);
        }
    }
    table
}

fn requests(levels: &[Placed], has_details: bool) -> Table {
    let mut table = headings(&[
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
    ]);
    if has_details {
        let details =
            ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];
        table[0].extend(details.map(str::to_owned));
    }
    for placed in levels {
        placed.level.for_each_waiting(|queue, place, seats, waiter| {
            let mut row = vec![
                placed.level.name.clone(),
                waiter.schema.clone(),
                queue.to_string(),
                place.to_string(),
                waiter.distinguisher.clone(),
                time_text(waiter.arrived),
                seats.to_string(),
                "0".to_owned(),
                "0s".to_owned(),
            ];
            if has_details {
                let details = [
                    &waiter.user,
                    &waiter.verb,
                    &waiter.path,
                    &waiter.namespace,
                    &waiter.name,
                    &waiter.api_version,
                    &waiter.resource,
                    &waiter.subresource,
                ];
                row.extend(details.map(String::clone));
            }
            table.push(row);
        });
    }
    table
}

/// The table with aligned columns: each cell but the last of a row ends with a comma, and columns are a space apart.
fn print(table: &Table) -> String {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = table.iter().filter(|row| at + 1 < row.len());
        // The comma and the space, and eight characters at least.
        cells.map(|row| row[at].chars().count() + 2).max().unwrap_or(0).max(8)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in table {
        for (at, cell) in row.iter().enumerate() {
            let clean: String = cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            // A string takes every write.
            let _ = match at + 1 == row.len() {
                true => write!(text, "{clean}"),
                false => write!(text, "{:width$}", format!("{clean},"), width = widths[at]),
            };
        }
        text.push('\n');
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "shown with eight digits")]
fn seat_seconds(seat_micros: i64) -> f64 {
    seat_micros as f64 / SEAT_SECOND
}

/// RFC 3339 with the microseconds.
fn time_text(micros: u64) -> String {
    let seconds = crate::ambient::Timestamp(micros).seconds_text();
    let fraction = format!("{:06}", micros % 1_000_000);
    match fraction.trim_end_matches('0') {
        "" => seconds,
        digits => format!("{}.{digits}Z", seconds.trim_end_matches('Z')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let cells = |row: &[&str]| row.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let table = vec![cells(&["PriorityLevelName", "Index"]), cells(&["system", "0"])];
        assert_eq!(print(&table), "PriorityLevelName, Index\nsystem,            0\n");
        assert_eq!(time_text(1_767_322_145_120_000), "2026-01-02T02:49:05.12Z");
        assert_eq!(time_text(1_767_322_145_000_000), "2026-01-02T02:49:05Z");
    }
}
