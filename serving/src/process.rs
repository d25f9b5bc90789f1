//! The series of the process: start, processor time, memory and open files, as the kernel has them.
//!
//! Owns the reading of `/proc`, which the kernel answers from memory, so that it may happen on a thread of the runtime. A
//! value that cannot be read is left out.

use std::fmt::Write;
use std::fs;

use rustix::process::{Resource, getrlimit};

/// Clock ticks of `/proc/self/stat` in a second: the same on every architecture of Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the series of this process that `shows` lets through, in the text form of metrics.
pub fn write_series(text: &mut String, shows: &dyn Fn(&str) -> bool) {
    for (name, kind, help, value) in series() {
        if let Some(value) = value.filter(|_| shows(name)) {
            // A string takes every write.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
    }
}

/// Name, kind, help and value.
type Series = (&'static str, &'static str, &'static str, Option<f64>);

#[expect(clippy::cast_precision_loss, reason = "limits may be rounded, and counts of files are small")]
fn series() -> [Series; 9] {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the program's name in parentheses, may hold spaces.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    // By the numbers of proc(5), which count from 1; the first two fields are cut off.
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let seconds = |ticks: Option<f64>| ticks.map(|ticks| ticks / TICKS_PER_SECOND);
    let (received, transmitted) = network_bytes();
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    let files_max = getrlimit(Resource::Nofile).current.map(|limit| limit as f64);
    // Without a limit the largest number, as in the reference.
    let memory_max = getrlimit(Resource::As).current.unwrap_or(u64::MAX) as f64;
    let start = sum(boot_seconds(), seconds(field(22)));
    [
        ("process_cpu_seconds_total", "counter", "User and system time.", seconds(sum(field(14), field(15)))),
        ("process_max_fds", "gauge", "Most files that may be open.", files_max),
        (
            "process_network_receive_bytes_total",
            "counter",
            "Bytes received in the network namespace.",
            received,
        ),
        (
            "process_network_transmit_bytes_total",
            "counter",
            "Bytes sent in the network namespace.",
            transmitted,
        ),
        ("process_open_fds", "gauge", "Open files.", open),
        ("process_resident_memory_bytes", "gauge", "Memory in use.", resident_bytes()),
        ("process_start_time_seconds", "gauge", "Start, in seconds since 1970.", start),
        ("process_virtual_memory_bytes", "gauge", "Virtual memory.", field(23)),
        ("process_virtual_memory_max_bytes", "gauge", "Most virtual memory.", Some(memory_max)),
    ]
}

/// When the machine started, in seconds since 1970.
fn boot_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// Bytes that the network namespace of the process has received and sent.
fn network_bytes() -> (Option<f64>, Option<f64>) {
    let text = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
    network_bytes_in(&text)
}

/// The same of the content of that file: for each group a line of names, and one of their values.
fn network_bytes_in(text: &str) -> (Option<f64>, Option<f64>) {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let named: Vec<_> = names.split(' ').zip(values.split(' ')).collect();
    let value = |wanted: &str| {
        let (_, text) = named.iter().find(|(name, _)| *name == wanted)?;
        text.parse::<f64>().ok()
    };
    (value("InOctets"), value("OutOctets"))
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 12 7\n";
        assert_eq!(network_bytes_in(text), (Some(12.0), Some(7.0)));
        assert_eq!(network_bytes_in("IpExt: InOctets\n"), (None, None));
        assert_eq!(network_bytes_in(""), (None, None));
    }

    #[test]
    fn only_series_that_are_shown_are_written() {
        let mut text = String::new();
        write_series(&mut text, &|name| name == "process_open_fds");
        assert!(
            text.starts_with("# HELP process_open_fds Open files.\n# TYPE process_open_fds gauge\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3);
    }
}
