//! The figures as a table beside the reference's, and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::driver::Outcome;
use super::options::{Options, WorkName};
use super::process::Memory;
use super::reference::{Figure, MEMORY_MB, Unit};
use super::stages::Profile;

/// Everything measured in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    setting: Setting,
    works: Vec<Row>,
    memory: Vec<Memory>,
    /// Milliseconds from start until the slowest server was ready; `None` if the benchmark did not start them.
    ready_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Setting {
    size: u32,
    objects: u32,
    threads: u32,
    http2: bool,
    sharers: Option<u32>,
    bindings: Option<u32>,
    seconds: f64,
    count: Option<u64>,
}

/// The figures of one work. Rates are per second, times in microseconds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    work: &'static str,
    clients: u32,
    servers: usize,
    operations: u64,
    seconds: f64,
    rate: f64,
    bytes_per_second: f64,
    latency_us: Latency,
    errors: BTreeMap<String, u64>,
    server_cpu_us_per_operation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
    reference: Option<Comparison>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

/// The reference's figures and ours as a multiple of them.
#[derive(Debug, Serialize)]
struct Comparison {
    unit: &'static str,
    rate_low: f64,
    rate_high: f64,
    /// Ours over the reference's better and worse run.
    multiple_low: f64,
    multiple_high: f64,
    multiple_wanted: f64,
    cpu_us: Option<f64>,
    cpu_us_wanted: Option<f64>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        works: Vec<Row>,
        memory: Vec<Memory>,
        ready_ms: Option<u64>,
    ) -> Self {
        let setting = Setting {
            size: options.size,
            objects: options.objects,
            threads: options.threads,
            http2: options.http2,
            sharers: options.http2.then_some(options.sharers),
            bindings: options.bindings,
            seconds: options.duration.as_secs_f64(),
            count: options.count,
        };
        Self { setting, works, memory, ready_ms }
    }

    /// Operations that failed, in all works.
    pub fn errors(&self) -> u64 {
        self.works.iter().flat_map(|row| row.errors.values()).sum()
    }

    /// Works without a successful operation: their other figures mean nothing.
    pub fn idle_works(&self) -> usize {
        self.works.iter().filter(|row| row.operations == 0).count()
    }
}

impl Row {
    pub(super) fn new(name: WorkName, clients: u32, servers: usize, outcome: Outcome) -> Self {
        let tally = &outcome.tally;
        let seconds = outcome.elapsed.as_secs_f64();
        let rate = tally.operations as f64 / seconds;
        let bytes_per_second = tally.bytes as f64 / seconds;
        let cpu = outcome.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / (tally.operations.max(1)) as f64);
        let at = |quantile| tally.latencies.value_at_quantile(quantile);
        Self {
            work: name.word(),
            clients,
            servers,
            operations: tally.operations,
            seconds,
            rate,
            bytes_per_second,
            latency_us: Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: tally.latencies.max() },
            errors: tally.errors.clone(),
            server_cpu_us_per_operation: cpu,
            profile: outcome.profile,
            reference: Figure::of(name)
                .map(|figure| Comparison::new(&figure, servers, rate, bytes_per_second)),
        }
    }

    fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Comparison {
    fn new(figure: &Figure, servers: usize, rate: f64, bytes_per_second: f64) -> Self {
        let (rate_low, rate_high) = figure.rates(servers);
        let (unit, ours) = match figure.unit {
            Unit::PerSecond => ("/s", rate),
            Unit::Megabytes => ("MB/s", bytes_per_second / 1e6),
        };
        Self {
            unit,
            rate_low,
            rate_high,
            multiple_low: ours / rate_high,
            multiple_high: ours / rate_low,
            multiple_wanted: figure.aim_multiple,
            cpu_us: figure.cpu_us,
            cpu_us_wanted: figure.aim_cpu_us,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<13}{:>8}{:>10}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>10}",
            "work", "clients", "count", "rate/s", "MB/s", "p50", "p90", "p99", "max", "errors", "CPU/op"
        )?;
        for row in &self.works {
            writeln!(f, "{}", Line(row))?;
        }
        writeln!(
            f,
            "\n{:<13}{:>22}{:>16}{:>9}{:>14}{:>12}",
            "beside", "reference", "ours is", "wanted", "its CPU", "wanted"
        )?;
        for row in &self.works {
            if let Some(comparison) = &row.reference {
                writeln!(f, "{:<13}{comparison}", row.work)?;
            }
        }
        for row in self.works.iter().filter(|row| !row.errors.is_empty()) {
            writeln!(f, "errors of {}: {:?}", row.work, row.errors)?;
        }
        for row in &self.works {
            if let Some(profile) = &row.profile {
                let cpu = row.server_cpu_us_per_operation.unwrap_or_default();
                writeln!(
                    f,
                    "\n{}, {} clients\n{}",
                    row.work,
                    row.clients,
                    profile.table(cpu, row.operations)
                )?;
            }
        }
        self.write_memory(f)
    }
}

impl Report {
    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |kb: u64| kb as f64 / 1000.0;
        for memory in &self.memory {
            write!(
                f,
                "memory of {} {}: {:.0} MB resident, {:.0} at most",
                memory.program,
                memory.pid,
                mb(memory.rss_kb),
                mb(memory.peak_kb)
            )?;
            match memory.pss_kb {
                Some(pss) => writeln!(f, ", {:.0} its share", mb(pss))?,
                None => writeln!(f)?,
            }
        }
        if !self.memory.is_empty() {
            let (low, high) = MEMORY_MB;
            writeln!(
                f,
                "reference, server and store: {low:.0} to {high:.0} MB; wanted: under {:.0}",
                low / 8.0
            )?;
        }
        if let Some(ready) = self.ready_ms {
            writeln!(f, "start to ready: {ready} ms; reference: about 6 s; wanted: under 1 s")?;
        }
        Ok(())
    }
}

struct Line<'a>(&'a Row);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.0;
        let latency = &row.latency_us;
        let cpu = optional_time(row.server_cpu_us_per_operation);
        write!(
            f,
            "{:<13}{:>8}{:>10}{:>11.0}{:>9.1}{:>9}{:>9}{:>9}{:>9}{:>8}{cpu:>10}",
            row.work,
            row.clients,
            row.operations,
            row.rate,
            row.bytes_per_second / 1e6,
            time(latency.p50 as f64),
            time(latency.p90 as f64),
            time(latency.p99 as f64),
            time(latency.max as f64),
            row.errors_total(),
        )
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = if self.rate_low < self.rate_high {
            format!("{:.0} to {:.0} {}", self.rate_low, self.rate_high, self.unit)
        } else {
            format!("{:.0} {}", self.rate_low, self.unit)
        };
        let multiple = format!("{:.1}x to {:.1}x", self.multiple_low, self.multiple_high);
        let wanted = format!("{:.0}x", self.multiple_wanted);
        write!(
            f,
            "{range:>22}{multiple:>16}{wanted:>9}{:>14}{:>12}",
            optional_time(self.cpu_us),
            optional_time(self.cpu_us_wanted)
        )
    }
}

/// Formats a time in microseconds, or its absence.
fn optional_time(micros: Option<f64>) -> String {
    micros.map_or("-".to_owned(), time)
}

/// Formats a time given in microseconds.
fn time(micros: f64) -> String {
    if micros < 1000.0 {
        return format!("{micros:.0}us");
    }
    if micros < 1_000_000.0 {
        return format!("{:.1}ms", micros / 1e3);
    }
    format!("{:.2}s", micros / 1e6)
}
